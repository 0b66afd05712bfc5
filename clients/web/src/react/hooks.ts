"use client";
/** The hooks of a client: its state, commands, settings, messages, files, devices, sound and playback. */
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { unlessAborted } from "../client/abort.ts";
import type { AnyModel } from "../client/model.ts";
import type { Client, ClientState, Publication, Statistics, Transport, UploadOptions, Worlds } from "../client/types.ts";
import { CommandError } from "../wire/errors.ts";
import type { TrackKind, WorldChange } from "../wire/messages.ts";
import { useCalls, useNewest, useStore } from "./helpers.ts";
import { useClient } from "./provider.ts";
import type {
  CommandHook,
  DeviceOptions,
  PublicationHook,
  SettingHook,
  SoundHook,
  TransportHook,
  UploadHook,
  WorldsHook,
} from "./types.ts";

export function useReactorState(): ClientState {
  const client = useClient();
  return useStore(
    useCallback((changed) => client.on("state", changed), [client]),
    () => client.state,
  );
}

export function useStatistics(everyMs = 1000): Statistics | null {
  const client = useClient();
  const [statistics, note] = useState<Statistics | null>(null);
  useEffect(() => {
    const timer = setInterval(() => note(client.statistics()), everyMs);
    return () => clearInterval(timer);
  }, [client, everyMs]);
  return statistics;
}

export function useCommand(name: string): CommandHook<AnyModel, string> {
  const client = useClient();
  const { pending, error, watch } = useCalls();
  const run: CommandHook<AnyModel, string>["run"] = useCallback((...rest) => watch(client.command(name, ...rest)), [client, name, watch]);
  return { run, pending, error: error instanceof CommandError ? error : null };
}

export function useSetting(name: string): SettingHook<unknown> {
  const setting = useClient().setting(name);
  const subscribe = useCallback((changed: () => void) => setting.subscribe(changed), [setting]);
  const value = useStore(subscribe, () => setting.value);
  const pending = useStore(subscribe, () => setting.pending);
  const error = useStore(subscribe, () => setting.error);
  // A slider must not jump back to the model's value while its own is under way.
  const [wish, want] = useState<{ readonly value: unknown } | null>(null);
  const set = useCallback(
    (value: unknown) => {
      const wish = { value };
      want(wish);
      const done = (): void => want((newest) => (newest === wish ? null : newest));
      const call = setting.set(value);
      call.then(done, done);
      return call;
    },
    [setting],
  );
  return { value: wish === null ? value : wish.value, set, pending, error };
}

export function useMessage(type: string, handler: (data: { [field: string]: unknown }) => void): void {
  const client = useClient();
  const newest = useNewest(handler);
  useEffect(() => client.on("message", (message) => message.type === type && newest.current(message.data)), [client, type, newest]);
}

export function useLatest(type: string): { [field: string]: unknown } | undefined {
  const client = useClient();
  const [latest, note] = useState<{ client: Client; type: string; data: { [field: string]: unknown } } | null>(null);
  useMessage(type, (data) => note({ client, type, data }));
  return latest?.client === client && latest.type === type ? latest.data : undefined;
}

export function useUpload(): UploadHook {
  const client = useClient();
  const [progress, note] = useState<number | null>(null);
  const { pending, error, watch } = useCalls();
  const send = useCallback(
    (file: Blob, { onProgress, ...options }: UploadOptions = {}) => {
      note(0);
      const told = (part: number): void => {
        note(part);
        onProgress?.(part);
      };
      return watch(client.upload(file, { ...options, onProgress: told }));
    },
    [client, watch],
  );
  return { send, progress: pending ? progress : null, error };
}

export function usePublication(track: string): PublicationHook {
  const client = useClient();
  const [publication, note] = useState<Publication | null>(null);
  const { pending, error, watch } = useCalls();
  const running = useRef<AbortController | null>(null);
  const stop = useCallback(() => {
    running.current?.abort();
    running.current = null;
    note(null);
  }, []);
  const start = useCallback(
    (given: DeviceOptions<TrackKind> = {}) => {
      stop();
      const mine = new AbortController();
      running.current = mine;
      const publish = async (): Promise<Publication> => {
        const session = await unlessAborted(client.ready, mine.signal);
        const kind = session.tracks.find(({ name, direction }) => name === track && direction === "in")?.kind;
        const options = { ...given, signal: mine.signal };
        const started = await (kind === "audio" ? client.publish(track, "microphone", options) : client.publish(track, "camera", options));
        if (mine.signal.aborted) return started;
        note(started);
        void started.ended.then((fault) => {
          if (running.current !== mine) return;
          stop();
          if (fault !== null) void watch(Promise.reject(fault)); // shown as `error`
        });
        return started;
      };
      return watch(publish());
    },
    [client, track, stop, watch],
  );
  // biome-ignore lint/correctness/useExhaustiveDependencies: another client or track has another publication
  useEffect(() => stop, [client, track, stop]);
  return { start, stop, publication, pending, error };
}

export function useSound(): SoundHook {
  const { sound } = useClient();
  const subscribe = useCallback((changed: () => void) => sound.subscribe(changed), [sound]);
  const state = useStore(subscribe, () => sound.state);
  const volume = useStore(subscribe, () => sound.volume);
  const calls = useMemo(
    () => ({
      start: () => void sound.start().catch(() => {}), // the client's event `error` says why
      stop: () => void sound.stop(),
      setVolume: (volume: number): void => {
        sound.volume = volume;
      },
    }),
    [sound],
  );
  return { state, volume, ...calls };
}

export function useTransport(): TransportHook {
  const client = useClient();
  const { transport } = client;
  const { pending, error, watch } = useCalls();
  const subscribe = useCallback(
    (changed: () => void) => {
      const ends = [client.on("state", changed), client.on("transport", changed)];
      return () => {
        for (const end of ends) end();
      };
    },
    [client],
  );
  const allowed = useStore(subscribe, () => transport.allowed);
  const paused = useStore(subscribe, () => transport.paused);
  const calls = useMemo(
    (): Omit<Transport, "allowed" | "paused"> => ({
      pause: () => watch(transport.pause()),
      resume: () => watch(transport.resume()),
      step: (steps) => watch(transport.step(steps)),
      restart: (options) => watch(transport.restart(options)),
    }),
    [transport, watch],
  );
  return { allowed, paused, ...calls, pending, error: error instanceof CommandError ? error : null };
}

export function useWorlds(): WorldsHook {
  const client = useClient();
  const { worlds } = client;
  const { pending, error, watch } = useCalls();
  const may = useStore(
    useCallback((changed) => client.on("state", changed), [client]),
    () => worlds.may,
  );
  const [latest, note] = useState<{ client: Client; change: WorldChange } | null>(null);
  useEffect(() => client.on("moment", (change) => note({ client, change })), [client]);
  const calls = useMemo(
    (): Omit<Worlds, "may" | "lasting"> => ({
      rewind: (to) => watch(worlds.rewind(to)),
      undo: () => watch(worlds.undo()),
      list: () => worlds.list(),
      picture: (step, options) => worlds.picture(step, options),
      save: (name, options) => watch(worlds.save(name, options)),
      restore: (id) => watch(worlds.restore(id)),
      forget: (id) => watch(worlds.forget(id)),
      fork: (options) => watch(worlds.fork(options)),
    }),
    [worlds, watch],
  );
  const change = latest?.client === client ? latest.change : null;
  return { may, lasting: worlds.lasting, change, ...calls, pending, error: error instanceof CommandError ? error : null };
}
