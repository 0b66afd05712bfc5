// The types of the model in tests/support/painter.py, as far as the page uses it.
import type { ModelRef } from "../../src/index.ts";

export interface Painter {
  name: "painter";
  commands: {
    set_brightness: { args: { brightness: number }; reply: null };
    look: { args: Record<never, never>; reply: number };
    size: { args: { file: { upload_id: string } }; reply: number };
  };
  messages: { progress: { step: number } };
  outputs: { main_video: "video"; depth: "video"; speech: "audio" };
  inputs: { camera: "video"; microphone: "audio" };
}

export const painter: ModelRef<Painter> = { name: "painter", schemaHash: "0123456789abcdef" };
