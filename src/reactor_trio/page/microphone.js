/** The microphone as blocks of 16-bit samples, mono, 20 ms each. */
import { openStream } from "./capture.js";

const BLOCKS_PER_SECOND = 50;

/** Like `startCamera`, without a preview; `level(value)` gets the loudest sample of each block, from 0 to 1. */
export async function startMicrophone({ sampleRate, deviceId }, level, sink, signal) {
  const audio = { channelCount: { ideal: 1 }, ...(deviceId ? { deviceId: { exact: deviceId } } : {}) };
  const stream = await openStream({ audio }, signal, () => sink.ended(new Error("it was disconnected.")));
  const context = new AudioContext({ sampleRate, latencyHint: "interactive" });
  signal.addEventListener("abort", () => context.close());
  await context.audioWorklet.addModule(new URL("microphone-worklet.js", import.meta.url));
  signal.throwIfAborted();

  const length = Math.round(sampleRate / BLOCKS_PER_SECOND);
  const blocks = new AudioWorkletNode(context, "pcm-blocks", {
    numberOfOutputs: 0, channelCount: 1, channelCountMode: "explicit", processorOptions: { length },
  });
  // Times come from the count of samples. The page's clock only gives the start of the count, again after each pause.
  let start = null;
  context.addEventListener("statechange", () => { start = null; });
  blocks.port.onmessage = ({ data: { samples, first } }) => {
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
    throw new Error(`this browser cannot record at ${sampleRate} Hz (${error.message})`);
  }
  await context.resume();
  return stream;
}

/** The samples as bytes in memory order. Every machine that runs a browser today is little-endian. */
const littleEndian = (samples) => new Uint8Array(samples.buffer, samples.byteOffset, samples.byteLength);
