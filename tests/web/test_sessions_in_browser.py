"""Sessions of the web client in a browser, against a real server: a link that is cut, and pages that are loaded anew."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from tests.support import adder
from tests.support.cut_link import CutPoint, cut_link, port_of
from tests.support.package_page import ask
from tests.support.painter_page import PAGE
from tests.support.real_server import real_server

CUTS = 50
#: a session that is not left keeps its one place for as long as this whole file takes
MANIFEST = """
model: adder:Adder
runtime:
  resume_window: 600
  limits: {handshakes_per_minute: 0}
"""


@pytest.fixture(scope="module")
def port(site: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder = tmp_path_factory.mktemp("adder")
    shutil.copy(adder.__file__, folder)
    (folder / "reactor.yaml").write_text(MANIFEST)
    with real_server(folder, "--origin", site) as url:
        yield port_of(url)


def show_empty(page: Page, site: str, port: int) -> None:
    """An empty page that has the package, of another origin that the server lets in."""
    page.add_init_script(f"{PAGE} window.painter = 'http://127.0.0.1:{port}/';")
    page.goto(site)


# ---- a link that is cut ------------------------------------------------------------------------------------------------


def cut_points(seed: int) -> list[CutPoint]:
    """Places in a connection: from its handshake (some 800 bytes) through its welcome to commands and pictures after it."""
    numbers = random.Random(seed)

    def place() -> CutPoint:
        if numbers.random() < 0.5:
            return CutPoint(up=numbers.randint(600, 2000))
        return CutPoint(down=round(10 ** numbers.uniform(2, 4)))

    return [CutPoint(down=8_000), *(place() for _ in range(CUTS - 1))]  # the first one when the session has begun


BEGIN_ADDING = """
  Math.random = () => 0;  // a client that waits before it comes back waits for no time
  await begin();
  window.heard = { listener: [], loop: [], presented: [], framed: [], states: [], sessions: new Set() };
  client.on("state", ({ status, session }) => { heard.states.push(status); if (session) heard.sessions.add(session.id); });
  client.on("message", ({ data }) => heard.listener.push([data.count, data.number]));
  (async () => { for await (const { data } of client.messages()) heard.loop.push([data.count, data.number]); })();
  (async () => { for await (const { image, seq } of client.frames()) { image.close(); heard.framed.push(seq); } })();
  client.attach(canvas("one"), { onPresented: ({ seq }) => heard.presented.push(seq) });
  await until(() => client.session);
  window.enough = false;
  window.answers = [];
  (async () => {
    while (!enough) {
      answers.push(client.command("add", { number: answers.length + 1 }));
      await new Promise((resolve) => setTimeout(resolve, 15));
    }
  })();
"""
END_ADDING = """
  enough = true;
  const replies = (await Promise.all(answers)).map(({ reply }) => reply);
  const [shown, framed] = [heard.presented.length, heard.framed.length];
  await until(() => heard.presented.length > shown + 3 && heard.framed.length > framed + 3);  // the pictures go on
  await until(() => heard.loop.length >= replies.length);
  const { comebacks } = client.statistics();
  await client.close();
  return { ...heard, sessions: heard.sessions.size, replies, comebacks };
"""


def check_cuts(page: Page, site: str, port: int, troubles: list[str], seed: int) -> None:
    with cut_link(port, cut_points(seed)) as link:
        show_empty(page, site, link.port)
        ask(page, BEGIN_ADDING)
        while not link.spent.wait(0.05):
            page.evaluate("0")  # so that the browser's requests are answered meanwhile
        told = ask(page, END_ADDING)
        assert link.connections > CUTS
    all_of_them = list(range(1, len(told["replies"]) + 1))
    assert told["replies"] == all_of_them
    assert told["listener"] == told["loop"] == [[number, number] for number in all_of_them]
    for pictures in (told["presented"], told["framed"]):
        assert pictures == sorted(pictures)
    assert told["sessions"] == 1
    assert told["states"] == ["connecting", "live", *["resuming", "live"] * told["comebacks"], "ended"]
    assert page.evaluate("errors") == []
    assert all("WebSocket" in trouble for trouble in troubles)  # the browser tells of each try that fails
    troubles.clear()


def test_a_link_that_is_cut_50_times_loses_nothing_and_doubles_nothing(
    page: Page, site: str, port: int, troubles: list[str]
) -> None:
    check_cuts(page, site, port, troubles, seed=18)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
def test_links_that_are_cut_50_times(page: Page, site: str, port: int, troubles: list[str], seed: int) -> None:
    check_cuts(page, site, port, troubles, seed)


# ---- a page that is loaded anew, or left --------------------------------------------------------------------------------


@pytest.fixture
def place(page: Page, site: str, port: int) -> Iterator[Page]:
    show_empty(page, site, port)
    yield page
    page.evaluate("client.close()")
    assert page.evaluate("errors") == []


SESSION = """
  window.states = [];
  client.on("state", ({ status }) => states.push(status));
  await until(() => client.session);
  return client.session.id;
"""


def test_a_page_that_reloads_finds_its_session(place: Page) -> None:
    before = ask(place, f"await begin({{ memory: undefined }}); await client.command('add'); {SESSION}")
    place.reload()
    after = ask(place, f"await begin({{ memory: undefined }}); {SESSION}")
    assert after == before
    assert ask(place, "return [states, (await client.command('add')).reply];") == [["connecting", "live"], 2]


def test_a_page_without_a_memory_leaves_its_place_to_the_next_client(place: Page) -> None:
    """The server keeps a session for ten minutes; the next client would wait so long behind one that nobody can resume."""
    before = ask(place, f"await begin({{ memory: null }}); await client.command('add'); {SESSION}")
    place.reload()
    after = ask(place, f"await begin({{ memory: null }}); {SESSION}")
    assert after != before
    assert ask(place, "return (await client.command('add')).reply;") == 1
