/** The microphone as blocks of 16-bit samples, mono, 20 ms each. */

import type { InputSink } from "./capture.ts";
import { takeStream } from "./streams.ts";

const BLOCKS_PER_SECOND = 50;

/** What the audio thread posts for each block; `first` is the number of its first sample since the start. */
export interface PcmBlock {
  readonly samples: Int16Array<ArrayBuffer>;
  readonly first: number;
}

/** What to ask of the microphone. */
export interface MicrophoneOptions {
  /** Hertz. */
  readonly sampleRate: number;
  /** "" for the user's default. */
  readonly deviceId: string;
  /** A stream to send instead of the microphone's. */
  readonly stream?: MediaStream | null;
  /** Where `microphone-worklet.js` is, if it is not beside this module. */
  readonly worklet?: string | URL | undefined;
}

/** Like `startCamera`, without a preview; `level(value)` gets the loudest sample of each block, from 0 to 1. */
export async function startMicrophone(
  { sampleRate, deviceId, stream: given = null, worklet }: MicrophoneOptions,
  level: (value: number) => void,
  sink: InputSink,
  signal: AbortSignal,
): Promise<MediaStream> {
  const audio = { channelCount: { ideal: 1 }, ...(deviceId ? { deviceId: { exact: deviceId } } : {}) };
  const stream = await takeStream(given, { audio }, signal, sink.ended);
  const context = new AudioContext({ sampleRate, latencyHint: "interactive" });
  signal.addEventListener("abort", () => context.close());
  await context.audioWorklet.addModule(worklet ?? new URL("./microphone-worklet.js", import.meta.url));
  signal.throwIfAborted();

  const length = Math.round(sampleRate / BLOCKS_PER_SECOND);
  const blocks = new AudioWorkletNode(context, "pcm-blocks", {
    numberOfOutputs: 0,
    channelCount: 1,
    channelCountMode: "explicit",
    processorOptions: { length },
  });
  // Times come from the count of samples. The page's clock only gives the start of the count, again after each pause.
  let start: number | null = null;
  context.addEventListener("statechange", () => {
    start = null;
  });
  blocks.port.onmessage = ({ data: { samples, first } }: MessageEvent<PcmBlock>) => {
    if (signal.aborted) return;
    start ??= performance.now() - ((first + length) * 1000) / sampleRate;
    level(samples.reduce((loudest, sample) => Math.max(loudest, Math.abs(sample)), 0) / 32768);
    const number = sink.next(false);
    if (number === null) return;
    sink.deliver(number, start + (first * 1000) / sampleRate, { codec: "pcm_s16le" }, littleEndian(samples));
  };
  blocks.addEventListener("processorerror", () => sink.ended(new Error("the browser's audio processing failed.")));
  try {
    context.createMediaStreamSource(stream).connect(blocks);
  } catch (error) {
    // Firefox does not resample a microphone.
    throw new Error(`this browser cannot record at ${sampleRate} Hz (${(error as Error).message})`);
  }
  await context.resume();
  return stream;
}

/** The samples as bytes in memory order. Every machine that runs a browser today is little-endian. */
const littleEndian = (samples: Int16Array): Uint8Array => new Uint8Array(samples.buffer, samples.byteOffset, samples.byteLength);
