/** What a server answers by HTTP, of which no more is read than a server of this project may say. */

/** Bytes of an answer that are read at most. */
export const MOST_BYTES: number = 64 << 10;

/** The text of an answer; of one that is longer its beginning. */
export async function textOf({ body }: Response): Promise<string> {
  const reader = body?.getReader();
  const decoder = new TextDecoder();
  let text = "";
  for (let bytes = 0; bytes < MOST_BYTES; ) {
    const { value } = (await reader?.read()) ?? {};
    if (value === undefined) return text + decoder.decode();
    bytes += value.length;
    text += decoder.decode(value.subarray(0, MOST_BYTES), { stream: true });
  }
  void reader?.cancel().catch(() => {}); // what it would still say is of no interest
  return text;
}
