"""Python encodes and decodes the vectors of `docs/reference/protocol-vectors.json`.

The web client does the same in `clients/web/test/vectors.test.ts`.
"""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from reactor_trio.connection.client_connection import _DATA
from reactor_trio.errors import ProtocolError
from reactor_trio.interface.schema_hash import schema_hash
from reactor_trio.protocol import (
    PROTOCOL,
    NotFiniteError,
    Packet,
    ServerText,
    close_code,
    decode_client_text,
    decode_packet,
    decode_server_text,
    encode_client_text,
    encode_packet,
    encode_server_text,
    packet_head,
)
from reactor_trio.protocol.reasons import END_REASONS
from reactor_trio.protocol.refusals import REFUSALS

FILE = Path(__file__).parents[2] / "docs" / "reference" / "protocol-vectors.json"
VECTORS = json.loads(FILE.read_text(encoding="utf-8"))


def vectors(kind, *groups):
    found = [vector for group in groups for vector in VECTORS[kind][group]]
    return pytest.mark.parametrize("vector", found, ids=[vector["name"] for vector in found])


def packet(fields) -> Packet:
    return Packet(**fields | {"payload": memoryview(bytes.fromhex(fields["payload"]))})


def test_the_file_has_this_protocol_version():
    assert VECTORS["protocol"] == PROTOCOL


@vectors("packets", "exact")
def test_packets_are_encoded_exactly(vector):
    assert encode_packet(packet(vector["packet"])).hex() == vector["hex"]
    assert vector["hex"].startswith(packet_head(*msgspec.structs.astuple(packet(vector["packet"]))).hex())


@vectors("packets", "exact", "accepted")
def test_packets_are_decoded(vector):
    decoded = decode_packet(bytes.fromhex(vector["hex"]))
    for name, value in vector["packet"].items():
        assert (bytes(decoded.payload).hex() if name == "payload" else getattr(decoded, name)) == value


@vectors("packets", "refused")
def test_invalid_packets_are_refused(vector):
    with pytest.raises(ProtocolError):
        decode_packet(bytes.fromhex(vector["hex"]))


@vectors("client_texts", "exact")
def test_client_texts_are_encoded_exactly(vector):
    assert encode_client_text(vector["type"], vector["data"], vector["id"]) == vector["text"]


@vectors("client_texts", "exact", "accepted")
def test_client_texts_are_decoded(vector):
    text = decode_client_text(vector["text"])
    assert (text.type, json.loads(bytes(text.data)), text.id) == (vector["type"], vector["data"], vector["id"])


@vectors("client_texts", "refused")
def test_invalid_client_texts_are_refused(vector):
    with pytest.raises(ProtocolError) as caught:
        decode_client_text(vector["text"])
    assert isinstance(caught.value, NotFiniteError) == (vector["code"] == "invalid_command")
    if isinstance(caught.value, NotFiniteError):
        assert caught.value.id == vector["id"]


@vectors("server_texts", "exact")
def test_server_texts_are_encoded_and_decoded_exactly(vector):
    message = ServerText(vector["type"], vector["data"], vector["id"], vector["n"])
    assert encode_server_text(message) == vector["text"]
    assert decode_server_text(vector["text"]) == message


def test_close_codes():
    assert {reason: close_code(reason) for reason in END_REASONS} == VECTORS["close_codes"]


def test_refusal_retries():
    for retry, codes in VECTORS["refusal_retries"].items():
        assert [code for code, kind in REFUSALS.items() if kind.retry == retry] == codes


def test_refusal_close_codes():
    assert {code: kind.close_code for code, kind in REFUSALS.items()} == VECTORS["refusal_close_codes"]


def test_the_hash_of_a_schema():
    (welcome,) = [one["data"] for one in VECTORS["server_texts"]["exact"] if one["name"] == "welcome_with_schema_hash"]
    assert welcome["schema_hash"] == welcome["schema"]["schema_hash"] == schema_hash(welcome["schema"])


@pytest.mark.parametrize("kind", ["reactor.feedback", "reactor.keyframe", "reactor.video"])
def test_the_server_reads_the_data_of_the_runtimes_messages(kind):
    data = [one["data"] for one in VECTORS["client_texts"]["exact"] if one["type"] == kind]
    assert data
    for one in data:
        decoded = msgspec.to_builtins(_DATA[kind].decode(json.dumps(one)))
        assert {key: value for key, value in decoded.items() if key in one} == one
