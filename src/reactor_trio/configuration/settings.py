"""`Settings`: everything under `runtime:` of `reactor.yaml`, with defaults and bounds. This module opens no file.

The types hold the bounds, so that one place checks every value, whether it comes from the manifest, from the command line or
from a program.
"""

from __future__ import annotations

import ipaddress
from typing import Annotated, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from reactor_trio.configuration.checked_struct import CheckedStruct
from reactor_trio.errors import ManifestError
from reactor_trio.interface.input_buffer import INPUT_BYTES
from reactor_trio.media import CodecSettings

Seconds = Annotated[float, Meta(gt=0, le=86_400)]
SecondsOrOff = Annotated[float, Meta(ge=0, le=86_400)]
SecondsOrEver = Annotated[float, Meta(ge=0)]
Rate = Annotated[float, Meta(gt=0, le=1000)]
Count = Annotated[int, Meta(ge=1)]
CountOrOff = Annotated[int, Meta(ge=0)]
Bytes = Annotated[int, Meta(ge=1024)]
#: A source expression of the directive `frame-ancestors` (CSP Level 3), so it must not end that directive or the header.
FrameAncestor = Annotated[str, Meta(pattern=r"^(\*|[a-z][a-z0-9+.-]*:(//[^\s;,'\"/?#]+/?)?)$")]


class LimitSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, metaclass=CheckedStruct):
    """The limits of one client. Sizes are in bytes, times in seconds. Where 0 is allowed, it means no limit."""

    text_message: Bytes = 256 * 1024
    client_binary: Bytes = 4 * 1024 * 1024
    text_per_second: Bytes = 256 * 1024
    http_head: Bytes = 16 * 1024
    connections: Count = 64
    commands_per_second: Count = 200
    pending_commands: Count = 256
    unanswered_commands: Count = 1024
    handshake: Seconds = 10.0
    ping_interval: Seconds = 10.0
    silence: Seconds = 20.0
    stall: Seconds = 15.0
    session_length: SecondsOrOff = 0.0
    session_idle: SecondsOrOff = 0.0
    end_warning: SecondsOrOff = 10.0
    connections_per_address: CountOrOff = 16
    handshakes_per_minute: CountOrOff = 60
    http_per_minute: CountOrOff = 900
    waiting_per_address: CountOrOff = 4
    resume_messages: Count = 1024
    resume_bytes: Bytes = 4 * 1024 * 1024
    input_bytes: Bytes = INPUT_BYTES
    timeline_bytes: Bytes = 256 * 1024 * 1024


class UploadSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, metaclass=CheckedStruct):
    """The limits of a session's uploaded files. Sizes are in bytes, times in seconds."""

    file_size: Bytes = 64 * 1024 * 1024
    total_size: Bytes = 512 * 1024 * 1024
    files: Count = 64
    at_once: Count = 4
    time: Seconds = 300.0
    folder: str | None = None


class WorldSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, metaclass=CheckedStruct):
    """The limits of a model that saves its worlds. Sizes are in bytes.

    Attributes:
        allow: what clients may do with worlds, of what the models allow.
        ring: of all moments that the sessions keep in memory, with their pictures; each session has an equal part.
        bytes: of the file of one saved world.
        slots: worlds that one session may have saved; as many forks.
        accept: which of `config` and `weights` may differ from what a saved world was made with.
        store: the folder of saved worlds. None: they stay in memory, within `ring`, and end with their session.
        keys: sign saved worlds, the first one new ones: a literal, `env:NAME` or `file:PATH`. None: the store's file `key`.
        store_bytes: of all files in the store.
        keep: seconds for which a saved world is kept.
    """

    allow: tuple[Literal["rewind", "save", "fork"], ...] = ("rewind", "save", "fork")
    ring: Bytes = 512 * 1024 * 1024
    bytes: Bytes = 4 * 1024 * 1024 * 1024
    slots: Count = 8
    accept: tuple[Literal["config", "weights"], ...] = ()
    store: Annotated[str, Meta(min_length=1)] | None = None
    keys: Annotated[tuple[str, ...], Meta(max_length=8)] = ()
    store_bytes: Bytes = 20 * 1024 * 1024 * 1024
    keep: Annotated[float, Meta(gt=0, le=366 * 86_400)] = 7 * 86_400.0

    def __repr__(self) -> str:
        return "WorldSettings(...)"  # the keys may be secrets

    @property
    def pictures(self) -> int:
        """The part of `ring` that is for the pictures of moments."""
        return self.ring // 16


class AuthSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, metaclass=CheckedStruct):
    """The secrets of authentication. Each is a literal, `env:NAME` or `file:PATH`; the server reads it when it starts.

    Attributes:
        token: a client that sends it may control and watch.
        viewer_token: a client that sends it may watch.
        ticket_keys: the keys of signed tickets; the first one signs. Each ticket is valid for one connection.
    """

    token: str | None = None
    viewer_token: str | None = None
    ticket_keys: Annotated[tuple[str, ...], Meta(max_length=8)] = ()

    def __repr__(self) -> str:
        return "AuthSettings(...)"  # the values may be secrets


class TlsSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, metaclass=CheckedStruct):
    """The server's certificate and its key.

    Attributes:
        certfile: the certificate with its chain, a PEM file.
        keyfile: the key, a PEM file. Without it, `certfile` has the key.
    """

    certfile: Annotated[str, Meta(min_length=1)]
    keyfile: Annotated[str, Meta(min_length=1)] | None = None


class ManagementSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, metaclass=CheckedStruct):
    """The port of `/health`, `/ready` and `/metrics` for those who watch over the server.

    Attributes:
        host: address to listen on.
        port: port to listen on; 0 picks a free one.
    """

    host: Annotated[str, Meta(min_length=1)] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 8081


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, metaclass=CheckedStruct):
    """The server's settings; `reactor.yaml.example` explains each one.

    Rates are in frames per second, times in seconds. If `fps`, `max_fps`, `buffer_size`, `max_sessions` or `ranks` is None,
    the model's own value holds. A section, such as `limits`, may be given as a dict.

    The constructor raises ManifestError for a value that `reactor.yaml` may not have.
    """

    host: Annotated[str, Meta(min_length=1)] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 8080
    management: ManagementSettings | None = None
    advertise: Annotated[str, Meta(max_length=2048)] | None = None
    fps: Rate | None = None
    max_fps: Rate | None = None
    buffer_size: Count | None = None
    max_sessions: Count | None = None
    queue: Annotated[int, Meta(ge=0)] = 16
    claim_within: Seconds = 10.0
    resume_window: SecondsOrEver = 0.0
    codec: CodecSettings = CodecSettings()
    auth: AuthSettings | None = None
    tls: TlsSettings | None = None
    origins: tuple[str, ...] = ()
    frame_ancestors: tuple[FrameAncestor, ...] = ()
    hosts: tuple[str, ...] = ()
    proxies: tuple[str, ...] = ()
    slow_client: Literal["drop", "hold"] = "drop"
    max_age: Annotated[float, Meta(gt=0, le=10)] = 0.15
    viewers: Literal["anyone", "token", "none"] = "anyone"
    record: Annotated[str, Meta(min_length=1)] | None = None
    takeover: Literal["never", "same_subject", "anyone"] = "never"
    drain_notice: SecondsOrOff = 0.0
    drain_grace: SecondsOrOff = 2.0
    moderate: str | None = None
    moderate_timeout: Seconds = 5.0
    limits: LimitSettings = LimitSettings()
    uploads: UploadSettings = UploadSettings()
    worlds: WorldSettings = WorldSettings()
    isolation: Literal["thread", "process"] = "thread"
    ranks: Annotated[int, Meta(ge=1, le=64)] | None = None
    step_timeout: SecondsOrOff = 60.0
    first_step_timeout: SecondsOrOff = 1800.0
    stuck_after: Seconds = 5.0
    watchdog: SecondsOrOff = 10.0
    tracing: bool | None = None

    def __post_init__(self) -> None:
        if self.limits.silence <= self.limits.ping_interval:
            raise ManifestError(
                f"runtime.limits.silence: {self.limits.silence:g} s must be longer than ping_interval "
                f"({self.limits.ping_interval:g} s), or every quiet client counts as lost"
            )
        if self.advertise is not None:
            address_of(self.advertise, "127.0.0.1", 1)
        if self.management is not None and self.management.port == self.port != 0:
            raise ManifestError(f"runtime.management.port: {self.port} is the port of the clients; choose another")
        for place, proxy in enumerate(self.proxies):
            try:
                ipaddress.ip_network(proxy, strict=False)
            except ValueError:
                wrong = f"runtime.proxies[{place}]: {proxy!r} is no address or network, such as 10.0.0.0/8"
                raise ManifestError(wrong) from None


def address_of(advertise: str, host: str, port: int) -> str:
    """Fill the template `advertise` for a server at `host` and `port`. Raises ManifestError for a bad template."""
    try:
        address = advertise.format(ip=f"[{host}]" if ":" in host else host, port=port)
        parts = urlsplit(address)
        known = parts.scheme in ("ws", "wss", "http", "https")
        good = known and parts.hostname is not None and not parts.query + parts.fragment
    except (ValueError, LookupError, AttributeError):
        good = False
    if not good:
        raise ManifestError(
            f"runtime.advertise: expected an address such as wss://play.example.org/r/{{ip}}/{{port}}, got {advertise!r}"
        )
    return address
