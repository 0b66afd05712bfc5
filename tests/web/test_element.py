"""The element `<reactor-view>` in Chromium, as plain HTML uses it, against a real server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.support.package_page import ask, package_page
from tests.support.web_client import bundle
from tests.web.test_react import WORKERS

HTML = """<!doctype html><link rel=icon href=data:,><script type=module src=element.js></script><script>
  window.seen = { state: [], presented: [], message: [] };
  const hear = (type) => document.addEventListener(type, ({ detail }) => seen[type].push(detail), true);
  for (const type of Object.keys(seen)) hear(type);
  window.element = () => document.querySelector("reactor-view");
</script><body style="height: 700px"></body>"""
SHOW = """
  document.body.innerHTML = `<reactor-view src="/" token="none"></reactor-view>`;
  await until(() => seen.presented.length > 2);
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("element")
    bundle(folder, "src/element.ts", *WORKERS)
    (folder / "index.html").write_text(HTML)
    return folder


@pytest.fixture
def place(page: Page, package: Path, address: str) -> Iterator[Page]:
    yield package_page(page, address, package)
    ask(page, "document.body.replaceChildren(); await Promise.all(sockets.map(({ closed }) => closed));")


def test_it_shows_the_model_tells_events_and_has_its_client(place: Page) -> None:
    told = ask(place, SHOW + """
      const { client, view, shadowRoot } = element();
      const file = await client.upload(new File(["12345"], "five.txt"));
      const { reply } = await client.command("size", { file: { upload_id: file.upload_id } });
      const parts = [...shadowRoot.querySelectorAll("[part]")].map((each) => each.getAttribute("part"));
      const statuses = seen.state.map(({ status }) => status);
      const veiled = !shadowRoot.querySelector("[part=veil]").hidden;
      const messages = seen.message.map(({ type, data }) => [type, data]);
      const pts = seen.presented[0].ptsUs > 0;
      return { reply, parts, statuses, sockets: sockets.length, size: [view.width, view.height], pts, messages, veiled };
    """)  # fmt: skip
    assert told == {
        "reply": 5, "parts": ["canvas", "veil"], "statuses": ["connecting", "live"], "sockets": 1, "size": [64, 48],
        "pts": True, "messages": [["progress", {"step": 7}]], "veiled": False,
    }  # fmt: skip


def test_an_element_that_is_moved_keeps_its_session_and_one_that_is_gone_leaves(place: Page) -> None:
    told = ask(place, SHOW + """
      const moved = element();
      const { client } = moved;
      document.body.append(document.createElement("section"));
      document.querySelector("section").append(moved);
      const now = seen.presented.length;
      await until(() => seen.presented.length > now + 3);
      const same = moved.client === client && sockets.length === 1;
      moved.remove();
      const { code } = await sockets[0].closed;
      const canvases = moved.shadowRoot.querySelectorAll("canvas").length;
      return { same, code, left: moved.client, canvases };
    """)  # fmt: skip
    assert told == {"same": True, "code": 1000, "left": None, "canvases": 0}


def test_attributes_choose_the_track_and_the_server(place: Page) -> None:
    told = ask(place, SHOW + """
      element().setAttribute("track", "depth");
      await until(() => element().view.track === "depth" && element().view.width === 64);
      const first = [sockets.length, element().shadowRoot.querySelectorAll("canvas").length];
      element().setAttribute("role", "img");  // one of ARIA's
      const after = sockets.length;
      element().setAttribute("role", "viewer");
      await until(() => sockets.length === 2);
      await sockets[0].closed;
      return { first, after, role: new URL(sockets[1].socket.url).searchParams.get("role") };
    """)  # fmt: skip
    assert told == {"first": [1, 1], "after": 1, "role": "viewer"}


