"""The React components of the package in Chromium, in StrictMode, with React 18 and 19, against a real server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.support.package_page import ask, package_page
from tests.support.web_client import WEB, bundle

WORKERS = ["src/worker/decoder-worker.ts", "src/worker/audio-player-worklet.ts", "src/worker/microphone-worklet.ts"]


@pytest.fixture(scope="module", params=["19", "18"])
def package(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page as bundlers make it, with one of the two Reacts."""
    folder = tmp_path_factory.mktemp(f"react{request.param}")
    modules = WEB / "node_modules"
    chosen = [f"--alias:{name}={modules}/{name}-18" for name in ("react", "react-dom") if request.param == "18"]
    bundle(folder, "test/pages/react.tsx", *WORKERS, options=["--jsx=automatic", *chosen])
    (folder / "index.html").write_text(
        "<!doctype html><link rel=icon href=data:,><script type=module src=react.js></script><body></body>"
    )
    return folder


@pytest.fixture
def place(page: Page, package: Path, address: str) -> Iterator[Page]:
    yield package_page(page, address, package)
    ask(page, "window.app?.unmount(); await Promise.all(sockets.map(({ closed }) => closed));")


BEGIN = 'window.app = mount(); await until(() => seen.presented.length > 2 && seen.client.state.status === "live");'


def test_strict_mode_has_one_socket_one_session_and_one_token(place: Page) -> None:
    told = ask(place, BEGIN + """
      const { client } = seen;
      for (let i = 0; i < 20; i++) app.render({});  // `token` and `onPresented` are new functions each time
      const now = seen.presented.length;
      await until(() => seen.presented.length > now + 5);
      const { sessions, statuses, tokens } = seen;
      return { sockets: sockets.length, sessions: sessions.size, statuses, tokens, same: seen.client === client,
        canvases: document.querySelectorAll(".picture > canvas").length };
    """)  # fmt: skip
    assert told == {
        "sockets": 1, "sessions": 1, "statuses": ["connecting", "live"], "tokens": 1, "same": True, "canvases": 1,
    }  # fmt: skip


def test_the_same_picture_goes_on_with_another_fit_and_other_controls(place: Page) -> None:
    told = ask(place, BEGIN + """
      const canvas = document.querySelector(".picture > canvas");
      const fits = [canvas.style.objectFit];
      app.render({ props: { fit: "cover", controls: "keyboard", lead: false } });
      await until(() => canvas.style.objectFit === "cover" && seen.view.lead === false);
      const key = () => dispatchEvent(new KeyboardEvent("keydown", { key: "w", code: "KeyW" }));
      await until(() => { key(); return seen.messages.some(({ step }) => step === 1); });
      return { fits, same: canvas === document.querySelector(".picture > canvas") };
    """)  # fmt: skip
    assert told == {"fits": ["contain"], "same": True}


def test_leaving_closes_the_session_a_macrotask_later_with_a_close_frame(place: Page) -> None:
    told = ask(place, BEGIN + """
      const { socket, closed } = sockets[0];
      app.unmount();
      const before = socket.readyState;
      await new Promise((resolve) => setTimeout(resolve));
      const after = socket.readyState;
      const { code, wasClean } = await closed;
      return { before, after, code, wasClean, client: await seen.client.ended };
    """)  # fmt: skip
    assert told == {"before": 1, "after": 2, "code": 1000, "wasClean": True, "client": None}


def test_a_provider_that_takes_anothers_place_keeps_its_session(place: Page) -> None:
    """As fast refresh does after an edit that changes the hooks of a component around it."""
    told = ask(place, BEGIN + """
      app.render({ key: "other" });
      const now = seen.presented.length;
      await until(() => seen.presented.length > now + 5);
      return { sockets: sockets.length, sessions: seen.sessions.size, live: seen.client.state.status };
    """)  # fmt: skip
    assert told == {"sockets": 1, "sessions": 1, "live": "live"}


def test_two_providers_of_a_server_keep_a_session_each(place: Page) -> None:
    """StrictMode unmounts both before it mounts one again."""
    open_sockets = ask(place, """
      window.app = mount({ another: true });
      await until(() => sockets.length === 2);
      await new Promise((resolve) => setTimeout(resolve));
      return sockets.filter(({ socket }) => socket.readyState <= WebSocket.OPEN).length;
    """)  # fmt: skip
    assert open_sockets == 2


def test_another_address_or_role_begins_another_session_and_closes_the_old_one(place: Page) -> None:
    told = ask(place, BEGIN + """
      app.render({ url: location.origin + "/ws".replace("ws", "") });  // the same address in other words is another one
      await sockets[0].closed;
      await until(() => seen.sessions.size === 2);
      app.render({ url: location.origin + "/", role: "viewer" });
      await sockets[1].closed;
      return { sockets: sockets.length, closed: sockets.map(({ socket }) => socket.readyState) };
    """)  # fmt: skip
    assert told["sockets"] == 3
    assert told["closed"][:2] == [3, 3]


