"""The application's arguments: which are refused, and with which message."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from reactor_trio.errors import ManifestError
from reactor_trio.replicas.options import Autoscaling, Options, manifest_of, parse_options
from reactor_trio.replicas.replica import _leased


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "args: Object missing required field path"),
        ([], "args: expected a mapping, got list"),
        ({"path": 1}, "args.path: Expected str, got int"),
        ({"path": ".", "replicas": 0}, "args.replicas: Expected int >= 1"),
        ({"path": ".", "replicas": 10_001}, "args.replicas: Expected int <= 10000"),
        ({"path": ".", "replica": 2}, "args.replica: unknown key; did you mean args.replicas?"),
        ({"path": ".", "gpus_per_replica": -1}, "args.gpus_per_replica: Expected float >= 0.0"),
        ({"path": ".", "gpus_per_replica": float("nan")}, "args.gpus_per_replica: expected a finite number, got nan"),
        ({"path": ".", "gate_port": 65_536}, "args.gate_port: Expected int <= 65535"),
        ({"path": ".", "max_session": 86_401}, "args.max_session: Expected float <= 86400.0"),
        ({"path": ".", "autoscaling": {"min": -1}}, "args.autoscaling.min: Expected int >= 0"),
        ({"path": ".", "autoscaling": {"target": 0}}, "args.autoscaling.target: Expected float > 0.0"),
        ({"path": ".", "autoscaling": {"most": 2}}, "args.autoscaling.most: unknown key; known keys: "),
        ({"path": ".", "autoscaling": {"min": 3, "max": 2}}, "args.autoscaling: min is 3, which is more than max, 2"),
        ({"path": ".", "ports": "20000"}, "args.ports: Expected str matching regex"),
        ({"path": ".", "ports": "20999-20000"}, "args.ports: '20999-20000' is no range of ports: 1-65535, "),
        ({"path": ".", "ports": "0-10"}, "args.ports: '0-10' is no range of ports"),
        ({"path": ".", "ports": "65000-70000"}, "args.ports: '65000-70000' is no range of ports"),
    ],
)
def test_an_invalid_value_is_named(values: Any, words: str) -> None:
    with pytest.raises(ManifestError) as refused:
        parse_options(values)
    assert str(refused.value).startswith(words)
    assert "\n" not in str(refused.value)


def test_the_defaults_are_one_replica_on_this_machine() -> None:
    options = parse_options({"path": "sky"})
    assert options == Options(path="sky")
    assert (options.replicas, options.autoscaling, options.gpus_per_replica) == (1, None, 0.0)
    assert (options.host, options.gate_host, options.port_range) == ("127.0.0.1", "127.0.0.1", range(1))


def test_a_range_of_ports_has_both_its_ends() -> None:
    assert parse_options({"path": ".", "ports": "20000-20999"}).port_range == range(20_000, 21_000)
    assert parse_options({"path": ".", "ports": "80-80"}).port_range == range(80, 81)
    assert parse_options({"path": ".", "ports": "1-65535"}).port_range == range(1, 65_536)


def test_autoscaling_may_have_no_replica_at_night() -> None:
    options = parse_options({"path": ".", "autoscaling": {"min": 0, "max": 4, "target": 0.75}})
    assert options.autoscaling == Autoscaling(min=0, max=4, target=0.75)


def test_the_manifest_is_the_projects_with_what_the_application_says(tmp_path: Path) -> None:
    (tmp_path / "reactor.yaml").write_text("model: sky:Sky\nruntime: {port: 9000, queue: 5, drain_notice: 7}\n")
    options = Options(path=str(tmp_path), advertise="ws://sky/{port}", max_session=30.0, runtime={"queue": 3, "fps": None})
    settings = manifest_of(options).settings
    assert (settings.host, settings.port, settings.queue) == ("127.0.0.1", 0, 3)
    assert (settings.advertise, settings.drain_notice) == ("ws://sky/{port}", 30.0)
    assert manifest_of(options, port=8080).settings.port == 8080


def test_a_replica_answers_for_the_address_that_the_gate_gives_out(tmp_path: Path) -> None:
    (tmp_path / "reactor.yaml").write_text("model: sky:Sky\nruntime: {hosts: [play.example]}\n")
    manifest, key = _leased(manifest_of(Options(path=str(tmp_path), host="0.0.0.0")), "10.1.2.3")
    assert manifest.settings.hosts == ("play.example", "10.1.2.3")
    assert manifest.settings.auth is not None
    assert manifest.settings.auth.ticket_keys == (key,)
