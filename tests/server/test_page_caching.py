"""How the viewer page's files travel: compressed, once, and asked for again only where they may have changed."""

from __future__ import annotations

import gzip
import re
from importlib.resources import files

import anyio
import numpy as np
import pytest

from reactor_trio.interface import Output, ReactorPipeline, Video
from reactor_trio.testing import open_server

PAGE = files("reactor_trio") / "page"
GZIP = {"Accept-Encoding": "gzip, deflate, br, zstd"}


class Picture(Output):
    main_video: Video


class Still(ReactorPipeline):
    def inference(self):
        while True:
            yield Picture(main_video=np.zeros((4, 4, 3), np.uint8))


def body_of(answer):
    return gzip.decompress(answer.body) if answer.headers.get("content-encoding") == "gzip" else answer.body


def links(index):
    """What the index loads: `./page/VERSION/NAME`."""
    return [link[2:] for link in re.findall(r'(?:href|src)="([^"]+)"', index.decode())]


async def test_a_second_load_transfers_almost_nothing(autojump_clock):
    async with open_server(Still) as server:
        first = server.http("/", headers=GZIP)
        paths = {f"/{link}" for link in links(body_of(first))}
        assert {path.rpartition("/")[2] for path in paths} == {"icon.svg", "style.css", "main.js"}
        folder = next(iter(paths)).rpartition("/")[0]
        # main.js names its worker and its worklets by relative addresses, so the browser asks for them in this folder.
        names = {file.name for file in PAGE.iterdir()} - {"index.html", "built.json"}
        for name in names:
            answer = server.http(f"{folder}/{name}", headers=GZIP)
            assert (answer.status, body_of(answer)) == (200, (PAGE / name).read_bytes()), name
            assert answer.headers["cache-control"] == "public, max-age=31536000, immutable"  # so it is not asked for again
        again = server.http("/", headers={**GZIP, "If-None-Match": first.headers["etag"]})
        assert (again.status, again.body) == (304, b"")
        assert (again.headers["etag"], again.headers["cache-control"]) == (first.headers["etag"], "no-cache")


async def test_a_page_of_an_older_server_gets_what_there_is_and_does_not_keep_it(autojump_clock):
    async with open_server(Still) as server:
        old = server.http("/page/0123456789abcdef/audio-player-worklet.js")  # it asks late, in the folder that it came from
        assert (old.status, old.body) == (200, (PAGE / "audio-player-worklet.js").read_bytes())
        assert old.headers["cache-control"] == "no-cache"


async def test_files_under_their_plain_names_are_asked_for_again_and_not_sent_again(autojump_clock):
    async with open_server(Still) as server:
        plain = server.http("/page/protocol.js")
        packed = server.http("/page/protocol.js", headers=GZIP)
        assert plain.headers["cache-control"] == packed.headers["cache-control"] == "no-cache"
        assert "content-encoding" not in plain.headers
        assert packed.headers["content-encoding"] == "gzip"
        assert gzip.decompress(packed.body) == plain.body
        assert len(packed.body) < len(plain.body) / 2
        assert plain.headers["vary"] == packed.headers["vary"] == "accept-encoding, origin"
        tags = [plain.headers["etag"], packed.headers["etag"]]
        assert tags[0] != tags[1]  # other bytes
        for known in (tags[0], f'"other", W/{tags[0]}', "*"):
            answer = server.http("/page/protocol.js", headers={"If-None-Match": known})
            assert (answer.status, answer.body) == (304, b"")
            # What it says besides is said of the file (RFC 9110 section 15.4.5).
            told = {name: answer.headers[name] for name in ("etag", "vary", "cache-control")}
            assert told == {name: plain.headers[name] for name in told}
            assert answer.headers["content-length"] == str(len(plain.body))
        for unknown in ('"other"', tags[1], "nonsense", ""):
            assert server.http("/page/protocol.js", headers={"If-None-Match": unknown}).status == 200


@pytest.mark.parametrize(
    ("accepted", "packed"),
    [
        ("gzip", True), ("GZIP;q=0.5", True), ("*", True), ("br, gzip ; q=1.0", True), ("*;q=0, gzip", True),
        ("identity", False), ("gzip;q=0", False), ("gzip;q=0.000, *", False), ("gzip;q=often", False), ("", False),
        ("gzip;q=1.2.3", False), ("gzip;level=1", False),
    ],
)  # fmt: skip
async def test_only_who_takes_gzip_gets_it(autojump_clock, accepted, packed):
    async with open_server(Still) as server:
        answer = server.http("/", headers={"Accept-Encoding": accepted})
        assert (answer.headers.get("content-encoding") == "gzip") == packed
        assert body_of(answer).startswith(b"<!doctype html>")


async def test_what_is_no_file_of_the_page_is_not_found(autojump_clock):
    async with open_server(Still) as server:
        folder = links(body_of(server.http("/")))[0].rpartition("/")[0]
        for path in (f"/{folder}/", f"/{folder}", f"/{folder}/none.js", f"/{folder}/{folder}/main.js", "/page/xyz/main.js",
                     f"/{folder}/..%2fsite.js", "/page/built.json", "/page/", "/page/../errors.py"):  # fmt: skip
            assert server.http(path).status == 404, path


async def test_an_answer_without_a_body_leaves_the_connection_to_the_next_request(autojump_clock):
    async with open_server(Still, websocket=True) as server:
        stream = await server._open_stream()
        tag = server.http("/page/style.css").headers["etag"]
        ask = f"GET /page/style.css HTTP/1.1\r\nhost: localhost\r\nif-none-match: {tag}\r\n\r\n"
        last = "GET /page/icon.svg HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n"
        await stream.send((ask + last).encode())
        data = b""
        with pytest.raises(anyio.EndOfStream):
            while True:
                data += await stream.receive()
        unchanged, _, rest = data.partition(b"\r\n\r\n")
        assert unchanged.startswith(b"HTTP/1.1 304 Not Modified\r\n")
        assert rest.startswith(b"HTTP/1.1 200 OK\r\n")
        assert rest.endswith((PAGE / "icon.svg").read_bytes())
