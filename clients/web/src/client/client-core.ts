/** The client of a session without its tracks: states, commands, settings, messages, files. `ModelClient` adds the tracks. */

import { type ConnectionRefused, ReactorError, type SessionEnded, UploadRefused } from "../wire/errors.ts";
import type { Session, Settings, SocketOptions } from "../wire/protocol.ts";
import { pageOf } from "../wire/protocol.ts";
import { unlessAborted } from "./abort.ts";
import { socketUrl } from "./address.ts";
import { type Arguments, Commands } from "./commands.ts";
import { type Deferred, deferred } from "./deferred.ts";
import { Emitter } from "./emitter.ts";
import { ItemQueue, type ItemQueueOptions } from "./item-queue.ts";
import { Lifecycle } from "./lifecycle.ts";
import { defaultMemory } from "./memory.ts";
import type { AnyModel, Message } from "./model.ts";
import { sessionInfo, trackInfo } from "./session-info.ts";
import { ModelSetting } from "./setting.ts";
import { ModelTransport } from "./transport.ts";
import type {
  Applied,
  ClientEvents,
  ClientState,
  CommandOptions,
  Diagnostic,
  LinkStatistics,
  SessionClient,
  SessionClientOptions,
  SessionInfo,
  Setting,
  UploadOptions,
  UploadRef,
} from "./types.ts";
import { ModelWorlds } from "./worlds.ts";

const MAX_MESSAGES = 1024;
const NO_TRACKS = { video: ["none"], audio: ["none"] };

type Events = ClientEvents<AnyModel>;

/** What to ask a server for, of its tracks. */
export type AskedTracks = Pick<SocketOptions, "video" | "tracks" | "paused" | "audio">;

/** Emits the event `error` of `client` for what fails outside of it. */
export function reportFault(client: SessionClient, code: string, message: string): void {
  if (client instanceof ClientCore) client.fail(code, message);
}

/** Does nothing, and has nothing to give back, before its first `reconnect()`. The protected methods are for the tracks of a session. */
export class ClientCore implements SessionClient {
  #options: SessionClientOptions;
  #events = new Emitter<Events>();
  #lifecycle: Lifecycle;
  #commands = new Commands({ refused: (id) => this.refused(id) });
  readonly transport: ModelTransport = new ModelTransport(
    () => this.#session,
    (name, args) => this.command(name, args),
  );
  readonly worlds: ModelWorlds;
  /** What was sent last of each command that is held and released. */
  #hands = new Map<string, Arguments>();
  #settings = new Map<string, ModelSetting>();
  #streams = new Set<ItemQueue<Message<AnyModel>>>();
  /** What `for await` loops of the application wait for; they end with the client. */
  #queues = new Set<{ end(): void }>();
  #session: Session | null = null;
  /** The values of the settings at the end of the last session. */
  #lastValues: Settings = {};
  #info: SessionInfo | null = null;
  #ready: Deferred<SessionInfo> = handled();
  #ended: Deferred<SessionEnded | ConnectionRefused | null> = deferred();
  #comebacks = 0;
  #secondsLost = 0;
  #told = new Set<string>();

