/** The controls of a page, which each session of a client binds again. */
import type { ControlKind } from "../controls/session-controls.ts";
import type { Client, ClientState } from "./types.ts";

/** Binds until the returned function is called. Viewers have no commands. The bindings are loaded when they are wanted. */
export function followControls(client: Client, canvas: HTMLCanvasElement, kind: ControlKind): () => void {
  if (kind === "none") return () => {};
  let session: string | null = null;
  let unbind = (): void => {};
  const follow = async (state: ClientState): Promise<void> => {
    const live = state.status === "live" || state.status === "resuming" ? state.session : null;
    if ((live?.id ?? null) === session) return;
    unbind();
    unbind = () => {};
    session = live?.id ?? null;
    if (live === null || live.role === "viewer") return;
    const { bindCommands } = await import("../controls/session-controls.ts");
    if (session === live.id) unbind = bindCommands(live.schema, (name, data) => client.command(name, data), canvas, kind);
  };
  const off = client.on("state", (state) => void follow(state));
  void follow(client.state);
  return () => {
    off();
    session = null;
    unbind();
  };
}
