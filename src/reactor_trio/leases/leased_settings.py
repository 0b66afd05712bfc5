"""`leased_settings`: the settings of a server whose slots a gate leases.

Its process signs tickets with a key that it makes at its start and sends to the gate with each promise. So a ticket of
another process, or of an earlier one, is not valid there.
"""

from __future__ import annotations

import secrets

from msgspec.structs import replace

from reactor_trio.configuration.settings import AuthSettings, Settings


def leased_settings(settings: Settings) -> tuple[Settings, str]:
    """Return the settings, and the key for its tickets.

    Clients need a ticket or one of the server's own tokens. The server has no queue and checks no origin, because the gate
    does both before a client comes here. It has no port of `runtime.management`: that is the gate's.
    """
    key = secrets.token_hex(32)
    auth = settings.auth or AuthSettings()
    return replace(
        settings, auth=AuthSettings(auth.token, auth.viewer_token, (key,)), queue=0, origins=("*",), takeover="never",
        management=None,
    ), key
