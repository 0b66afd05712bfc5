"""The hash of a schema: it names what a model declares, the same in every process, and changes with each declaration."""

from __future__ import annotations

import hashlib
import json

import pytest

from reactor_trio.interface import Idle, InputField, InputState, ModelMessage, ReactorPipeline, event
from reactor_trio.interface.declaration import declaration_of
from reactor_trio.interface.schema_hash import schema_hash


class Settings(InputState):
    level: float = InputField(default=1.0, ge=0.0, le=2.0, description="Wie hell: ä")


class Progress(ModelMessage):
    done: int


class Painter(ReactorPipeline):
    state: Settings

    @event
    def reset(self, hard: bool = False) -> int:
        """Begin again."""

    def inference(self):
        while True:
            yield Idle


SCHEMA = {"name": "painter", "protocol": 1, **declaration_of(Painter).schema()}


def test_it_is_the_start_of_the_sha256_of_the_canonical_json():
    declared = {"commands": [{"b": [1, 0.5], "a": "ä\n"}], "messages": [], "tracks": []}
    text = '{"commands":[{"a":"ä\\n","b":[1,0.5]}],"messages":[],"tracks":[]}'
    assert schema_hash(declared) == hashlib.sha256(text.encode()).hexdigest()[:16]


def test_a_schema_has_its_own_hash():
    assert SCHEMA["schema_hash"] == schema_hash(SCHEMA)
    assert len(SCHEMA["schema_hash"]) == 16


def test_a_schema_from_the_wire_has_the_same_hash():
    """A reader may change the order of keys and write 1.0 as 1, as JavaScript does."""
    read = json.loads(json.dumps(SCHEMA, sort_keys=True).replace("1.0", "1").replace("2.0", "2"))
    assert schema_hash(read) == SCHEMA["schema_hash"]


def test_other_keys_do_not_count():
    assert schema_hash(SCHEMA | {"name": "other", "protocol": 2, "schema_hash": "", "later": [1]}) == schema_hash(SCHEMA)


def _without_bound(schema):
    del schema["commands"][0]["schema"]["properties"]["level"]["maximum"]


def _other_reply(schema):
    schema["commands"][1]["reply"] = {"type": "string"}


def _other_description(schema):
    schema["commands"][1]["description"] = "Start again."


def _no_message(schema):
    schema["messages"].clear()


def _another_track(schema):
    schema["tracks"].append({"name": "depth", "kind": "video", "direction": "out"})


@pytest.mark.parametrize("change", [_without_bound, _other_reply, _other_description, _no_message, _another_track])
def test_each_declaration_counts(change):
    changed = json.loads(json.dumps(SCHEMA))
    change(changed)
    assert changed != SCHEMA
    assert schema_hash(changed) != schema_hash(SCHEMA)