  constructor(address: URL, options: SessionClientOptions) {
    this.#options = options;
    this.worlds = new ModelWorlds(
      () => this.#session,
      (name, args) => this.command(name, args),
      options.fetch,
    );
    const { model, role, fork, world } = options;
    // In the query, or behind the `#` as in the page's links.
    const token = new URLSearchParams(address.search + address.hash.replace("#", "&")).get("token");
    const url = socketUrl(address);
    this.#lifecycle = new Lifecycle({
      url,
      prepare: () => this.#prepare(),
      ask: () => ({ ...this.ask(), role, model: typeof model === "string" ? model : model?.name }),
      get token() {
        return options.token ?? token;
      },
      resume: options.resume ?? true,
      begin: { fork, world },
      newSession: options.newSession ?? "never",
      memory: options.memory === undefined ? defaultMemory(url, role) : options.memory,
      WebSocket: options.WebSocket,
      fetch: options.fetch ?? ((...request) => fetch(...request)),
    });
    this.#lifecycle.on("state", (state) => this.#onState(state));
    this.#lifecycle.on("session", (session) => this.#onSession(session));
    this.#lifecycle.on("unsaved", (message) => this.fail("memory", message));
  }

  // ---- state ---------------------------------------------------------------------------------------------------------

  get state(): ClientState {
    return this.#lifecycle.state;
  }

  get session(): SessionInfo | null {
    return this.#info;
  }

  get ready(): Promise<SessionInfo> {
    return this.#ready.promise;
  }

  get ended(): Promise<SessionEnded | ConnectionRefused | null> {
    return this.#ended.promise;
  }

  on<E extends keyof Events>(event: E, listener: (detail: Events[E]) => void, options?: { signal?: AbortSignal }): () => void {
    return this.#events.on(event, listener, options);
  }

  statistics(): LinkStatistics {
    const silence = this.#session && performance.now() - this.#session.heardAt;
    return { comebacks: this.#comebacks, secondsLost: this.#secondsLost, silence };
  }

  reconnect(): void {
    if (this.state.status === "ended") {
      this.#ready = handled();
      this.#ended = deferred();
      this.#commands.restart();
    }
    this.#lifecycle.start();
  }

  async close(): Promise<void> {
    const { promise } = this.#ended; // a listener may connect again
    this.#lifecycle.close();
    await promise;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  // ---- commands ------------------------------------------------------------------------------------------------------

  command(name: string, args: Arguments = {}, options: CommandOptions = {}): Promise<Applied<unknown>> {
    if (args?.down !== undefined || name.startsWith("gamepad_")) this.#hands.set(name, args);
    return this.#commands.send(name, args, options);
  }

  setting(name: string): Setting<unknown> {
    let setting = this.#settings.get(name);
    if (setting === undefined) {
      setting = new ModelSetting(
        () => (this.#session?.state ?? this.#lastValues)[name],
        (value) => this.command(`set_${name}`, { [this.#argumentOf(`set_${name}`) ?? name]: value }),
      );
      this.#settings.set(name, setting);
    }
    return setting;
  }

  messages({ signal }: { signal?: AbortSignal } = {}): AsyncIterableIterator<Message<AnyModel>> {
    const queue = this.queue<Message<AnyModel>>({ limit: MAX_MESSAGES, signal, size: ({ data }) => JSON.stringify(data).length });
    this.#streams.add(queue);
    void queue.ended.then(() => this.#streams.delete(queue));
    return queue;
  }

  /** Sends a file for the model. Rejects with {@link UploadRefused}. */
  async upload(source: Blob | Uint8Array<ArrayBuffer>, options: UploadOptions = {}): Promise<UploadRef> {
    await unlessAborted(this.ready, options.signal);
    const session = this.#session;
    if (session === null) throw new ClientFault("ended", "there is no session");
    const url = new URL("uploads", pageOf(session.url));
    const { upload } = await import("./upload.ts");
    const refuse = (...why: ConstructorParameters<typeof UploadRefused>): UploadRefused => new UploadRefused(...why);
    return upload(url, session.welcome?.upload_token ?? null, source, options, this.#options.fetch, refuse);
  }

  // ---- for the tracks ------------------------------------------------------------------------------------------------

  /** The session that has begun, or null. */
  protected get live(): Session | null {
    return this.#session;
  }

  /** Awaited before the first connection, and before the first one after an end. `ears` are aborted when the client ends. */
  protected async prepare(_ears: AbortController): Promise<void> {}

  /** What to ask for at a new connection. */
  protected ask(): AskedTracks {
    return NO_TRACKS;
  }

  /** `session` has its welcome, and gets no command before this returns. */
  protected begin(_session: Session): void {}

  /** The server has refused the command `id`. */
  protected refused(_id: number): void {}

  /** The client has ended. */
  protected end(): void {}

  /** What a `for await` loop takes from, until the client ends. */
  protected queue<T>(options: ItemQueueOptions<T>): ItemQueue<T> {
    const queue = new ItemQueue<T>(options);
    if (this.state.status === "ended") queue.end();
    this.#queues.add(queue);
    void queue.ended.then(() => this.#queues.delete(queue));
    return queue;
  }

  /** Emits the event `diagnostic`, for each text once. */
  protected diagnose(diagnostic: Diagnostic): void {
    if (this.#told.has(diagnostic.message)) return;
    this.#told.add(diagnostic.message);
    this.#events.emit("diagnostic", diagnostic);
  }

  /** Emits the event `error`. */
  fail(code: string, message: string): void {
    this.#events.emit("error", new ClientFault(code, message));
  }

  // ---- inside --------------------------------------------------------------------------------------------------------

  #prepare(): Promise<void> {
    const { signal } = this.#options;
    const ears = new AbortController();
    void this.#ended.promise.then(() => ears.abort());
    const stop = (): void => void this.close();
    signal?.addEventListener("abort", stop, ears);
    if (signal?.aborted) stop();
    return this.prepare(ears);
  }

  /** Emits the event last: its listeners may close the client, or connect again. */
  #onState(state: ClientState): void {
    this.#info = "session" in state ? state.session : null;
    if (state.status === "live") {
      const { session } = this.#lifecycle;
      if (session !== this.#session) {
        this.#session = session; // before the event: who hears `live` finds the settings' values of this session
        for (const setting of this.#settings.values()) setting.begin();
      }
      this.#ready.resolve(state.session);
    }
    if (state.status === "ended") {
      this.#commands.end(state.end?.message ?? "");
      this.#ready.reject(state.end ?? new ClientFault("closed", "the client was closed before a session began"));
      this.#ended.resolve(state.end);
      for (const queue of this.#queues) queue.end();
      this.end();
    }
    this.#events.emit("state", state);
  }

  #onSession(session: Session): void {
    session.addEventListener("welcome", ({ detail: welcome }) => {
      if (session.over) return; // who heard `live` has closed it
      this.#session = session;
      this.begin(session);
      this.#commands.begin(session);
      this.#compareSchema(welcome.schema_hash);
    });
    session.addEventListener("state", () => {
      for (const setting of this.#settings.values()) setting.changed();
    });
    session.addEventListener("transport", ({ detail }) => this.#events.emit("transport", detail));
    session.addEventListener("moment", ({ detail }) => {
      import("./hands-again.ts").then(
        ({ sendAgain }) => sendAgain(session, this.#hands),
        (error) => this.fail("worlds", error.message),
      );
      this.#events.emit("moment", detail);
    });
    session.addEventListener("track", ({ detail: track }) => {
      this.#info = sessionInfo(session);
      this.#events.emit("track", trackInfo(track));
    });
    session.addEventListener("message", ({ detail: { type, data, n = 0 } }) => {
      const message = { type, data, n };
      this.#events.emit("message", message);
      for (const stream of this.#streams) stream.put(message);
    });
    session.addEventListener("ending", ({ detail: { reason, seconds } }) => {
      this.#events.emit("ending", seconds === null ? null : { reason, at: performance.now() + 1000 * seconds });
    });
    session.addEventListener("late", ({ detail: { what, seconds } }) => {
      this.#events.emit("late", what === null ? null : { what, since: performance.now() - 1000 * seconds });
    });
    session.addEventListener("error", ({ detail: { code, message } }) => this.fail(code, message));
    session.addEventListener("resumed", ({ detail }) => {
      this.#comebacks += 1;
      this.#secondsLost += detail.seconds;
      this.#events.emit("resumed", detail);
    });
    session.addEventListener("closed", () => {
      if (this.#session !== session) return;
      this.#session = null;
      this.#ready = handled();
      this.#lastValues = session.state;
      this.#commands.pause();
      this.#hands.clear();
      for (const setting of this.#settings.values()) setting.end();
    });
  }

  /** The name of the one argument that a command takes, or null. */
  #argumentOf(command: string): string | null {
    const schema = this.#info?.schema.commands.find(({ name }) => name === command)?.schema;
    const names = Object.keys((schema?.properties as object | undefined) ?? {});
    return names.length === 1 ? (names[0] ?? null) : null;
  }

  #compareSchema(hash: string | undefined): void {
    const { model } = this.#options;
    if (typeof model !== "object" || hash === undefined || model.schemaHash === hash) return;
    this.diagnose({
      code: "schema_changed",
      message: `The model "${model.name}" has changed since its types were made (${model.schemaHash}, now ${hash}): run reactor types again.`,
    });
  }
}

/** A fault that is no answer to a call. */
class ClientFault extends ReactorError {
  override readonly name = "ReactorError";
  readonly code: string;

  constructor(code: string, message: string) {
    super(message);
    this.code = code;
  }
}

/** A promise that may be rejected without anybody looking at it. */
function handled<T>(): Deferred<T> {
  const made = deferred<T>();
  made.promise.catch(() => {});
  return made;
}
