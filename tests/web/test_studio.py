"""`examples/web/studio` at an origin of its own, against its own model: everything that a person can do there."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, WebSocketRoute, expect

from tests.support.package_page import WATCH
from tests.support.page_scripts import READ_BACK
from tests.support.real_server import ENVIRONMENT, REACTOR, real_server
from tests.support.web_client import WEB, node
from tests.support.web_pages import REACT_PACKAGES, build_by_vite, install, web_site

STUDIO = Path(__file__).parents[2] / "examples" / "web" / "studio"
PACKAGES = (*REACT_PACKAGES, "csstype", "@types/react", "@types/react-dom")
#: the mean colours of the painting
COLOURS = """
window.colours = () => {
  const canvas = document.querySelector(".picture canvas");
  if (!canvas?.width) return [0, 0, 0];
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  return [0, 1, 2].map((channel) => {
    let sum = 0;
    for (let i = channel; i < data.length; i += 4) sum += data[i];
    return 4 * sum / data.length;
  });
};
"""
#: how Chromium calls each connection that a test has cut
CUT = "net::ERR_"
IS_GREY = "() => { const [r, g, b] = colours(); return g > 20 && Math.max(r, g, b) - Math.min(r, g, b) < 12; }"
IS_RED = "() => { const [r, g, b] = colours(); return r > b + 20; }"
IS_GREEN = "() => { const [r, g, b] = colours(); return g > r + 40 && g > b + 40; }"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("web") / "studio"
    shutil.copytree(STUDIO, folder, ignore=shutil.ignore_patterns("node_modules", "dist", "__pycache__"))
    install(folder, *PACKAGES)
    for name in ("vite", "@vitejs/plugin-react"):
        link = folder / "node_modules" / name
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(WEB / "node_modules" / name)
    return folder


@pytest.fixture(scope="module")
def site(folder: Path) -> Iterator[str]:
    with (
        web_site(folder / "dist") as site,
        real_server(folder / "model", "--origin", site, "--set", "height=90") as server,
    ):
        (folder / ".env").write_text(f"VITE_SERVER={server}\n")
        build_by_vite(folder)
        yield site


@pytest.fixture
def open_page(browser: Browser, site: str) -> Iterator:
    """`open_page()` is a page of the studio in a context of its own. At the end of the test they all leave."""
    pages: list[Page] = []
    said: list[str] = []

    def open_page(part: str = "", *, scripts: str = "", **options) -> Page:
        context = browser.new_context(permissions=["clipboard-read", "clipboard-write"], **options)
        context.add_init_script(WATCH + READ_BACK + COLOURS + scripts)
        page = context.new_page()
        page.set_default_timeout(90_000)
        page.on("console", lambda message: said.append(message.text) if CUT not in message.text else None)
        page.on("pageerror", lambda error: said.append(str(error)))
        pages.append(page)
        page.goto(f"{site}/{part}")
        return page

    yield open_page
    for page in pages:
        if (leave := page.get_by_role("button", name="Leave")).is_visible():  # or the next test waits for the session
            leave.click()
        page.context.close()
    assert said == []


def is_live(page: Page) -> Page:
    page.locator("header .status[data-status=live]").wait_for()
    return page


def test_a_prompt_changes_the_picture_and_is_kept(open_page) -> None:
    page = is_live(open_page())
    page.wait_for_function(IS_RED)
    prompt = page.get_by_label("Prompt", exact=True)
    expect(prompt).to_have_value("sunset over the sea")
    prompt.fill("noir")
    prompt.press("Enter")
    page.wait_for_function(IS_GREY)
    expect(page.get_by_label("Painting", exact=True)).to_have_attribute("data-done", "true")
    expect(page.get_by_label("Earlier prompts").get_by_role("button").first).to_have_text("noir")

    prompt.press("ArrowUp")  # the newest, which is shown already
    prompt.press("ArrowUp")
    expect(prompt).to_have_value("sunset over the sea")
    prompt.fill(" ")
    page.get_by_role("button", name="Paint", exact=True).click()
    expect(page.get_by_role("alert").filter(has_text="A prompt has 1 to 120 characters.")).to_be_visible()
    page.get_by_role("button", name="sunset over the sea").click()
    page.wait_for_function(IS_RED)
    expect(prompt).to_have_value("sunset over the sea")
    expect(page.get_by_role("alert").filter(has_text="A prompt")).to_have_count(0)


def test_sliders_are_the_models_with_its_bounds_and_come_back_after_a_reload(open_page) -> None:
    page = is_live(open_page())
    page.wait_for_function(IS_RED)
    strength, colours = page.get_by_label("Strength", exact=True), page.get_by_label("Colours, as a number")
    strength.fill("0")
    page.wait_for_function(IS_GREY)
    page.reload()
    is_live(page)
    expect(strength).to_have_value("0")  # a new session would begin with 1
    page.wait_for_function(IS_GREY)

    expect(page.get_by_label("Colours", exact=True)).to_have_attribute("max", "32")
    colours.fill("50")
    colours.press("Enter")
    expect(page.get_by_role("alert").filter(has_text="A number from 2 to 32.")).to_be_visible()
    expect(colours).to_have_value("24")
    colours.fill("3")
    colours.press("Enter")
    expect(page.get_by_label("Colours", exact=True)).to_have_value("3")
    expect(page.get_by_role("alert").filter(has_text="A number")).to_have_count(0)
    page.get_by_role("button", name="Reset Strength").click()
    page.wait_for_function(IS_RED)
    page.get_by_role("button", name="Reset all").click()
    expect(colours).to_have_value("24")


def test_the_camera_is_painted_until_it_is_stopped(open_page) -> None:
    page = is_live(open_page())
    page.get_by_label("Strength", exact=True).fill("0")
    page.wait_for_function(IS_GREY)
    page.get_by_role("button", name="Paint me").click()
    page.wait_for_function(IS_GREEN)  # Chromium's camera
    page.wait_for_function("document.querySelector('.camera video').videoWidth > 0")
    page.get_by_role("button", name="Stop the camera").click()
    page.wait_for_function(IS_GREY)
    expect(page.locator(".camera video")).to_have_count(0)


def test_a_refused_camera_says_what_to_do(open_page) -> None:
    refuse = 'navigator.mediaDevices.getUserMedia = async () => { throw new DOMException("", "NotAllowedError"); };'
    page = is_live(open_page(scripts=refuse))
    page.get_by_role("button", name="Paint me").click()
    expect(page.get_by_role("alert").filter(has_text="Allow it at the icon beside the address")).to_be_visible()
    expect(page.get_by_role("button", name="Paint me")).to_be_enabled()


def test_a_recording_and_a_snapshot_are_kept_as_files(open_page) -> None:
    page = is_live(open_page())
    page.get_by_role("button", name="Record").click()
    page.get_by_role("button", name=re.compile(r"Stop \d:(?!00)")).click()  # after a second
    page.get_by_role("button", name="Snapshot").click()
    film, picture = page.locator(".takes video"), page.locator(".takes img")
    expect(film).to_have_count(1)
    expect(picture).to_have_count(1)
    assert film.evaluate("""async (film) => {
        await film.play();
        await until(() => film.currentTime > 0 || film.ended);
        return [film.videoWidth, film.videoHeight];
    }""") == [160, 90]  # fmt: skip
    size = picture.evaluate("async (image) => { await image.decode(); return [image.naturalWidth, image.naturalHeight]; }")
    assert size == [160, 90]
    name = page.locator(".takes a").nth(1).get_attribute("download")
    assert name is not None
    assert name.endswith((".mp4", ".webm"))
    page.get_by_role("button", name=f"Delete {name}").click()
    expect(film).to_have_count(0)


def test_a_visitor_by_the_share_link_sees_the_session_and_cannot_change_it(open_page) -> None:
    page = is_live(open_page())
    page.get_by_label("Prompt", exact=True).fill("noir")
    page.get_by_label("Prompt", exact=True).press("Enter")
    page.wait_for_function(IS_GREY)
    page.get_by_role("button", name="Share").click()
    expect(page.get_by_role("status").filter(has_text="Link copied")).to_be_visible()
    link = page.evaluate("navigator.clipboard.readText()")

    viewer = is_live(open_page(link.rpartition("/")[2]))
    expect(viewer.get_by_role("heading", name="You are watching")).to_be_visible()
    expect(viewer.get_by_label("Prompt", exact=True)).to_have_value("noir")
    viewer.wait_for_function(IS_GREY)
    page.get_by_label("Lines", exact=True).fill("0.75")
    expect(viewer.get_by_label("Lines", exact=True)).to_have_value("0.75")
    expect(viewer.get_by_label("Lines", exact=True)).to_be_disabled()
    viewer.eval_on_selector_all("fieldset", "(all) => all.forEach((each) => { each.disabled = false; })")
    viewer.get_by_role("button", name="sunset over the sea").click()
    expect(viewer.locator("#prompt-error")).not_to_be_empty()
    expect(page.get_by_label("Prompt", exact=True)).to_have_value("noir")

    page.get_by_role("button", name="Leave").click()
    expect(viewer.get_by_text("The link showed a session that has ended.")).to_be_visible()
    expect(viewer.get_by_role("link", name="Start a session of my own")).to_be_visible()


def test_it_says_why_there_is_no_picture_and_goes_on(open_page) -> None:
    page = is_live(open_page())
    page.get_by_label("Speed", exact=True).fill("2")
    second = open_page()
    expect(second.get_by_text("You are next")).to_be_visible()
    expect(second.get_by_label("Prompt", exact=True)).to_be_disabled()

    page.context.set_offline(True)
    expect(page.get_by_text("The connection is lost")).to_be_visible()
    page.context.set_offline(False)
    is_live(page)
    expect(page.get_by_label("Speed", exact=True)).to_have_value("2")

    page.get_by_role("button", name="Leave").click()
    expect(page.get_by_text("The session is over")).to_be_visible()
    expect(page.get_by_label("Speed", exact=True)).to_have_value("2")  # as it was
    is_live(second).get_by_role("button", name="Leave").click()
    page.get_by_role("button", name="Start again").click()
    is_live(page)
    expect(page.get_by_label("Speed", exact=True)).to_have_value("1")


def test_the_page_tries_an_absent_server_again(open_page) -> None:
    page = is_live(open_page())
    page.get_by_role("button", name="Leave").click()
    away = True

    def connect(socket: WebSocketRoute) -> None:
        if away:
            socket.close()
        else:
            socket.connect_to_server()

    page.route_web_socket(re.compile("/ws"), connect)
    page.route("**/health", lambda route: route.abort())
    page.reload()
    expect(page.get_by_text("Next try in")).to_be_visible()
    page.get_by_role("button", name="Try now").click()
    away = False
    is_live(page)  # by the next try, which is at most 8 s away


def test_it_fits_a_phone(open_page) -> None:
    page = is_live(open_page())
    page.wait_for_function(IS_RED)
    for width, height in [(390, 844), (844, 390), (320, 568)]:
        page.set_viewport_size({"width": width, "height": height})
        assert page.evaluate("document.documentElement.scrollWidth") == width
        page.get_by_label("Speed", exact=True).fill("3")
        picture = page.locator(".picture canvas").bounding_box()
        assert picture is not None
        assert 0 < picture["y"] + picture["height"] / 2 < height  # it is seen beside the slider, which was scrolled to


def test_it_compiles_with_the_types_of_its_model(folder: Path) -> None:
    node(WEB / "node_modules" / "typescript" / "bin" / "tsc", "--project", folder)
    command = [*REACTOR, "types", "--path", "model", "--out", "src/studio.ts", "--check"]
    subprocess.run(command, cwd=STUDIO, env=ENVIRONMENT, check=True)