def test_another_fork_begins_another_session_there(place: Page) -> None:
    told = ask(place, BEGIN + """
      app.render({ fork: "of-another-day" });
      await sockets[0].closed;
      await until(() => seen.statuses.at(-1) === "ended");
      return sockets.map(({ socket }) => new URL(socket.url).searchParams.get("fork"));
    """)  # fmt: skip
    assert told == [None, "of-another-day"]  # which cannot be had, and is final


def test_a_provider_that_is_not_active_has_no_session_until_it_is(place: Page) -> None:
    told = ask(place, """
      window.app = mount({ active: false });
      await until(() => seen.statuses.length > 0);
      await new Promise((resolve) => setTimeout(resolve));
      const none = sockets.length;
      app.render({});
      await until(() => seen.presented.length > 0);
      app.render({ active: false });
      await sockets[0].closed;
      await until(() => seen.statuses.at(-1) === "ended");
      const { client } = seen;
      app.render({});
      await until(() => seen.sessions.size === 2);
      const statuses = seen.statuses.filter((status) => status !== "queued");  // behind the session that is being closed
      return { none, statuses, sockets: sockets.length, same: seen.client === client };
    """)  # fmt: skip
    assert told == {
        "none": 0, "statuses": ["ended", "connecting", "live", "ended", "connecting", "live"], "sockets": 2, "same": True,
    }  # fmt: skip


def test_a_client_of_ones_own_is_used_and_left_alone(place: Page) -> None:
    told = ask(place, """
      window.app = mount({ given: true });
      await until(() => seen.presented.length > 2);
      app.unmount();
      await new Promise((resolve) => setTimeout(resolve, 20));
      const { status } = seen.client.state;
      await seen.client.close();
      return { status, sockets: sockets.length };
    """)  # fmt: skip
    assert told == {"status": "live", "sockets": 1}


def test_a_component_without_a_picture_costs_no_video_and_a_picture_may_come_later(place: Page) -> None:
    told = ask(place, """
      window.app = mount({ picture: false });
      await until(() => seen.client?.state.status === "live");
      await seen.client.command("look");
      const received = () => Object.entries(seen.client.statistics().tracks)
        .filter(([name, { bytes }]) => name !== "speech" && bytes > 0).map(([name]) => name);
      const before = received();
      app.render({ picture: true });
      await until(() => seen.presented.length > 0);
      const { bytes } = seen.client.statistics().tracks.main_video;
      return { before, during: received(), bytes, sockets: sockets.length };
    """)  # fmt: skip
    assert told["bytes"] > 0
    assert (told["before"], told["during"], told["sockets"]) == ([], ["main_video"], 1)


def test_a_page_pauses_steps_and_restarts_the_model(place: Page) -> None:
    told = ask(place, BEGIN + """
      const { allowed } = seen.transport;
      const newest = () => seen.presented.at(-1);
      const rest = () => new Promise((resolve) => setTimeout(resolve, 700));
      await until(() => seen.presented.length > 40);
      await seen.transport.pause();
      await until(() => seen.transport.paused && !seen.transport.pending);
      await seen.transport.step();  // and what was queued
      const { frozen } = seen.client.statistics().tracks.main_video;
      await rest();
      const still = newest();
      await rest();
      const same = newest().seq === still.seq;
      await seen.transport.step(2);
      await until(() => newest().step === still.step + 2);
      await seen.transport.restart({ state: "fresh" });
      await seen.transport.resume();
      await until(() => !seen.transport.paused && newest().step > still.step + 10);
      seen.transport.step();  // nobody handles its rejection
      await until(() => seen.transport.error);
      const more = seen.client.statistics().tracks.main_video.frozen - frozen;  // a slow machine may freeze a little
      return { allowed, same, smooth: more < 1400, error: seen.transport.error.code };  // two rests are 1400 ms
    """)  # fmt: skip
    assert told == {"allowed": ["pause", "step", "restart"], "same": True, "smooth": True, "error": "not_paused"}


def test_hooks_send_and_hear(place: Page) -> None:
    told = ask(place, BEGIN + """
      const applied = await seen.command.run({ brightness: 0.25 });
      await until(() => seen.setting.value === 0.25 && !seen.command.pending);
      seen.command.run({ brightness: 7 });
      await until(() => seen.command.error);
      const refused = [seen.command.error.code, seen.command.error.path, seen.command.pending];
      seen.command.run({ brightness: 8 });  // nobody handles its rejection

      seen.values.length = 0;
      for (const value of [0.5, 0.6, 0.7]) seen.setting.set(value);
      await until(() => seen.setting.value === 0.7 && !seen.setting.pending);
      const forth = seen.values.every((value, i, values) => i === 0 || value > values[i - 1]);  // it never jumps back
      const no = await seen.setting.set(9).catch(({ code }) => code);
      await until(() => seen.setting.error);
      await until(() => seen.setting.value === 0.7);

      const file = await seen.upload.send(new File(["12345"], "five.txt"));
      const { reply } = await seen.client.command("size", { file: { upload_id: file.upload_id } });
      await until(() => seen.latest && seen.statistics?.tracks.main_video);
      const image = await createImageBitmap(await seen.view.snapshot());
      return { id: applied.id, refused, forth, setting: [no, seen.setting.error.code], reply,
        messages: seen.messages, latest: seen.latest, progress: seen.upload.progress, size: [image.width, image.height] };
    """)  # fmt: skip
    assert told == {
        "id": 1, "refused": ["invalid_command", "$.brightness", False], "forth": True,
        "setting": ["invalid_command", "invalid_command"], "reply": 5,
        "messages": [{"step": 7}], "latest": {"step": 7}, "progress": None, "size": [64, 48],
    }  # fmt: skip


