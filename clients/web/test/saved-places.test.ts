/** The places that a browser has saved, and the address of a fork. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { forkAddress } from "../page/fork-address.ts";
import { SavedPlaces } from "../page/saved-places.ts";
import { SafeStorage } from "../page/storage.ts";

function browser(texts = new Map<string, string>()) {
  const storage = {
    getItem: (key: string) => texts.get(key) ?? null,
    setItem: (key: string, value: string) => {
      texts.set(key, value);
    },
    removeItem: (key: string) => {
      texts.delete(key);
    },
  };
  return { texts, storage: new SafeStorage(() => storage) };
}

const place = (id: string, expires = 2000) => ({ id, name: `place ${id}`, picture: "/9j+AA==", savedAt: 1000, expires });
const ids = (places: SavedPlaces): string[] => places.all.map(({ id }) => id);

test("a model's places are kept, the newest first, until they expire", (t) => {
  t.mock.timers.enable({ apis: ["Date"], now: 1000 });
  const { texts, storage } = browser();
  const places = new SavedPlaces(storage, "dream");
  assert.deepEqual(places.all, []);
  places.add(place("a", 1500));
  places.add(place("b"));
  assert.deepEqual(ids(places), ["b", "a"]);
  assert.deepEqual(ids(new SavedPlaces(storage, "dream")), ["b", "a"]); // loaded anew
  assert.deepEqual(ids(new SavedPlaces(storage, "another")), []);
  places.change("a", { deleted: true });
  assert.deepEqual(
    places.all.map(({ id, deleted }) => [id, Boolean(deleted)]),
    [
      ["b", false],
      ["a", true],
    ],
  );
  places.change("a", { deleted: false });
  t.mock.timers.tick(500);
  assert.deepEqual(ids(places), ["b"]);
  places.remove("b");
  assert.equal(texts.size, 0);
});

test("what is no place is left out, and a browser without storage has none", (t) => {
  t.mock.timers.enable({ apis: ["Date"], now: 1000 });
  for (const text of ["", "nothing", "{}", "null", '[null, 1, {"id": 1}, {"id": "a", "name": "a", "expires": 9000, "picture": "data:,"}]'])
    assert.deepEqual(new SavedPlaces(browser(new Map([["places:dream", text]])).storage, "dream").all, [], text);
  const none = new SavedPlaces(new SafeStorage(() => undefined), "dream");
  none.add(place("a"));
  assert.deepEqual(none.all, []);
});

test("the address of a fork has the page's query, and neither role nor credential", () => {
  assert.equal(forkAddress("https://h/at/?model=a&role=viewer&token=secret#s=settings", "f&1"), "https://h/at/?model=a#fork=f%261");
});
