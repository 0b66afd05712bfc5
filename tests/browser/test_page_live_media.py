"""Input from the viewer page to a real server and back: camera, microphone, files and the pointer."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import simplejpeg
from playwright.sync_api import Locator, Page, expect

from tests.support.real_server import real_server

GARDEN = Path(__file__).parents[2] / "examples" / "neural_ca"

# Shows the newest camera picture inverted, else the file of `look`, else grey; reports its inputs.
MODEL = """
import numpy as np
import simplejpeg

from reactor_trio.interface import (
    Audio, Idle, Input, InputField, InputState, ModelMessage, Output, ReactorPipeline, ReadMode, UploadedFile, Video,
    event, file_uploaded,
)


class Voice(Audio):
    sample_rate = 16_000


class Given(Input):
    camera: Video
    voice: Voice


class Picture(Output):
    main_video: Video


class Settings(InputState):
    look: UploadedFile | None = InputField(default=None, accept=["image/*"])


class Heard(ModelMessage):
    blocks: int
    shapes: list[str]


class Arrived(ModelMessage):
    name: str
    size: int


class Pressed(ModelMessage):
    x: float
    y: float


class Mirror(ReactorPipeline):
    state: Settings
    input: Given
    fps = 30

    async def inference(self):
        heard, shapes, loud, told = 0, set(), False, False
        while True:
            while blocks := self.input.voice.try_read(mode=ReadMode.FIFO):
                samples = blocks[0].data
                heard += 1
                shapes.add(f"{samples.shape} {samples.dtype}")
                loud = loud or abs(samples.astype(int)).max() > 1000
            if loud and heard >= 20 and not told:
                told = True
                await self.send(Heard(blocks=heard, shapes=sorted(shapes)))
            if frames := self.input.camera.try_read():
                yield Picture(main_video=255 - frames[-1].data)
            elif self.input.camera.total_received:
                yield Idle
            elif self.state.look is not None:
                yield Picture(main_video=simplejpeg.decode_jpeg(self.state.look.data))
            else:
                yield Picture(main_video=np.full((48, 64, 3), 128, np.uint8))

    @file_uploaded
    async def arrived(self, file: UploadedFile):
        await self.send(Arrived(name=file.name, size=file.size))

    @event
    def describe(self, mask: UploadedFile):
        return {"mask": mask.name, "type": mask.mime_type, "sum": sum(mask.data)}

    @event
    async def pointer_down(self, x: float, y: float):
        await self.send(Pressed(x=x, y=y))
"""
FILE_SIZE = 32 * 1024
SETTINGS = f"""
model: mirror:Mirror
runtime:
  uploads:
    file_size: {FILE_SIZE}
"""
RED, BLUE = [220, 30, 40], [20, 60, 210]

# Whether every pixel that the page shows is within 6 of a colour, each of the three values by itself.
IS_ALL = """(colour) => {
    const canvas = document.querySelector("canvas[data-track=main_video]");
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    return data.every((value, i) => i % 4 === 3 || Math.abs(value - colour[i % 4]) <= 6);
}"""
GREY = [128, 128, 128]

# Whether what the page shows is the camera's preview inverted: on average within 6 for each value. What moves is small.
IS_INVERTED_CAMERA = """() => {
    const canvas = document.querySelector("canvas[data-track=main_video]");
    const { width, height } = canvas;
    const camera = document.querySelector("[data-input=camera] video");
    if (width !== 640 || camera.videoWidth !== 640) return false;
    const copy = new OffscreenCanvas(width, height).getContext("2d");
    copy.drawImage(camera, 0, 0);
    const before = copy.getImageData(0, 0, width, height).data;
    const after = canvas.getContext("2d").getImageData(0, 0, width, height).data;
    let wrong = 0;
    for (let i = 0; i < after.length; i += 1) if (i % 4 < 3) wrong += Math.abs(255 - before[i] - after[i]);
    return wrong / (width * height * 3) < 6;
}"""
MOVES = """() => {
    const canvas = document.querySelector("canvas[data-track=main_video]");
    const now = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data;
    window.first ??= now;
    return now.filter((value, i) => Math.abs(value - window.first[i]) > 60).length > 1000;
}"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    project = tmp_path_factory.mktemp("mirror")
    (project / "mirror.py").write_text(MODEL)
    (project / "reactor.yaml").write_text(SETTINGS)
    with real_server(project) as url:
        yield url


@pytest.fixture(scope="module")
def garden_url() -> Iterator[str]:
    with real_server(GARDEN, "--set", "size=240") as url:
        yield url


def live(page: Page, address: str) -> None:
    page.goto(address)
    expect(page.locator('body[data-state="live"]')).to_be_attached()


