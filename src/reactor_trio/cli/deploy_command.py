"""`reactor deploy --print`: print the files that run a project on a cluster. The command applies nothing."""

from __future__ import annotations

import argparse
import ipaddress
import re
from collections.abc import Callable
from typing import Any

from reactor_trio.cli.terminal import OK, Terminal, UsageError
from reactor_trio.configuration.manifest import load_manifest
from reactor_trio.configuration.settings import address_of
from reactor_trio.deployment import Choices, choices_for, edge_config, edge_manifest, kuberay_manifest, serve_config

_NAME = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_ADDRESS = re.compile(r"(rediss?://)?[\w.-]+:\d{1,5}")
_TEXTS: dict[str, Callable[[Choices], str]] = {
    "serve": serve_config,
    "kuberay": kuberay_manifest,
    "edge": edge_config,
    "all": lambda choices: f"{kuberay_manifest(choices)}---\n{edge_manifest(choices)}",
}


def deploy(options: argparse.Namespace, terminal: Terminal) -> int:
    """Print the file that `options.what` names. Raises ManifestError and UsageError."""
    if options.what is None:
        raise UsageError("deploy only prints; read its output, then apply it: reactor deploy --print | kubectl apply -f -")
    chosen = _chosen(options)
    manifest = load_manifest(options.path, options.overrides)
    if manifest.python_file is not None:
        chosen["project"] = f"{chosen['project']}/{manifest.load_path.name}"
    slots = manifest.settings.max_sessions or manifest.import_quietly().max_sessions
    choices = choices_for(manifest, slots=slots, max_session=options.max_session, **chosen)
    terminal.give(_TEXTS[options.what](choices).rstrip("\n") + "\n")
    return OK


def _chosen(options: argparse.Namespace) -> dict[str, Any]:
    """Turn the options into fields of `Choices`. Raises UsageError for missing or contradictory options."""
    what = options.what
    kubernetes, edge = what in ("kuberay", "all"), what in ("edge", "all")
    if kubernetes and not options.image:
        raise UsageError("--image: name the container image with the project in it, and Ray (docs/operate/cluster.md)")
    if kubernetes and not options.redis:
        raise UsageError(
            "--redis: name a Redis, HOST:PORT, where Ray keeps its head's state; without it all sessions end 60 s after "
            "the head is lost"
        )
    if edge and not options.domain:
        raise UsageError("--domain: give the edge's host name, e.g. play.example.org; clients reach gate and replicas by it")
    if edge and not options.pods:
        raise UsageError("--pods: give the network of the cluster's pods, e.g. 10.244.0.0/16; the edge connects to no other")
    if options.domain and options.advertise:
        raise UsageError("--advertise: with --domain, clients reach replicas through the edge; give one of the two")
    least, most = _number(options)
    chosen = {
        "minimum": least, "maximum": most, "gpus": options.gpus_per_replica, "project": options.project,
        "overrides": tuple(options.overrides), "redis_secret": _named(options, "redis_secret"),
        "secret": _named(options, "secret"), "pods": _network(options.pods), "image": options.image or "",
        "redis": _redis(options.redis), "certificate": _named(options, "certificate"), "domain": _named(options, "domain"),
    }  # fmt: skip
    if options.domain:
        chosen["advertise"] = f"wss://{options.domain}/r/{{ip}}/{{port}}"
    elif options.advertise:
        address_of(options.advertise, "127.0.0.1", 1)
        chosen["advertise"] = options.advertise
    return {name: value for name, value in chosen.items() if value is not None}


def _number(options: argparse.Namespace) -> tuple[int, int]:
    if options.min is None and options.max is None:
        number = options.replicas or 1
        return number, number
    if options.replicas is not None:
        raise UsageError("--replicas: give their number, or --min and --max")
    if options.min is None or options.max is None or options.min > options.max:
        raise UsageError("--min and --max: give both, --min not above --max")
    return options.min, options.max


def _network(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return str(ipaddress.IPv4Network(text))
    except ValueError:
        raise UsageError(f"--pods: {text!r} is not an IPv4 network such as 10.244.0.0/16") from None


def _redis(text: str | None) -> str | None:
    if text is not None and not _ADDRESS.fullmatch(text):
        raise UsageError(f"--redis: {text!r} is not HOST:PORT; put the password into a Secret (--redis-secret)")
    return text


def _named(options: argparse.Namespace, option: str) -> str | None:
    """Check the name of a Secret or of a host, which goes into YAML unquoted."""
    name: str | None = getattr(options, option)
    if name is not None and (not _NAME.fullmatch(name) or len(name) > 253):
        raise UsageError(f"--{option.replace('_', '-')}: {name!r} is not a name of small letters, digits, dots and hyphens")
    return name
