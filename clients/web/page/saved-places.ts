/** The places that this browser has saved in sessions of a model: what a card shows, and the id that loads it. */
import type { SafeStorage } from "./storage.ts";

export interface SavedPlace {
  /** Loads it, so it is a secret. */
  readonly id: string;
  readonly name: string;
  /** A small JPEG file in base64; empty if the browser gave none. */
  readonly picture: string;
  /** By the clock of this browser, in milliseconds. */
  readonly savedAt: number;
  readonly expires: number;
  /** The user has deleted it, and the server may not have heard that. */
  readonly deleted?: boolean;
}

export class SavedPlaces {
  #storage: SafeStorage;
  #key: string;

  constructor(storage: SafeStorage, model: string) {
    this.#storage = storage;
    this.#key = `places:${model}`;
  }

  /** The newest first; those that have expired are gone. Another tab may have changed them. */
  get all(): readonly SavedPlace[] {
    try {
      const all: unknown = JSON.parse(this.#storage.get(this.#key) ?? "[]");
      return Array.isArray(all) ? all.filter((each) => isPlace(each) && each.expires > Date.now()) : [];
    } catch {
      return []; // somebody else has written there
    }
  }

  add(place: SavedPlace): void {
    this.#keep([place, ...this.all]);
  }

  change(id: string, to: Partial<Pick<SavedPlace, "picture" | "deleted">>): void {
    this.#keep(this.all.map((each) => (each.id === id ? { ...each, ...to } : each)));
  }

  remove(id: string): void {
    this.#keep(this.all.filter((each) => each.id !== id));
  }

  #keep(all: readonly SavedPlace[]): void {
    this.#storage.set(this.#key, all.length ? JSON.stringify(all) : null);
  }
}

const isPlace = (each: SavedPlace | null): boolean =>
  typeof each?.id === "string" && typeof each.name === "string" && /^[\w+/=]*$/.test(each.picture) && typeof each.expires === "number";
