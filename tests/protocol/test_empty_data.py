"""A server text has `data` even if that is an empty object."""

from __future__ import annotations

import json

from reactor_trio.protocol import ServerText, encode_server_text


def test_a_message_without_fields_has_an_empty_object():
    assert json.loads(encode_server_text(ServerText("long_step", {}))) == {"type": "long_step", "data": {}}
