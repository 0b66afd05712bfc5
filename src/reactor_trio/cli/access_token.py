"""`reactor run --token`: where the server's token comes from, and what a terminal is told to open.

The token itself is never an argument: every user of a machine can read those of all programs.
"""

from __future__ import annotations

import os
import secrets

import msgspec

from reactor_trio.cli.terminal import Terminal, UsageError
from reactor_trio.configuration.settings import AuthSettings, Settings

VARIABLE = "REACTOR_TOKEN"
_ITSELF = f"env:{VARIABLE}"


def with_token(settings: Settings, given: str, terminal: Terminal) -> tuple[Settings, str | None]:
    """Return the settings with the token that `--token` names, and the token itself if it was drawn now.

    `auto` takes the variable REACTOR_TOKEN, or draws a token, and puts it there for the processes that this one starts.

    Raises UsageError for a token that is written there, and for one that would be drawn and that nobody could see.
    """
    drawn = None
    if given == "auto":
        given = _ITSELF
        if not os.environ.get(VARIABLE):
            if not terminal.interactive:
                raise UsageError(
                    f"--token auto: a drawn token is shown on a terminal only; put one into the variable {VARIABLE}",
                    anchor="tokens",
                )
            os.environ[VARIABLE] = drawn = secrets.token_urlsafe(24)
    elif not given.startswith(("env:", "file:")):
        raise UsageError(
            f"--token: other users can read what is written here; put the token into the variable {VARIABLE}, and give "
            "--token auto, env:NAME or file:PATH", anchor="tokens",
        )  # fmt: skip
    auth = msgspec.structs.replace(settings.auth or AuthSettings(), token=given)
    return msgspec.structs.replace(settings, auth=auth), drawn


def page_with(url: str, token: str | None) -> str:
    """The page's URL that has the token: in its fragment, which browsers do not send."""
    return url if token is None else f"{url}#token={token}"


def whose_token(settings: Settings) -> str:
    """Say which token the page of a server asks for; "" without one."""
    auth = settings.auth
    if auth is None or not (given := auth.token or auth.viewer_token):
        return ""
    kind, colon, place = given.partition(":")
    where = {"env": f"the variable {place}", "file": f"the file {place}"}.get(kind) if colon else None
    return f"it asks for a token, that of {where or 'runtime.auth'}; or open it with #token=TOKEN at its end"
