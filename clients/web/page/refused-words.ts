/** What people read of a refused command, where its own message is for whoever runs the server. */
import { HANDS } from "./strings.ts";

/** Words for a refusal with this code; null: its message says it. */
export const wordsOf = (code: unknown): string | null => (code === "internal_error" ? HANDS.broken : null);