def test_a_camera_is_sent_until_the_component_goes(place: Page) -> None:
    told = ask(place, BEGIN + """
      const publication = await seen.publication.start();
      await until(async () => (await seen.client.command("look")).reply >= 0);
      await until(() => seen.publication.publication === publication);
      app.unmount();
      await until(() => publication.media.getTracks()[0].readyState === "ended");
      seen.client = null;
      window.app = mount({ picture: false });
      await until(() => seen.client?.state.status === "live");
      seen.publication.start();
      seen.publication.stop();  // before there is a camera
      return { sent: publication.sent > 0, publication: seen.publication.publication, error: seen.publication.error };
    """)  # fmt: skip
    assert told == {"sent": True, "publication": None, "error": None}


def test_a_publication_ends_with_its_device_or_its_client(place: Page) -> None:
    told = ask(place, BEGIN + """
      const devices = navigator.mediaDevices;
      const getUserMedia = devices.getUserMedia.bind(devices);
      let allow = null;
      devices.getUserMedia = (wanted) => new Promise((resolve) => { allow = () => resolve(getUserMedia(wanted)); });
      const starting = seen.publication.start({ width: 320, height: 240 });
      await until(() => allow);
      const asking = [seen.publication.pending, seen.publication.publication];
      allow();
      const [camera] = (await starting).media.getTracks();
      await until(() => seen.publication.publication && !seen.publication.pending);
      const { width } = camera.getSettings();
      camera.dispatchEvent(new Event("ended"));  // as if it were unplugged
      await until(() => seen.publication.error);
      const failed = [seen.publication.error.name, seen.publication.publication];

      devices.getUserMedia = getUserMedia;
      await seen.publication.start();
      await until(() => seen.publication.publication);
      const again = seen.publication.error;
      await seen.client.close();
      await until(() => seen.publication.publication === null);
      return { asking, width, failed, again, error: seen.publication.error };
    """)  # fmt: skip
    assert told == {"asking": [True, None], "width": 320, "failed": ["MediaError", None], "again": None, "error": None}


def test_sound_begins_with_a_gesture(place: Page) -> None:
    ask(place, BEGIN + 'document.addEventListener("click", () => seen.sound.start());')
    place.mouse.click(5, 5)
    told = ask(place, """
      await until(() => seen.sound.state === "on");
      seen.sound.setVolume(0.5);
      await until(() => seen.sound.volume === 0.5);
      seen.sound.stop();
      await until(() => seen.sound.state === "off");
      return seen.sound.volume;
    """)  # fmt: skip
    assert told == 0.5


COUNTED = ("HTMLCanvasElement", "WebSocket", "Worker", "AudioContext")
CYCLE = """
  window.app = mount();
  await until(() => seen.presented.length > 0);
  app.unmount();
  await sockets.pop().closed;
  seen.presented.length = 0;
"""


@pytest.mark.parametrize(
    ("package", "mounts"),
    # One object that each mount leaves is 40 in a count that may not differ at all; 200 mounts take 14 s of a processor.
    [("19", 40), ("18", 40), *(pytest.param(react, 200, marks=pytest.mark.soak) for react in ("19", "18"))],
    indirect=["package"],
)
def test_many_mounts_leave_nothing_behind(place: Page, mounts: int) -> None:
    devtools = place.context.new_cdp_session(place)

    def alive(cycles: int) -> dict[str, int]:
        ask(place, f"for (let i = 0; i < {cycles}; i++) {{ {CYCLE} }} await until(() => timers.size === 0);")
        devtools.send("HeapProfiler.collectGarbage")
        counts: dict[str, int] = dict(devtools.send("Memory.getDOMCounters"))
        for name in COUNTED:
            prototype = devtools.send("Runtime.evaluate", {"expression": f"{name}.prototype", "objectGroup": "counted"})
            found = devtools.send(
                "Runtime.queryObjects", {"prototypeObjectId": prototype["result"]["objectId"], "objectGroup": "counted"}
            )
            counts[name] = length_of(found["objects"]["objectId"])
            devtools.send("Runtime.releaseObjectGroup", {"objectGroup": "counted"})
        return counts | {"workers": len(place.workers)}

    def length_of(objects: str) -> int:
        given = {"functionDeclaration": "function () { return this.length }", "objectId": objects, "returnByValue": True}
        return int(devtools.send("Runtime.callFunctionOn", given)["result"]["value"])

    before = alive(5)
    assert alive(mounts) == before
