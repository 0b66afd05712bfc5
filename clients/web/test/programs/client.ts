// What the two others are compared with: the client alone, before it loads anything.
export * from "reactor-trio";