def mirror(page: Page, url: str) -> None:
    live(page, url)
    page.wait_for_function(IS_ALL, arg=GREY)


def jpeg(colour: list[int], name: str) -> dict[str, object]:
    data = simplejpeg.encode_jpeg(np.full((48, 64, 3), colour, np.uint8), quality=95)
    return {"name": name, "mimeType": "image/jpeg", "buffer": data}


def messages(page: Page) -> Locator:
    return page.locator("#log-list")


def test_the_camera_comes_back_as_the_model_changed_it(url: str, page: Page) -> None:
    mirror(page, url)
    expect(page.locator("#figure-capture")).to_have_text("")
    page.locator("#controls").get_by_role("button", name="Turn on the camera").click()
    page.wait_for_function(IS_INVERTED_CAMERA)
    page.wait_for_function(MOVES)
    expect(page.locator("#figure-format")).to_have_text("640×480 h264")
    for figure in ("#figure-capture", "#figure-capture-p50"):
        expect(page.locator(figure)).to_have_text(re.compile(r"^\d+$"))
    page.get_by_role("button", name="Turn off the camera").click()
    expect(page.locator("#controls").get_by_role("button", name="Turn on the camera")).to_be_visible()


SENDING = "[data-input=camera] .input-status"


@pytest.mark.parametrize(
    ("without", "codec"),
    [
        ("", "h264"),
        # a browser without an encoder for H.264
        ("""const supported = VideoEncoder.isConfigSupported.bind(VideoEncoder);
            VideoEncoder.isConfigSupported = async (config) =>
                config.codec.startsWith("avc1") ? { supported: false, config } : supported(config);""", "vp8"),
        # one whose encoder breaks at its second picture, and which has no other
        ("""const supported = VideoEncoder.isConfigSupported.bind(VideoEncoder);
            VideoEncoder.isConfigSupported = async (config) =>
                config.codec === "vp8" ? { supported: false, config } : supported(config);
            const encode = VideoEncoder.prototype.encode;
            let pictures = 0;
            VideoEncoder.prototype.encode = function (...frame) {
                if ((pictures += 1) === 2) throw new Error("broken");
                return encode.apply(this, frame);
            };""", ""),
        ("delete window.VideoEncoder;", ""),
    ],
    ids=["h264", "vp8", "broken", "jpeg"],
)  # fmt: skip
def test_the_camera_is_encoded_by_the_browser_where_it_can(url: str, page: Page, without: str, codec: str) -> None:
    page.set_default_timeout(30_000)
    page.add_init_script(without)
    mirror(page, url)
    page.locator("#controls").get_by_role("button", name="Turn on the camera").click()
    page.wait_for_function(IS_INVERTED_CAMERA)
    page.wait_for_function(MOVES)
    expect(page.locator(SENDING)).to_have_text(re.compile(r"sends [1-9]\d* pictures a second"), timeout=120_000)
    expect(page.locator(SENDING)).to_have_attribute("title", codec or "jpeg")
    # Another size begins a new stream in the same track.
    page.locator("[data-input=camera]").get_by_label("Size").select_option("320×240")
    page.wait_for_function("() => document.querySelector('canvas[data-track=main_video]').width === 320")
    assert messages(page).get_by_text("not used").count() == 0


def test_the_model_gets_microphone_and_camera_together(url: str, page: Page) -> None:
    mirror(page, url)
    page.locator("#controls").get_by_role("button", name="Turn on the camera").click()
    page.locator("#controls").get_by_role("button", name="Turn on the microphone").click()
    heard = messages(page).get_by_text(re.compile(r'"blocks":[2-9]\d'))
    expect(heard).to_contain_text('"shapes":["(1, 320) int16"]')
    page.wait_for_function(IS_INVERTED_CAMERA)
    expect(page.locator(".live-mark:visible")).to_have_count(2)


def test_a_chosen_file_becomes_a_setting_and_goes_away_again(url: str, page: Page) -> None:
    mirror(page, url)
    setting = page.locator('[data-command="set_look"]')
    assert setting.locator("input[type=file]").get_attribute("accept") == "image/*"
    file = jpeg(RED, "a red cat.jpg")
    setting.locator("input[type=file]").set_input_files(file)
    page.wait_for_function(IS_ALL, arg=RED)
    expect(messages(page)).to_contain_text(f'{{"name":"a red cat.jpg","size":{len(file["buffer"])}}}')
    setting.get_by_role("button", name="Look: none").click()
    page.wait_for_function(IS_ALL, arg=GREY)


