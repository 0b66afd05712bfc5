"""A client of each server that a page starts, in place of the reader's browser, camera and microphone."""

from __future__ import annotations

import ssl
from urllib.parse import parse_qs, urlsplit

import numpy as np
import trio
from tests.docs.blocks.page import Block
from tests.docs.blocks.shell import Server

from reactor_trio.client import Client, connect

#: real seconds for the first pictures
PATIENCE = 30
#: A page's reader trusts the certificate that it tells to make.
OWN_CERTIFICATE = ssl.create_default_context()
OWN_CERTIFICATE.check_hostname, OWN_CERTIFICATE.verify_mode = False, ssl.CERT_NONE


def see(server: Server) -> None:
    """Wait for a frame of each of the server's tracks."""
    token = parse_qs(urlsplit(server.url).fragment).get("token", [server.variables.get("REACTOR_TOKEN")])[0]
    try:
        _see(server.url.partition("#")[0], token)
    except Exception as error:
        what = f"`{server.command}` shows nothing: {type(error).__name__}: {error}\n{server.kill()}"
        raise server.block.failed(what, server.line) from error


def see_page(url: str, block: Block) -> None:
    """The same for the page that a block shows in its cell."""
    try:
        _see(url, None)
    except Exception as error:
        raise block.failed(f"the page of `show` shows nothing: {type(error).__name__}: {error}") from error


def _see(url: str, token: str | None) -> None:
    try:
        trio.run(_first_frames, url, token)
    except ExceptionGroup as group:  # of the nursery below
        raise group.exceptions[0] from None


async def _first_frames(url: str, token: str | None) -> None:
    with trio.fail_after(PATIENCE):
        async with connect(url, token=token, ssl_context=OWN_CERTIFICATE) as client, trio.open_nursery() as nursery:
            nursery.start_soon(_give_inputs, client)
            for track in client.tracks:
                if track.direction != "in":
                    await anext(client.frames(track.name))
            nursery.cancel_scope.cancel()


async def _give_inputs(client: Client) -> None:
    """A grey camera and a silent microphone, until the scope is cancelled."""
    inputs = [track for track in client.tracks if track.direction == "in"]
    while inputs:
        for track in inputs:
            if track.kind == "video":
                await client.push_video(track.name, np.full((64, 64, 3), 128, np.uint8))
            else:
                await client.push_audio(track.name, np.zeros(960, np.int16))
        await trio.sleep(0.05)
