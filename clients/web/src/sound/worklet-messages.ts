/** What the page and its audio thread say to each other. */
import type { JitterBufferState } from "./audio-jitter-buffer.ts";

/** What the audio thread receives. */
export type SoundMessage = SoundBlock | "reset";

export interface SoundBlock {
  readonly track: number;
  readonly pts: number;
  readonly rate: number;
  readonly samples: Int16Array<ArrayBuffer> | Float32Array<ArrayBuffer>;
}

/** The state of the jitter buffer at `time`. */
export interface SoundReport extends JitterBufferState {
  readonly time: number;
}