def test_an_element_with_viewer_watches_and_keeps_the_role_that_aria_gives_it(place: Page) -> None:
    told = ask(place, SHOW + """
      element().setAttribute("role", "img");
      element().setAttribute("viewer", "");
      await until(() => sockets.length === 2);
      await sockets[0].closed;
      const watching = new URL(sockets[1].socket.url).searchParams.get("role");
      element().removeAttribute("viewer");
      await until(() => sockets.length === 3);
      const after = new URL(sockets[2].socket.url).searchParams.get("role");
      return { watching, after, role: element().getAttribute("role") };
    """)  # fmt: skip
    assert told == {"watching": "viewer", "after": None, "role": "img"}


def test_a_client_that_is_closed_while_it_connects_leaves_without_a_word_on_the_console(place: Page) -> None:
    told = ask(place, """
      const closed = new Promise((resolve) => {
        sockets.push = (made) => {
          Array.prototype.push.call(sockets, made);
          queueMicrotask(async () => {
            const { readyState } = made.socket;
            await element().client.close();
            resolve([readyState, made.socket.readyState]);
          });
        };
      });
      document.body.innerHTML = `<reactor-view src="/" token="none"></reactor-view>`;
      const states = await closed;
      const { code } = await sockets[0].closed;
      return { states, code };
    """)  # fmt: skip
    assert told == {"states": [0, 0], "code": 1000}


def test_a_client_of_ones_own_is_shown_and_left_alone(place: Page) -> None:
    told = ask(place, SHOW + """
      const { client } = element();
      let silenced = 0;
      client.sound.stop = async () => { silenced += 1; };
      const other = Object.assign(document.createElement("reactor-view"), { client });
      other.setAttribute("track", "depth");
      document.body.append(other);
      await until(() => other.view.width === 64);
      other.remove();
      await new Promise((resolve) => setTimeout(resolve, 10));
      return { sockets: sockets.length, status: client.state.status, silenced };
    """)  # fmt: skip
    assert told == {"sockets": 1, "status": "live", "silenced": 0}


def test_a_client_that_was_set_before_the_element_was_defined_is_shown(place: Page) -> None:
    told = ask(place, SHOW + """
      const { client } = element();
      const early = document.implementation.createHTMLDocument().createElement("reactor-view");  // there it is not defined
      early.client = client;
      document.body.append(early);
      await until(() => early.view?.width === 64);
      early.remove();
      return { sockets: sockets.length, same: early.client === client };
    """)  # fmt: skip
    assert told == {"sockets": 1, "same": True}


def test_keyboard_and_pointer_are_bound_as_the_attribute_says(place: Page) -> None:
    """Keys are pressed until one is heard, since the bindings are loaded when they are wanted."""
    told = ask(place, SHOW + """
      element().style.width = "200px";
      const steps = () => seen.message.map(({ data }) => data.step);
      const key = () => dispatchEvent(new KeyboardEvent("keydown", { key: "w", code: "KeyW" }));
      const click = () => {
        const canvas = element().shadowRoot.querySelector("canvas");
        const { left, top, width, height } = canvas.getBoundingClientRect();
        const at = { clientX: left + width * 0.7, clientY: top + height / 2, isPrimary: true, pointerId: 1 };
        canvas.setPointerCapture = () => {};  // there is no such pointer
        for (const type of ["pointerdown", "pointerup"]) canvas.dispatchEvent(new PointerEvent(type, at));
      };
      key();
      click();
      await element().client.command("look");
      const without = steps();
      element().setAttribute("controls", "keyboard");
      await until(() => { key(); return steps().includes(1); });
      click();
      await element().client.command("look");
      const keyboard = steps().includes(7);
      const canvas = element().shadowRoot.querySelector("canvas");
      const form = document.body.appendChild(document.createElement("section")).attachShadow({ mode: "open" });
      const field = form.appendChild(document.createElement("input"));
      const press = { key: "w", code: "KeyW", bubbles: true, composed: true, cancelable: true };
      const stays = field.dispatchEvent(new KeyboardEvent("keydown", press));
      element().setAttribute("controls", "");
      await until(() => element().view.width === 64);
      await until(() => { click(); return steps().includes(7); });
      element().removeAttribute("controls");
      await element().client.command("look");
      const heard = steps().length;
      key();
      click();
      await element().client.command("look");
      const same = canvas === element().shadowRoot.querySelector("canvas");
      return { without, keyboard, stays, same, after: steps().length - heard };
    """)  # fmt: skip
    assert told == {"without": [], "keyboard": False, "stays": True, "same": True, "after": 0}


