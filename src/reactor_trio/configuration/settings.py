"""`Settings`: everything under `runtime:` of `reactor.yaml`, with defaults and bounds. This module opens no file.

The types hold the bounds, so that one place checks every value, whether it comes from the manifest, from the command line or
from a program.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from reactor_trio.errors import ERRORS_PAGE, ManifestError
from reactor_trio.interface.input_buffer import INPUT_BYTES
from reactor_trio.media import CodecSettings

T = TypeVar("T", bound=msgspec.Struct)
E = TypeVar("E", bound=Exception)

#: The one number that may be infinite.
ENDLESS = "resume_window"

Seconds = Annotated[float, Meta(gt=0, le=86_400)]
SecondsOrOff = Annotated[float, Meta(ge=0, le=86_400)]
SecondsOrEver = Annotated[float, Meta(ge=0)]
Rate = Annotated[float, Meta(gt=0, le=1000)]
Count = Annotated[int, Meta(ge=1)]
CountOrOff = Annotated[int, Meta(ge=0)]
Bytes = Annotated[int, Meta(ge=1024)]
#: A source expression of the directive `frame-ancestors` (CSP Level 3), so it must not end that directive or the header.
FrameAncestor = Annotated[str, Meta(pattern=r"^(\*|[a-z][a-z0-9+.-]*:(//[^\s;,'\"/?#]+/?)?)$")]


class _CheckedSettings(type(msgspec.Struct)):  # type: ignore[misc]
    """Makes the constructor check names and values as `parse_struct` does; msgspec's own takes any value."""

    def __call__(cls, *args: Any, **values: Any) -> Any:
        fields = cls.__struct_fields__
        for name in values:
            if name not in fields:
                raise noted(TypeError(f"{cls.__name__}: unknown setting {name}; {nearest(name, fields)}"), "manifest-keys")
        given = {**dict(zip(fields, args, strict=False)), **values}
        if not given or len(given) != len(args) + len(values):  # too many, or one twice: Python's own error says so
            return super().__call__(*args, **values)
        return parse_struct(given, cls, cls.__name__)


class LimitSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, metaclass=_CheckedSettings):
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
    http_per_minute: CountOrOff = 840
    waiting_per_address: CountOrOff = 4
    resume_messages: Count = 1024
    resume_bytes: Bytes = 4 * 1024 * 1024
    input_bytes: Bytes = INPUT_BYTES
    timeline_bytes: Bytes = 256 * 1024 * 1024


class UploadSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, metaclass=_CheckedSettings):
    """The limits of a session's uploaded files. Sizes are in bytes, times in seconds."""

    file_size: Bytes = 64 * 1024 * 1024
    total_size: Bytes = 512 * 1024 * 1024
    files: Count = 64
    at_once: Count = 4
    time: Seconds = 300.0
    folder: str | None = None


class WorldSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, metaclass=_CheckedSettings):
    """The limits of a model that saves its worlds. Sizes are in bytes.

    Attributes:
        allow: what clients may do with worlds, of what the models allow.
        ring: of all moments that the sessions keep in memory, with their pictures; each session has an equal part.
        bytes: of the file of one saved world.
        slots: worlds that one session may have saved.
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


class AuthSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, metaclass=_CheckedSettings):
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


class TlsSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, metaclass=_CheckedSettings):
    """The server's certificate and its key.

    Attributes:
        certfile: the certificate with its chain, a PEM file.
        keyfile: the key, a PEM file. Without it, `certfile` has the key.
    """

    certfile: Annotated[str, Meta(min_length=1)]
    keyfile: Annotated[str, Meta(min_length=1)] | None = None


class ManagementSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, metaclass=_CheckedSettings):
    """The port of `/health`, `/ready` and `/metrics` for those who watch over the server.

    Attributes:
        host: address to listen on.
        port: port to listen on; 0 picks a free one.
    """

    host: Annotated[str, Meta(min_length=1)] = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 8081


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, metaclass=_CheckedSettings):
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


def parse_struct(values: object, kind: type[T], path: str = "") -> T:
    """Convert plain values to a `kind`. Raises ManifestError, which names the key by its dotted path from `path` on."""
    checked = _check(values, kind, path)
    try:
        return msgspec.convert(checked, kind)
    except msgspec.ValidationError as error:
        text, _, where = str(error).replace("`", "").partition(" - at $")
        if text.startswith("Invalid enum value "):
            text = _among(kind, where, text.removeprefix("Invalid enum value "))
        elif text.startswith("Expected "):
            text += _given(checked, where, text)
        raise ManifestError(f"{path}{where}".lstrip(".") + f": {text}") from None


#: what to write for the types of msgspec's texts
_WORDS = {"int": "a whole number, as in 30", "float": "a number, as in 30 or 0.5", "bool": "true or false"}
#: characters of a value that a text shows
_LONGEST = 60


def _given(values: object, where: str, text: str) -> str:
    """The value at msgspec's path `.key[2].key`, if it is short, and what to write instead."""
    for key, index in re.findall(r"\.([^.\[]+)|\[(\d+)\]", where):
        try:
            values = values[int(index) if index else key]  # type: ignore[index]
        except (TypeError, LookupError):
            return ""
    if not isinstance(values, str | int | float) or values == "" or len(repr(values)) > _LONGEST:
        return ""
    if ", got " not in text:
        return f", got {values!r}"
    words = _WORDS.get(text.removeprefix("Expected ").partition(",")[0].partition(" ")[0])
    return f" {values!r}" + (f"; write {words}" if words else "")


def _among(kind: Any, where: str, given: str) -> str:
    """What is wrong with the value of a key that takes one of some, all of which it names."""
    for name in filter(None, where.split(".")):
        section = next((k for k in (kind, *get_args(kind)) if isinstance(k, type) and issubclass(k, msgspec.Struct)), None)
        kind = {} if section is None else _types(section).get(name)
    known = [value for each in (kind, *get_args(kind)) if get_origin(each) is Literal for value in get_args(each)]
    if not known:
        return f"Invalid enum value {given}"
    near = similar(given.strip("'"), known)
    return f"expected {' or '.join(map(str, known))}, got {given}" + (f"; did you mean {near}?" if near else "")


@cache
def _types(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """The type of each field; msgspec reads the annotations anew each time, which takes a while."""
    return {field.name: field.type for field in msgspec.structs.fields(kind)}


def nearest(name: str, known: Iterable[str], path: str = "") -> str:
    """What to write instead of a name that is not known: the most like one below `path`, or else one of all."""
    near = similar(name, known)
    return f"did you mean {f'{path}.{near}'.lstrip('.')}?" if near else f"known keys: {', '.join(known)}"


def similar(name: str, known: Iterable[str]) -> str:
    """The known name that is most like this one; "" if none is."""
    import difflib  # for a mistake alone

    return next(iter(difflib.get_close_matches(name, list(known), n=1)), "")


def noted(error: E, anchor: str) -> E:
    """Note where the remedy of an exception that is no `ReactorError` is."""
    error.add_note(f"{ERRORS_PAGE}#{anchor}")
    return error


def _check(values: object, kind: type[msgspec.Struct], path: str) -> dict[str, object]:
    """Refuse unknown keys with a hint, which msgspec does not give, and non-finite numbers, which msgspec accepts."""
    if isinstance(values, kind):  # a section that a program has made
        values = msgspec.structs.asdict(values)
    if not isinstance(values, Mapping):
        raise ManifestError(f"{path or 'the file'}: expected a mapping, got {type(values).__name__}")
    fields = _types(kind)
    checked: dict[str, object] = {}
    for key, value in values.items():
        here = f"{path}.{key}".lstrip(".")
        if key not in fields:
            raise ManifestError(f"{here}: unknown key; {nearest(str(key), fields, path)}")
        if isinstance(value, float) and not math.isfinite(value) and not (key == ENDLESS and value > 0):
            raise ManifestError(f"{here}: expected a finite number, got {value}")
        kinds = get_args(fields[key]) or (fields[key],)
        section = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, msgspec.Struct)), None)
        if section is None or (value is None and type(None) in kinds):
            checked[key] = value
        else:
            # `limits:` without any line below it is null in YAML, and means "all defaults".
            checked[key] = _check({} if value is None else value, section, here)
    return checked
