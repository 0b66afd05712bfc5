// A page that a test in a browser plays (tests/web/test_react.py): it mounts, renders anew, and unmounts as the test says.
import { type ReactNode, StrictMode, useEffect, useRef } from "react";
import { createRoot } from "react-dom/client";
import type { Client, Presented, View } from "../../src/index.ts";
import { connect } from "../../src/index.ts";
import { createHooks, type PictureProps } from "../../src/react.ts";
import { type Painter, painter } from "./painter.ts";

const hooks = createHooks(painter);
const { ReactorProvider, Picture } = hooks;

/** What the components have seen. */
const seen = {
  client: null as Client<Painter> | null,
  statuses: [] as string[],
  sessions: new Set<string>(),
  presented: [] as Presented[],
  tokens: 0,
  view: null as View | null,
  command: null as ReturnType<typeof hooks.useCommand<"set_brightness">> | null,
  setting: null as ReturnType<typeof hooks.useSetting<"brightness">> | null,
  values: [] as unknown[],
  messages: [] as { step: number }[],
  latest: undefined as { step: number } | undefined,
  statistics: null as ReturnType<typeof hooks.useStatistics>,
  upload: null as ReturnType<typeof hooks.useUpload> | null,
  publication: null as ReturnType<typeof hooks.usePublication<"camera">> | null,
  sound: null as ReturnType<typeof hooks.useSound> | null,
  transport: null as ReturnType<typeof hooks.useTransport> | null,
};

function Probe(): ReactNode {
  const client = hooks.useClient();
  const state = hooks.useReactorState();
  seen.client = client;
  if (seen.statuses.at(-1) !== state.status) seen.statuses.push(state.status);
  if (state.status === "live") seen.sessions.add(state.session.id);
  seen.command = hooks.useCommand("set_brightness");
  seen.setting = hooks.useSetting("brightness");
  if (seen.values.at(-1) !== seen.setting.value) seen.values.push(seen.setting.value);
  hooks.useMessage("progress", (data) => seen.messages.push(data));
  seen.latest = hooks.useLatest("progress");
  seen.statistics = hooks.useStatistics(50);
  seen.upload = hooks.useUpload();
  seen.publication = hooks.usePublication("camera");
  seen.sound = hooks.useSound();
  seen.transport = hooks.useTransport();
  return <output>{state.status}</output>;
}

function Shown(props: PictureProps<Painter>): ReactNode {
  const view = useRef<View>(null);
  useEffect(() => {
    seen.view = view.current;
  });
  return <Picture className="picture" {...props} viewRef={view} onPresented={(picture) => seen.presented.push(picture)} />;
}

interface Shape {
  key?: string;
  url?: string;
  role?: "control" | "viewer";
  fork?: string;
  active?: boolean;
  picture?: boolean;
  given?: boolean;
  /** Whether there is a second Provider of the same server. */
  another?: boolean;
  /** What else the picture is given. */
  props?: PictureProps<Painter>;
}

/** The server's own file: a test cannot serve worklets in its place. */
const workers = { sound: "/page/audio-player-worklet.js" };

let given: Client<Painter> | null = null;

function page({
  key,
  url = "/",
  role = "control",
  fork,
  active = true,
  picture = true,
  given: yours = false,
  another = false,
  props = {},
}: Shape): ReactNode {
  const children = [<Probe key="probe" />, picture && <Shown key="shown" {...props} />];
  given ??= yours ? connect(url, { model: painter, memory: null }) : null;
  const token = (): string => {
    seen.tokens += 1;
    return "";
  };
  return (
    <StrictMode>
      {yours && given ? (
        <ReactorProvider client={given}>{children}</ReactorProvider>
      ) : (
        <ReactorProvider key={key ?? null} {...{ url, role, fork, active, token, workers }} memory={null}>
          {children}
        </ReactorProvider>
      )}
      {another && <ReactorProvider {...{ url, role, workers }} memory={null} />}
    </StrictMode>
  );
}

function mount(shape: Shape = {}): { render(shape: Shape): void; unmount(): void } {
  const box = document.body.appendChild(document.createElement("main"));
  const root = createRoot(box);
  root.render(page(shape));
  return {
    render: (next) => root.render(page(next)),
    unmount: () => {
      root.unmount();
      box.remove();
    },
  };
}

Object.assign(globalThis, { seen, mount });
