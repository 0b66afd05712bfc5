"""Scripts: what they may say, and the one line that each mistake gets."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.offline_models import Counting

from reactor_trio.configuration.manifest import load_manifest
from reactor_trio.offline import ScriptError, read_script, rendered

YAML = """\
# a comment
- {step: 0, name: set_red, arguments: {red: 1}}
- t: 0.5
  type: set_red
  data: {red: 2}
- {name: reset, id: 7}
"""
LINES = """\
{"step": 0, "name": "set_red", "arguments": {"red": 1}}

{"t": 0.5, "type": "set_red", "data": {"red": 2}}
{"name": "reset", "id": 7}
"""


@pytest.mark.parametrize(("name", "text", "at"), [("s.yaml", YAML, (2, 3, 6)), ("s.jsonl", LINES, (1, 3, 4))])
def test_both_forms_say_the_same(tmp_path, name, text, at):
    path = tmp_path / name
    path.write_text(text)
    commands = read_script(path)
    assert [(c.step, c.t, c.name, c.arguments, c.id) for c in commands] == [
        (0, None, "set_red", {"red": 1}, None), (None, 0.5, "set_red", {"red": 2}, None), (None, None, "reset", {}, 7),
    ]  # fmt: skip
    assert [c.where for c in commands] == [f"{path}:{line}" for line in at]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("s.yaml", "- {step: 0, name: x}\n- {stepp: 1, name: x}\n", ":2: unknown key 'stepp'"),
        ("s.yaml", "- {step: -1, name: x}\n", ":1: step: expected the number of a step, from 0, got -1"),
        ("s.yaml", "- {step: true, name: x}\n", ":1: step: expected"),
        ("s.yaml", "- {t: .nan, name: x}\n", ":1: t: expected seconds of the film"),
        ("s.yaml", "- {step: 3, name: x}\n- {t: 1, name: x}\n- {step: 2, name: x}\n", ":3: step: 2 comes before 3 of "),
        ("s.yaml", "- {step: 1}\n", ":1: name: the command's name is missing"),
        ("s.yaml", "- {name: x, arguments: [1]}\n", r":1: arguments: expected \{argument: value\}, got \[1\]"),
        ("s.yaml", "- {name: x, id: one}\n", ":1: id: expected a whole number"),
        ("s.yaml", "- hello\n", ":1: expected a command such as"),
        ("s.yaml", "name: x\n", ":1: expected a list of commands"),
        ("s.yaml", "- {name: x\n", ":2: expected"),
        ("s.yaml", "- !!python/object:os.system {}\n", ":1: could not determine a constructor"),
        ("s.jsonl", '{"name": "x"}\n{"name": \n', ":2: this line is no JSON"),
        ("s.jsonl", b"\xff\xfe", ": this is no text in UTF-8"),
    ],
)  # fmt: skip
def test_a_mistake_is_one_line_with_its_place(tmp_path, name, text, said):
    (tmp_path / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ScriptError, match=rf"s\.(yaml|jsonl){said}") as failed:
        read_script(tmp_path / name)
    assert "\n" not in str(failed.value)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ({"name": "set_blue", "arguments": {"blue": 1}}, "unknown command 'set_blue'; this model takes: jump, set_red"),
        ({"name": "set_red", "arguments": {"red": 256}}, "<= 255 - at"),
        ({"name": "set_red", "arguments": {"red": object}}, "cannot be sent as JSON"),
    ],
)  # fmt: skip
def test_commands_that_the_model_does_not_take_are_found_before_its_first_step(command, said):
    with pytest.raises(ScriptError, match=rf"script\[0\]: {command['name']}: .*{said}"):
        rendered(Counting, frames=1, script=[command])


def test_the_script_of_the_example_is_one():
    example = Path(__file__).parents[2] / "examples" / "gradient"
    (first, *_) = rendered(load_manifest(example), script=example / "film.yaml", frames=1)
    (light, *_) = rendered(load_manifest(example), frames=1)
    assert first.tracks["main_video"].mean() < 0.5 * light.tracks["main_video"].mean()