def test_a_position_is_one_of_the_picture_however_it_fits(place: Page) -> None:
    """A click at seven tenths of an element of 200 by 100: the picture of 4 to 3 has bars, or its top and bottom are cut."""
    told = ask(place, """
      document.body.innerHTML = `<style></style><reactor-view src="/" controls="pointer" style="width: 200px; height: 100px">
        </reactor-view>`;
      window.canvas = () => element().shadowRoot.querySelector("canvas");
      await until(() => element().view?.width === 64 && canvas()?.width === 64);  // drawn: before, it has another shape
      canvas().setPointerCapture = () => {};  // there is no such pointer
      const heard = [];
      for (const fit of ["contain", "cover"]) {
        document.querySelector("style").textContent = `reactor-view::part(canvas) { object-fit: ${fit} }`;
        seen.message.length = 0;
        const { left, top } = canvas().getBoundingClientRect();
        const at = { clientX: left + 140, clientY: top + 50, isPrimary: true, pointerId: 1 };
        await until(() => {
          for (const type of ["pointerdown", "pointerup"]) canvas().dispatchEvent(new PointerEvent(type, at));
          return seen.message.length > 0;
        });
        await element().client.command("look");  // after the answers of all clicks
        heard.push(seen.message.at(-1).data.step);
      }
      return heard;
    """)  # fmt: skip
    assert told == [8, 7]
    ask(place, "canvas().addEventListener('click', ({ target }) => target.requestPointerLock(), { once: true });")
    place.locator("reactor-view").click(position={"x": 140, "y": 50})
    told = ask(place, """
      await until(() => document.pointerLockElement === element());  // not the canvas, which is in a shadow root
      seen.message.length = 0;
      const at = { clientX: 140, isPrimary: true, pointerId: 1 };
      for (const type of ["pointerdown", "pointerup"]) canvas().dispatchEvent(new PointerEvent(type, at));
      await element().client.command("look");
      document.exitPointerLock();
      return seen.message.map(({ data }) => data.step);
    """)  # fmt: skip
    assert told == [5], "a locked pointer is in the middle"


def test_the_veil_says_when_the_session_is_over(place: Page) -> None:
    ask(place, SHOW + "await element().client.close();")
    expect(place.locator("reactor-view [part=veil]")).to_have_text("The session is over.")


def test_sound_waits_for_a_gesture_and_muted_stops_it(place: Page) -> None:
    """Scripts of Playwright count as gestures; so the page is told that there was none."""
    before = ask(place, SHOW + """
      window.gesture = false;
      Object.defineProperty(navigator, "userActivation", { get: () => ({ hasBeenActive: gesture }) });
      window.states = [];
      const { sound } = element().client;
      sound.subscribe(() => states.push(sound.state));
      element().setAttribute("sound", "");
      gesture = true;
      return sound.state;
    """)  # fmt: skip
    assert before == "off"
    place.mouse.click(5, 5)
    ask(place, """
      await until(() => states.includes("starting") || states.includes("on"));
      const { sound } = element().client;
      element().setAttribute("muted", "");
      await until(() => sound.state === "off");
      element().removeAttribute("muted");
      await until(() => sound.state !== "off");
      await sound.stop();  // by a button of the page, say
      window.started = 0;
      sound.start = async () => { started += 1; };
      dispatchEvent(new KeyboardEvent("keydown", { key: "a" }));
    """)  # fmt: skip
    assert place.evaluate("started") == 0, "a later gesture turns the sound on again"
