let done: () => void = () => {};

/** Resolves with the first picture, or after a second without one: what the first picture does not need is loaded then. */
export const settled = new Promise<void>((resolve) => {
  done = resolve;
  setTimeout(resolve, 1000);
});

/** The first picture is there. */
export const settle = (): void => done();
