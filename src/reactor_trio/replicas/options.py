"""What an application of replicas is made of: plain values, as they stand in a Serve configuration file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from reactor_trio.configuration.manifest import Manifest, load_manifest
from reactor_trio.configuration.settings import parse_struct
from reactor_trio.errors import ManifestError

Count = Annotated[int, Meta(ge=1, le=10_000)]
SessionBinding = Annotated[int, Meta(ge=0, le=65_535)]


class Autoscaling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many replicas: by the sessions that run and the clients that wait.

    Attributes:
        min, max: replicas.
        target: sessions, and clients that wait, for each replica; None: three quarters of its slots (`docs/scaling.md`).
        upscale_delay, downscale_delay: seconds for which the wish must last.
    """

    min: Annotated[int, Meta(ge=0)] = 1
    max: Count = 1
    target: Annotated[float, Meta(gt=0)] | None = None
    upscale_delay: Annotated[float, Meta(ge=0)] = 2.0
    downscale_delay: Annotated[float, Meta(ge=0)] = 300.0


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The arguments of the application.

    Attributes:
        path: the project's folder, the same at every node.
        overrides: `key=value`, laid over its `config.yml`.
        runtime: laid over the manifest's `runtime:` section, for replicas and gate.
        replicas, autoscaling: how many; one or the other.
        gpus_per_replica: reserved for each; a part of one reserves only, it does not hold anybody back.
        host, ports: where replicas listen; ports as `20000-20999`, None: any that is free.
        advertise: where clients reach them (`runtime.advertise`).
        gate_host, gate_port: where the gate listens.
        gate_resource: a resource that only the gate's nodes have.
        max_session: seconds that a session may go on when its replica is to go.
    """

    path: str
    overrides: tuple[str, ...] = ()
    runtime: dict[str, Any] = {}
    replicas: Count = 1
    autoscaling: Autoscaling | None = None
    gpus_per_replica: Annotated[float, Meta(ge=0)] = 0.0
    host: str = "127.0.0.1"
    ports: Annotated[str, Meta(pattern=r"^\d{1,5}-\d{1,5}$")] | None = None
    advertise: str | None = None
    gate_host: str = "127.0.0.1"
    gate_port: SessionBinding = 8080
    gate_resource: str | None = None
    max_session: Annotated[float, Meta(ge=0, le=86_400)] = 0.0

    @property
    def port_range(self) -> range:
        """The ports that replicas may take; 0 is any."""
        if self.ports is None:
            return range(1)
        first, last = map(int, self.ports.split("-"))
        return range(first, last + 1)


def parse_options(values: object) -> Options:
    """Raises ManifestError naming the first value that cannot be used."""
    options = parse_struct(values, Options, "args")
    ports, scaling = options.port_range, options.autoscaling
    if options.ports is not None and not 1 <= ports.start < ports.stop <= 65_536:
        raise ManifestError(f"args.ports: {options.ports!r} is no range of ports: 1-65535, the lower one first")
    if scaling is not None and scaling.min > scaling.max:
        raise ManifestError(f"args.autoscaling: min is {scaling.min}, which is more than max, {scaling.max}")
    return options


def manifest_of(options: Options, **runtime: Any) -> Manifest:
    """The project's manifest as the application wants it. Raises ManifestError."""
    given = {
        "host": options.host, "port": 0, "advertise": options.advertise, "drain_notice": options.max_session,
        **options.runtime, **runtime,
    }  # fmt: skip
    laid = {name: value for name, value in given.items() if value is not None}
    return load_manifest(Path(options.path), options.overrides, laid)
