"use client";
/** The pictures of a track as a component. */
import type { ReactNode } from "react";
import { createElement, useEffect, useRef, useState } from "react";
import { followControls } from "../client/follow-controls.ts";
import type { Client, View } from "../client/types.ts";
import { useNewest } from "./helpers.ts";
import { useClient } from "./provider.ts";
import type { PictureProps } from "./types.ts";

export function Picture({ track, fit = "contain", lead, onPresented, controls = "none", viewRef, ...rest }: PictureProps): ReactNode {
  const client = useClient();
  const box = useRef<HTMLDivElement>(null);
  const presented = useNewest(onPresented);
  const [attached, note] = useState<{ client: Client; canvas: HTMLCanvasElement; view: View } | null>(null);
  useEffect(() => {
    // A canvas of this effect's own: once a worker draws on one, it cannot be given to it again.
    const canvas = document.createElement("canvas");
    Object.assign(canvas.style, { display: "block", width: "100%", height: "100%" });
    box.current?.append(canvas);
    const view = client.attach(canvas, {
      ...(track === undefined ? {} : { track }),
      onPresented: (picture) => presented.current?.(picture),
    });
    if (viewRef) viewRef.current = view;
    note({ client, canvas, view });
    return () => {
      if (viewRef) viewRef.current = null;
      view[Symbol.dispose]();
      canvas.remove();
    };
  }, [client, track, presented, viewRef]);
  // What follows may change while the same picture goes on.
  useEffect(() => {
    if (attached !== null) attached.canvas.style.objectFit = fit;
  }, [attached, fit]);
  useEffect(() => {
    if (attached !== null && lead !== undefined) attached.view.lead = lead;
  }, [attached, lead]);
  useEffect(() => {
    if (attached !== null) return followControls(attached.client, attached.canvas, controls);
  }, [attached, controls]);
  return createElement("div", { ...rest, ref: box });
}
