/** The codecs that this browser can decode. */
import { CODEC_STRINGS } from "./codec-strings.ts";

type Support<Config> = { isConfigSupported(config: Config): Promise<{ supported?: boolean }> };

/** What this module needs of the global scope. */
export interface DecoderScope {
  readonly VideoDecoder?: Support<VideoDecoderConfig>;
  readonly AudioDecoder?: Support<AudioDecoderConfig>;
}

/** Video codecs, best first. Only a secure context (https, localhost) has WebCodecs; without it only JPEG remains. */
export async function decodableVideo(scope: DecoderScope = globalThis): Promise<string[]> {
  const found = Object.entries(CODEC_STRINGS).map(async ([name, codec]) => ((await supports(scope.VideoDecoder, { codec })) ? name : []));
  return [...(await Promise.all(found)).flat(), "jpeg"];
}

/** Audio codecs, best first. */
export async function decodableAudio(scope: DecoderScope = globalThis): Promise<string[]> {
  const opus = await supports(scope.AudioDecoder, { codec: "opus", sampleRate: 48_000, numberOfChannels: 1 });
  return opus ? ["opus", "pcm_s16le"] : ["pcm_s16le"];
}

async function supports<Config>(decoder: Support<Config> | undefined, config: Config): Promise<boolean> {
  try {
    return (await decoder?.isConfigSupported(config))?.supported === true;
  } catch {
    return false;
  }
}
