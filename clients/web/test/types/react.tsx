// Components that must compile, and some that must not.
import type { Presented, View } from "reactor-trio";
import { Picture as AnyPicture, ReactorProvider as AnyProvider, createHooks, useCommand as useAnyCommand } from "reactor-trio/react";
import "reactor-trio/element";
import { type RefObject, useRef } from "react";
import { painter } from "./painter.ts";

const { ReactorProvider, Picture, useCommand, useSetting, useMessage, useLatest, usePublication, useClient } = createHooks(painter);

export function Right(): React.ReactNode {
  const reset = useCommand("reset");
  const { value, set, error } = useSetting("brightness");
  const view: RefObject<View | null> = useRef<View>(null);
  useMessage("progress", ({ done }) => done.toFixed());
  const latest = useLatest("finished");
  const { start, pending } = usePublication("microphone");
  const { start: startCamera } = usePublication("camera");
  const either = useSetting("brightness" as "brightness" | "mood");
  return (
    <ReactorProvider url="https://host/" token={async () => "t"} active>
      <Picture track="depth" fit="cover" viewRef={view} className="picture" onPresented={({ step }: Presented) => step.toFixed()} />
      <button type="button" disabled={reset.pending} onClick={() => void reset.run({ hard: true })} />
      <button type="button" title={either.error?.message} onClick={() => void startCamera({ width: 640, deviceId: "front" })} />
      <button type="button" onClick={() => either.set(either.value ?? "calm").then(() => view.current?.snapshot())} />
      <input type="range" value={value ?? 1} onChange={({ target }) => set(target.valueAsNumber)} title={error?.message} />
      <button type="button" disabled={pending} onClick={() => void start({ onLevel: (level) => level.toFixed() })}>
        {latest?.seconds}
      </button>
    </ReactorProvider>
  );
}

export function Untyped(): React.ReactNode {
  const { run } = useAnyCommand("anything");
  return (
    <AnyProvider url="/">
      <AnyPicture track="any" onClick={() => void run({ x: 1 })} />
    </AnyProvider>
  );
}

export function Wrong(): React.ReactNode {
  // @ts-expect-error: no such command
  useCommand("rest");
  // @ts-expect-error: no such argument
  void useCommand("reset").run({ soft: true });
  // @ts-expect-error: no such setting
  useSetting("contrast");
  // @ts-expect-error: another type
  void useSetting("brightness").set("1");
  // @ts-expect-error: no such message
  useMessage("progres", () => {});
  // @ts-expect-error: no such field
  useMessage("progress", ({ finished }) => finished);
  // @ts-expect-error: a value of neither
  void useSetting("brightness" as "brightness" | "mood").set(true);
  // @ts-expect-error: sound has no width
  void usePublication("microphone").start({ width: 640 });
  // @ts-expect-error: an output takes nothing
  usePublication("main_video");
  // @ts-expect-error: no such command
  void useClient().command("rest");
  return (
    // @ts-expect-error: a Provider needs an address or a client
    <ReactorProvider>
      {/* @ts-expect-error: no such track */}
      <Picture track="main" />
      {/* @ts-expect-error: no such way to fill */}
      <Picture fit="stretch" />
    </ReactorProvider>
  );
}
