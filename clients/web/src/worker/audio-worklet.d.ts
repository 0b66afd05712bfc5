/** What both worklets use of the audio thread's global scope, which TypeScript's DOM types leave out. */

declare class AudioWorkletProcessor {
  readonly port: MessagePort;
}

/** `processor` gets the `processorOptions` of its node. `process` fills the outputs, and returns whether it wants to go on. */
declare function registerProcessor(
  name: string,
  processor: new (
    options: never,
  ) => AudioWorkletProcessor & {
    process(inputs: readonly (readonly Float32Array[])[], outputs: readonly (readonly Float32Array[])[]): boolean;
  },
): void;
