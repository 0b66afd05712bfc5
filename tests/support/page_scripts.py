"""Scripts that tests run in the browser before the page's own."""

# A canvas that a worker draws on has no context. For the tests its `getContext` returns the context of a copy.
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
# The page decodes and draws without a worker, as in a browser without OffscreenCanvas.
NO_WORKER = "delete HTMLCanvasElement.prototype.transferControlToOffscreen;"
# The red, green and blue of a canvas's middle. Only this pixel is copied: it is asked for at each animation frame.
MIDDLE = """(canvas) => {
    const pixel = new OffscreenCanvas(1, 1).getContext("2d", { alpha: false, willReadFrequently: true });
    pixel.drawImage(canvas, canvas.width >> 1, canvas.height >> 1, 1, 1, 0, 0, 1, 1);
    return [...pixel.getImageData(0, 0, 1, 1).data.slice(0, 3)];
}"""
