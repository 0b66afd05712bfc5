/** The text of an answer, of which no more is read than a server of this project may say. */

/** Bytes of an answer about the server that are read at most. */
export const MOST_BYTES: number = 64 << 10;

/** The text of an answer; of one with more than `most` bytes its beginning. */
export async function textOf({ body }: Pick<Response, "body">, most: number = MOST_BYTES): Promise<string> {
  const reader = body?.getReader();
  const decoder = new TextDecoder();
  let text = "";
  for (let bytes = 0; bytes < most; ) {
    const { value } = (await reader?.read()) ?? {};
    if (value === undefined) break;
    text += decoder.decode(value.subarray(0, most - bytes), { stream: true });
    bytes += value.length;
  }
  reader?.cancel().catch(() => {}); // what it would still say is of no interest
  return text;
}
