"""Scripts that tests run in the browser before the page's own."""

# A canvas that a worker draws on gives no context. For the tests it gives one of a copy of what it shows.
READ_BACK = """
const getContext = HTMLCanvasElement.prototype.getContext;
HTMLCanvasElement.prototype.getContext = function (...what) {
  try {
    return getContext.apply(this, what);
  } catch (error) {
    if (error.name !== "InvalidStateError") throw error;
    const copy = document.createElement("canvas");
    Object.assign(copy, { width: this.width, height: this.height });
    const context = getContext.call(copy, "2d", { alpha: false, willReadFrequently: true });
    context.drawImage(this, 0, 0);
    return context;
  }
};
"""
# The page does all of the decoding and drawing itself, as where there is no OffscreenCanvas.
NO_WORKER = "delete HTMLCanvasElement.prototype.transferControlToOffscreen;"
