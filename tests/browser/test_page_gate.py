"""The page of a gate, with its session at a replica of another origin: files, a lost link, a reload, a link for viewers."""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from tests.support.cut_link import cut_link, port_of
from tests.support.real_server import real_server
from tests.support.stand_in_gate import KEY, Place, StandInGate, gate_in_a_thread

MODEL = '''
import numpy as np
from reactor_trio import InputState, Output, ReactorPipeline, UploadedFile, Video, event

class Total(InputState):
    total: int = 0

class Picture(Output):
    main_video: Video

class Adder(ReactorPipeline):
    state: Total
    fps = 30

    @event
    async def add(self) -> int:
        self.state.total += 1
        return self.state.total

    @event
    async def weigh(self, file: UploadedFile) -> int:
        return file.size

    def inference(self):
        while True:
            yield Picture(main_video=np.full((64, 64, 3), 40 + 30 * self.state.total, np.uint8))
'''
MANIFEST = """
model: adder:Adder
name: adder
runtime:
  resume_window: 20
  auth: {{ticket_keys: [{key}]}}
  origins: ["http://127.0.0.1:{gate}"]
"""
CAT = {"name": "cat.txt", "mimeType": "text/plain", "buffer": b"meow"}



def test_a_gates_page_goes_to_its_replica(tmp_path: Path, browser: Browser, page: Page, troubles: list[str]) -> None:
    gate = StandInGate([])
    (tmp_path / "adder.py").write_text(MODEL)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    with gate_in_a_thread(gate) as port:
        (tmp_path / "reactor.yaml").write_text(MANIFEST.format(key=KEY, gate=port))
        with real_server(tmp_path) as url, cut_link(port_of(url)) as link:
            gate.places.append(Place(f"ws://127.0.0.1:{link.port}/ws", positions=(1,)))
            page.goto(f"http://127.0.0.1:{port}/#token=what-the-gate-wants")
            body = page.locator("body")
            expect(body).to_have_attribute("data-state", "live")
            assert page.url == f"http://127.0.0.1:{port}/"
            [(_, asked)] = gate.came
            assert asked.query["token"] == "what-the-gate-wants"
            page.get_by_role("button", name="Add").click()
            expect(page.locator("#log-list li", has_text="add")).to_have_count(1)

            form = page.locator('[data-command="weigh"]')
            form.locator("input[type=file]").set_input_files(CAT)
            expect(page.locator("#log-list li", has_text="weigh")).to_contain_text("4")
            # The first answered command brings the parts of its latency: these files have come before the link is cut.
            expect(page.locator("#latency:not([hidden])")).to_be_attached()

            link.drop()
            expect(body).to_have_attribute("data-state", "resuming")
            link.restore()
            expect(body).to_have_attribute("data-state", "live")
            page.reload()
            expect(body).to_have_attribute("data-state", "live")
            page.get_by_role("button", name="Add").click()
            expect(page.locator("#log-list li", has_text="add")).to_contain_text("2")  # the same session
            form.locator("input[type=file]").set_input_files(CAT)
            expect(page.locator("#log-list li", has_text="weigh")).to_contain_text("4")
            assert len(gate.came) == 1

            page.get_by_role("button", name="Watch link").click()
            expect(page.locator("#toasts")).to_contain_text("Link copied")
            shared = page.evaluate("navigator.clipboard.readText()")
            assert shared.startswith(f"http://127.0.0.1:{link.port}/?role=viewer#token=")
            stranger = browser.new_context().new_page()
            stranger.goto(shared)
            expect(stranger.locator("#status")).to_have_text("watching")
            stranger.context.close()
            page.close()
    assert all("WebSocket" in trouble for trouble in troubles)  # the browser tells of each try that is refused
    troubles.clear()
