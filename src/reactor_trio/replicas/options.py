"""`Options`: the arguments of the Serve application, plain values as in a Serve configuration file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from reactor_trio.configuration.checked_struct import parse_struct
from reactor_trio.configuration.manifest import Manifest, load_manifest
from reactor_trio.configuration.ray_autoscaling import DOWNSCALE_DELAY, UPSCALE_DELAY
from reactor_trio.errors import ManifestError

Count = Annotated[int, Meta(ge=1, le=10_000)]
Port = Annotated[int, Meta(ge=0, le=65_535)]


class Autoscaling(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The rule by which Serve chooses the number of replicas from running sessions and waiting clients.

    Attributes:
        min, max: fewest and most replicas.
        target: sessions and waiting clients for each replica. None means three quarters of its slots
            (`docs/operate/scaling.md`).
        upscale_delay, downscale_delay: seconds for which the need must last before Serve acts.
    """

    min: Annotated[int, Meta(ge=0)] = 1
    max: Count = 1
    target: Annotated[float, Meta(gt=0)] | None = None
    upscale_delay: Annotated[float, Meta(ge=0)] = UPSCALE_DELAY
    downscale_delay: Annotated[float, Meta(ge=0)] = DOWNSCALE_DELAY


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The arguments of the application.

    Attributes:
        path: the project's folder, at the same path on every node.
        overrides: values `key=value` that replace those of the project's `config.yml`.
        runtime: values that replace those of the manifest's `runtime:` section, for replicas and gate.
        replicas: a fixed number of replicas.
        autoscaling: the rule for a variable number, used instead of `replicas`.
        gpus_per_replica: GPUs that Ray reserves for each replica. Of a part of a GPU Ray only keeps account; it does not
            limit its use.
        host: the address at which replicas listen.
        ports: the ports of replicas, as `20000-20999`. None means any free port.
        advertise: the address by which clients reach replicas (`runtime.advertise`).
        gate_host, gate_port: the address at which the gate listens.
        gate_resource: a Ray resource that only the gate's nodes have.
        max_session: seconds that a session may go on after Serve has begun to stop its replica.
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
    gate_port: Port = 8080
    gate_resource: str | None = None
    max_session: Annotated[float, Meta(ge=0, le=86_400)] = 0.0

    @property
    def port_range(self) -> range:
        """The ports that replicas may use; 0 means any free port."""
        if self.ports is None:
            return range(1)
        first, last = map(int, self.ports.split("-"))
        return range(first, last + 1)


def parse_options(values: object) -> Options:
    """Check and convert `values`. Raises ManifestError that names the first invalid value."""
    options = parse_struct(values, Options, "args")
    ports, scaling = options.port_range, options.autoscaling
    if options.ports is not None and not 1 <= ports.start < ports.stop <= 65_536:
        raise ManifestError(f"args.ports: {options.ports!r} is no range of ports: 1-65535, the lower one first")
    if scaling is not None and scaling.min > scaling.max:
        raise ManifestError(f"args.autoscaling: min is {scaling.min}, which is more than max, {scaling.max}")
    return options


def manifest_of(options: Options, **runtime: Any) -> Manifest:
    """Load the project's manifest with the application's settings. Raises ManifestError."""
    given = {
        "host": options.host, "port": 0, "advertise": options.advertise, "drain_notice": options.max_session,
        **options.runtime, **runtime,
    }  # fmt: skip
    return load_manifest(Path(options.path), options.overrides, given)