def test_a_file_dropped_on_an_actions_field_reaches_its_handler(url: str, page: Page) -> None:
    mirror(page, url)
    page.evaluate(
        """() => {
            const dataTransfer = new DataTransfer();
            dataTransfer.items.add(new File([new Uint8Array([1, 2, 250])], "Maske für Zoë.bin"));
            const zone = document.querySelector('[data-command="describe"] .drop');
            for (const type of ["dragover", "drop"]) {
                zone.dispatchEvent(new DragEvent(type, { dataTransfer, bubbles: true, cancelable: true }));
            }
        }"""
    )
    expect(messages(page)).to_contain_text('{"mask":"Maske für Zoë.bin","type":"application/octet-stream","sum":253}')


def test_a_file_over_the_limit_is_refused_with_the_servers_reason(
    url: str, page: Page, troubles: list[str], tmp_path: Path
) -> None:
    """This includes a file that is still being sent when the server has refused it."""
    mirror(page, url)
    setting = page.locator('[data-command="set_look"]')
    large = tmp_path / "large.jpg"
    for size, colour in ((FILE_SIZE + 1, BLUE), (16 * 1024 * 1024, RED)):
        with large.open("wb") as file:
            file.truncate(size)
        setting.locator("input[type=file]").set_input_files(large)
        reason = f"Refused: a file may have {FILE_SIZE} bytes, this one has {size} (413)"
        expect(setting.get_by_role("alert")).to_have_text(reason)
        assert all("413" in trouble for trouble in troubles), troubles
        troubles.clear()
        # The session goes on.
        setting.locator("input[type=file]").set_input_files(jpeg(colour, "small.jpg"))
        page.wait_for_function(IS_ALL, arg=colour)
        expect(setting.get_by_role("alert")).to_be_hidden()


def test_a_file_of_a_kind_that_is_not_accepted_is_refused(url: str, page: Page) -> None:
    mirror(page, url)
    setting = page.locator('[data-command="set_look"]')
    text = {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"hello"}
    setting.locator("input[type=file]").set_input_files(text)
    expect(setting.get_by_role("alert")).to_have_text("This is not a picture. Choose a PNG or JPEG.")
    page.wait_for_function(IS_ALL, arg=GREY)


def press(page: Page, track: str, x: float, y: float) -> None:
    """Press and release at a position in the picture."""
    canvas = page.locator(f"canvas[data-track={track}]")
    for figure in ("#figure-fps", "#figure-format"):  # figures that appear make the picture smaller
        expect(page.locator(figure)).to_have_text(re.compile(r"\d"))
    canvas.click(trial=True)  # waits until it moves no more
    width, height, across, down = canvas.evaluate(
        "(canvas) => [canvas.width, canvas.height, canvas.clientWidth, canvas.clientHeight]"
    )
    scale = min(across / width, down / height)
    left, top = (across - width * scale) / 2, (down - height * scale) / 2
    canvas.click(position={"x": left + x * width * scale, "y": top + y * height * scale})


def test_a_press_on_the_picture_sends_its_position(url: str, page: Page) -> None:
    mirror(page, url)
    pressed = messages(page).get_by_text(re.compile(r'"x":'))
    for count, place in enumerate([(0.5, 0.5), (0.25, 0.75)], 1):
        press(page, "main_video", *place)
        expect(pressed).to_have_count(count)
        found = re.search(r'\{"x":([\d.]+),"y":([\d.]+)\}', pressed.first.text_content() or "")  # the newest
        assert found
        assert [float(part) for part in found.groups()] == pytest.approx(place, abs=0.01)


# The part of the pixels around a place, a twentieth of the picture to each side, that are no background (`night`).
ALIVE = """([x, y, least, most]) => {
    const canvas = document.querySelector("canvas[data-track=garden]");
    const { width, height } = canvas;
    const [across, down] = [Math.round(width / 20), Math.round(height / 20)];
    const box = [Math.round(x * width) - across, Math.round(y * height) - down, 2 * across, 2 * down];
    const { data } = canvas.getContext("2d").getImageData(...box);
    let alive = 0;
    for (let i = 0; i < data.length; i += 4) alive += Math.max(data[i], data[i + 1], data[i + 2]) > 70;
    const part = alive / (data.length / 4);
    return least <= part && part <= most;
}"""


def test_a_flower_is_cut_where_the_pointer_presses_and_grows_back(garden_url: str, page: Page) -> None:
    live(page, f"{garden_url}?video=raw")
    speed = page.get_by_label("Speed", exact=True)
    middle, beside = [0.5, 0.5], [0.5, 0.35]
    speed.fill("8")
    for place in (middle, beside):
        page.wait_for_function(ALIVE, arg=[*place, 0.9, 1])
    speed.fill("0")
    press(page, "garden", *middle)
    page.wait_for_function(ALIVE, arg=[*middle, 0, 0])
    assert page.evaluate(ALIVE, [*beside, 0.5, 1])
    speed.fill("4")
    page.wait_for_function(ALIVE, arg=[*middle, 0.9, 1])
