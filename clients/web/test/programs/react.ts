// What a React application loads with the client.
import { createHooks } from "reactor-trio/react";

export const hooks = createHooks({ name: "model", schemaHash: "0" });
export * from "reactor-trio";
