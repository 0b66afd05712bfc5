/** `connect` of `reactor-trio/session`: a client that neither asks for tracks nor has the code for them. */
import { addressOf } from "./address.ts";
import { ClientCore } from "./client-core.ts";
import type { AnyModel, ModelShape } from "./model.ts";
import type { SessionClient, SessionClientOptions } from "./types.ts";

/** Returns a client at once, which connects. `url` is that of the server or of its WebSocket, in a page also relative to the document. */
export function connect<M extends ModelShape = AnyModel>(url: string | URL, options: SessionClientOptions<M> = {}): SessionClient<M> {
  const client = new ClientCore(addressOf(url), options as SessionClientOptions);
  client.reconnect();
  return client as SessionClient<M>; // M's types are given here, once, as in `client.ts`
}
