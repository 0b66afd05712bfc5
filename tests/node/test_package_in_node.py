"""The npm package in Node, as it is published: against a real server, through a link that is cut."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from tests.support import mixer
from tests.support.cut_link import cut_link, port_of
from tests.support.real_server import real_server
from tests.support.web_client import WEB, build_package, node, node_program

ENTRIES = ("", "/react", "/element", "/controls", "/wire", "/testing")


@pytest.fixture(scope="module", autouse=True)
def _package() -> None:
    build_package()


def test_commands_files_pictures_inputs_and_coming_back(tmp_path: Path) -> None:
    shutil.copy(mixer.__file__, tmp_path)
    (tmp_path / "reactor.yaml").write_text(
        "model: mixer:Mixer\nname: mixer\nruntime:\n  resume_window: 20\n  uploads: {file_size: 4096}\n"
    )
    with real_server(tmp_path) as url, cut_link(port_of(url)) as link:
        address = f"http://127.0.0.1:{link.port}/"
        with subprocess.Popen(
            [node_program(), "test/live/node-client.ts", address],
            cwd=WEB, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        ) as script:  # fmt: skip
            try:
                assert script.stdout is not None
                said = []
                for line in script.stdout:
                    said.append(line)
                    if line == "cut\n":
                        link.drop()
                    elif line == "resuming\n":
                        link.restore()
                assert said[-1:] == ["done\n"], "".join(said)
                assert script.wait() == 0
            finally:
                script.kill()


@pytest.mark.parametrize("entry", ENTRIES)
def test_an_entry_does_nothing_when_it_is_imported(entry: str) -> None:
    """No global of the browser is there; none is made, and nothing keeps Node alive."""
    node("--input-type=module", "--eval", f"""
        const before = Object.getOwnPropertyNames(globalThis);
        await import("reactor-trio{entry}");
        const made = Object.getOwnPropertyNames(globalThis).filter((name) => !before.includes(name));
        const open = process.getActiveResourcesInfo();
        if (made.length || open.length) throw new Error(`${{made}} ${{open}}`);
    """)  # fmt: skip
