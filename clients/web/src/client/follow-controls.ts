/** The controls of a page, which each session of a client binds again. */
import type { Bindings, ControlKind } from "../controls/session-controls.ts";
import { reportFault } from "./client-core.ts";
import type { Client, ClientState } from "./types.ts";

type Loaded = Promise<Pick<typeof import("../controls/session-controls.ts"), "bindCommands">>;

const loadBindings = (): Loaded => import("../controls/session-controls.ts");

/**
 * Binds until the returned function is called, which releases what is held: the session may go on. Viewers have no commands. The
 * bindings are loaded when they are wanted; if they cannot be, the client's event `error` says so, and the next state tries again.
 */
export function followControls(
  client: Client,
  canvas: HTMLCanvasElement,
  kind: ControlKind,
  load: () => Loaded = loadBindings,
): () => void {
  if (kind === "none") return () => {};
  let session: string | null = null;
  let bound: Bindings | null = null;
  const follow = async (state: ClientState): Promise<void> => {
    const live = state.status === "live" || state.status === "resuming" ? state.session : null;
    if ((live?.id ?? null) === session) return;
    bound?.close();
    bound = null;
    session = live?.id ?? null;
    if (live === null || live.role === "viewer") return;
    try {
      const { bindCommands } = await load();
      if (session === live.id) bound = bindCommands(live.schema, (name, data) => client.command(name, data), canvas, kind);
    } catch (error) {
      if (session !== live.id) return;
      session = null;
      reportFault(client, "controls", (error as Error).message);
    }
  };
  const off = client.on("state", (state) => void follow(state));
  void follow(client.state);
  return () => {
    off();
    session = null;
    bound?.release();
    bound?.close();
  };
}
