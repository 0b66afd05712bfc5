/** The address of a server as an application writes it, and what it means. */

/** The address of a server, in a page also relative to the document. */
export function addressOf(url: string | URL): URL {
  return new URL(url, globalThis.document?.baseURI);
}

/** The WebSocket address: `ws` beside the server's page, or below a folder; an address `ws:` or `wss:` of anything else is the WebSocket's own. */
export function socketUrl(url: URL): string {
  if (!/^(http|ws)s?:$/.test(url.protocol)) throw new TypeError(`${url.href} is no address of a server: http, https, ws, or wss`);
  const own = url.protocol.startsWith("ws") && !url.pathname.endsWith("/");
  const socket = new URL(own ? url : "ws", url);
  socket.search = socket.hash = "";
  socket.protocol = socket.protocol.replace("http", "ws");
  return socket.href;
}
