/** Bytes of an answer that are read at most: twice those of a model's introduction, the longest that a server of ours gives the page. */
const MOST_BYTES = 128 << 10;

/** The text of an answer; of a longer one its beginning. */
export async function textOf({ body }: Pick<Response, "body">): Promise<string> {
  const reader = body?.getReader();
  const decoder = new TextDecoder();
  let text = "";
  for (let bytes = 0; bytes < MOST_BYTES; ) {
    const { value } = (await reader?.read()) ?? {};
    if (value === undefined) break;
    text += decoder.decode(value, { stream: true });
    bytes += value.length;
  }
  reader?.cancel().catch(() => {}); // what it would still say is of no interest
  return text;
}
