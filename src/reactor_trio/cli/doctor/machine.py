"""Checks of the machine: descriptor and memory limits, the clock, the port and who can reach it, folders and secrets."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from reactor_trio.cli.doctor.finding import Finding, ok, problem, warning
from reactor_trio.cli.listening import listen_remedy
from reactor_trio.edge.ip_addresses import is_everywhere, is_loopback
from reactor_trio.edge.own_addresses import own_name

#: Descriptors of a server besides those of clients and uploads: loops, libraries, a recording, the GPU.
OWN_DESCRIPTORS = 64

#: Clock sources that a process reads without a system call.
GOOD_CLOCKS = ("tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page", "xen")
CLOCK_SOURCE = Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")


def check_limits(connections: int, uploads: int) -> Iterator[Finding]:
    """Check that this process may open `connections` sockets and `uploads` files, and may reserve memory."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # The server accepts as many again only to refuse them.
    needed = 2 * connections + uploads + OWN_DESCRIPTORS
    allowed = f"{'unlimited' if soft == resource.RLIM_INFINITY else soft} open files allowed"
    if soft != resource.RLIM_INFINITY and soft < needed:
        raisable = hard == resource.RLIM_INFINITY or hard >= needed
        how = f"ulimit -n {needed}" if raisable else f"raise the hard limit, which is {hard}"
        yield problem(
            "limits", f"{allowed}, {needed} needed for runtime.limits.connections {connections}",
            f"{how} (systemd: LimitNOFILE={needed}), or lower runtime.limits.connections",
        )  # fmt: skip
    else:
        yield ok("limits", f"{allowed}, {needed} needed for {connections} connections")
    memory, _ = resource.getrlimit(resource.RLIMIT_AS)
    if memory != resource.RLIM_INFINITY:
        yield warning(
            "limits", f"address space is limited to {memory >> 20} MiB, but CUDA and torch reserve more than they use",
            "ulimit -v unlimited; limit memory by a control group instead (systemd: MemoryMax=)",
        )  # fmt: skip


def check_clock(source: Path = CLOCK_SOURCE) -> Finding:
    """Check that the clock is precise and cheap to read, because frames have presentation times."""
    try:
        name = source.read_text(encoding="ascii").strip()
    except OSError:
        return ok("clock", "the system does not name its clock source")
    if name in GOOD_CLOCKS:
        return ok("clock", name)
    return warning(
        "clock", f"the clock source is {name}, slow to read and coarse: frames are less even",
        f"see {source.parent / 'available_clocksource'}; boot with clocksource=tsc if the processor has a steady one",
    )  # fmt: skip


def check_port(host: str, port: int) -> Finding:
    """Check that the server can listen, by binding the address for a moment."""
    where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    if port == 0:
        return ok("port", f"{where}: any free port")
    try:
        addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, kind, protocol, _, address in addresses:
            with socket.socket(family, kind, protocol) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
                # A bound address may be bound a second time, but not listened on.
                probe.listen(1)
    except OSError as error:
        return problem("port", f"cannot listen on {where}: {error.strerror or error}", listen_remedy(error, port))
    return ok("port", f"{where} is free")


def check_reach(host: str, hosts: tuple[str, ...], origins: tuple[str, ...], *, auth: bool, tls: bool) -> Iterator[Finding]:
    """Report who can reach a server that listens on `host`, and warn if access is open or unencrypted."""
    if is_loopback(host):
        yield ok("access", f"{host}: this machine only" + (f", and a proxy for {', '.join(hosts)}" if hosts else ""))
    elif not auth:
        yield warning(
            "access", f"{host} is reachable from other machines, and any of them may use the model",
            "set runtime.auth, or listen on 127.0.0.1 behind a proxy that authenticates clients",
        )  # fmt: skip
    else:
        yield ok("access", f"{host} is reachable from other machines; clients must authenticate")
    if auth and not tls and not is_loopback(host):
        yield warning("access", "tokens travel unencrypted", "configure a certificate, or put a proxy with TLS in front")
    if is_everywhere(host):
        names = ", ".join(filter(None, ("this machine's addresses", own_name(), *hosts)))
        yield ok("access", f"clients may use {names}; any other host name, unless in runtime.hosts, gets 421")
    if "*" in origins:
        yield warning("access", "runtime.origins is *: any web page may use this server", "list your origins")


def check_folder(check: str, folder: Path, wanted: int) -> Finding:
    """Check that `folder` is writable, or can be created, and has `wanted` bytes free."""
    place = folder
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        with tempfile.TemporaryFile(dir=place):
            free = shutil.disk_usage(place).free
    except OSError as error:
        remedy = f"give it to the server's user (chown {_user()} {place}), or name another folder"
        return problem(check, f"cannot write into {place}: {error.strerror}", remedy)
    if free < wanted:
        return warning(
            check, f"{place}: {free >> 20} MiB free, a session may use {wanted >> 20} MiB",
            "make room, or name a folder on another disk",
        )  # fmt: skip
    return ok(check, f"{folder} is writable, {free >> 20} MiB free")


def check_secrets(auth: Mapping[str, Any] | None, folder: Path) -> Iterator[Finding]:
    """Check that the files which `auth`, a section of the manifest, names exist and are closed to other users."""
    given = {key: value if isinstance(value, list | tuple) else [value] for key, value in (auth or {}).items()}
    for key, text in ((f"runtime.auth.{key}", str(text)) for key, texts in given.items() for text in texts):
        kind, _, name = text.partition(":")
        if kind != "file":
            continue
        path = folder / Path(name).expanduser()
        try:
            mode = path.stat().st_mode
            with path.open("rb"):
                pass
        except OSError as error:
            yield problem("secrets", f"{key}: cannot read {path}: {error.strerror}", "correct the path or the file's owner")
            continue
        if mode & (stat.S_IROTH | stat.S_IWOTH):
            yield problem("secrets", f"{key}: every user of this machine may read {path}", f"chmod 600 {path}")
        else:
            yield ok("secrets", f"{key}: {path} is closed to others")


def _user() -> str:
    import pwd

    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return str(os.geteuid())
