/** What inputs need before any device is open: what takes the frames, and error texts. */

/** A frame's description for the server: its codec, and what that codec needs. */
export interface FrameMeta {
  readonly codec: string;
  readonly [field: string]: unknown;
}

/** What takes the frames of a camera or a microphone. */
export interface InputSink {
  /** Returns the number of the next frame, or null to skip it. */
  next(busy: boolean): number | null;
  /** Returns whether the server has requested a keyframe since the last call. */
  takeKeyframe(): boolean;
  /** `at` is the capture time in milliseconds of the page's clock; `key` defaults to true. */
  deliver(number: number, at: number, meta: FrameMeta, payload: Uint8Array, key?: boolean): void;
  /** The device failed, or ended by itself. */
  ended(error: unknown): void;
}

/** Why there is no camera or microphone, and what to do. `device` is its name in the text. */
export function describeRefusal(
  device: string,
  error: unknown,
  { isSecureContext = true }: { readonly isSecureContext?: boolean } = {},
): string {
  const { name, message } = error as Error;
  switch (name) {
    case "NoMediaDevices":
      return isSecureContext
        ? `This browser gives pages no ${device}.`
        : `Browsers give the ${device} only to pages of https or of localhost. Open this page under such an address.`;
    case "NotAllowedError":
    case "SecurityError":
      return `The browser refused the ${device}. Allow it in the site settings beside the address, then start again.`;
    case "NotFoundError":
    case "OverconstrainedError":
      return `No ${device} was found.`;
    case "TrackEnded":
      return `The ${device} has ended: it was disconnected, or its use was stopped.`;
    case "NotReadableError":
    case "AbortError":
      return `The ${device} could not be opened. Another program may be using it.`;
    default:
      return `The ${device} failed: ${message}`;
  }
}
