"""How each command is carried out, from its options. What a command needs is imported only here, when it is its turn."""

from __future__ import annotations

import argparse

from reactor_trio.cli.importing import importing
from reactor_trio.cli.terminal import Terminal, UsageError


def do_init(options: argparse.Namespace, terminal: Terminal) -> int:
    """`reactor init`."""
    from reactor_trio.cli.init_command import init

    return init(options.name, options.template, terminal)


def do_run(options: argparse.Namespace, terminal: Terminal) -> int:
    """`reactor run`."""
    if options.replicas is not None:
        return do_run_replicated(options, terminal)
    for option in ("gpus_per_replica", "ray_address"):
        if getattr(options, option):
            raise UsageError(f"--{option.replace('_', '-')}: give --replicas, too")
    if options.reload:
        from reactor_trio.cli.run_reloading import run_reloading

        return run_reloading(
            options.path, options.arguments, terminal, host=options.host, port=options.port, overrides=options.overrides,
            certfile=options.certfile, keyfile=options.keyfile, hosts=options.hosts, origins=options.origins,
        )  # fmt: skip
    with importing():
        from reactor_trio.cli.run_command import run

    return run(
        options.path, terminal, host=options.host, port=options.port, record=options.record, overrides=options.overrides,
        certfile=options.certfile, keyfile=options.keyfile, hosts=options.hosts, origins=options.origins,
        debug=options.debug, json_logs=options.json_logs, sockets=options.inherited.sockets,
    )  # fmt: skip


def do_run_replicated(options: argparse.Namespace, terminal: Terminal) -> int:
    """`reactor run --replicas`."""
    from reactor_trio.cli.run_replicated import run_replicated

    if options.reload:
        raise UsageError("--reload: works with one process only; leave --replicas out")
    return run_replicated(
        options.path, terminal, replicas=options.replicas, gpus_per_replica=options.gpus_per_replica,
        ray_address=options.ray_address, host=options.host, port=options.port, record=options.record,
        overrides=options.overrides, certfile=options.certfile, keyfile=options.keyfile, hosts=options.hosts,
        origins=options.origins,
    )  # fmt: skip


def do_schema(options: argparse.Namespace, terminal: Terminal) -> int:
    """`reactor schema`."""
    from reactor_trio.cli.schema_command import schema

    return schema(options.path, options.out, terminal, form=options.format)


def do_doctor(options: argparse.Namespace, terminal: Terminal) -> int:
    """`reactor doctor`."""
    from reactor_trio.cli.doctor import doctor

    if options.keyfile is not None and options.certfile is None:
        raise UsageError("--keyfile: give --certfile, too")
    return doctor(options.path, terminal, as_json=options.json, certfile=options.certfile, keyfile=options.keyfile)


def do_client(options: argparse.Namespace, terminal: Terminal) -> int:
    """`reactor client`."""
    from reactor_trio.cli.client_command import client

    return client(
        options.url, options.record, options.send, options.seconds, terminal, plain=options.plain, picture=options.picture,
        token=options.token,
    )  # fmt: skip


def do_loadtest(options: argparse.Namespace, terminal: Terminal) -> int:
    """`reactor loadtest`."""
    with importing():
        from reactor_trio.cli.loadtest_command import loadtest
        from reactor_trio.loadtest import Bars, Shape

    shape = Shape(
        sessions=options.sessions, arrival=options.arrival, rate=options.rate, length=options.length,
        lengths=options.lengths, commands=options.commands, vanish=options.vanish, viewers=options.viewers,
        seed=options.seed,
    )  # fmt: skip
    bars = Bars(options.max_errors, options.p99_admission, options.p99_first_picture)
    return loadtest(
        options.url, shape, terminal, bars=bars, at_once=options.at_once, patience=options.patience, decode=options.decode,
        only=options.command, video=None if options.video is None else options.video.split(","), token=options.token,
        json=options.json,
    )  # fmt: skip


def do_ticket(options: argparse.Namespace, terminal: Terminal) -> int:
    """`reactor ticket`."""
    from reactor_trio.cli.ticket_command import ticket

    return ticket(
        options.path, terminal, role=options.role, expires=options.expires, subject=options.subject,
        max_session=options.max_session,
    )  # fmt: skip


def do_deploy(options: argparse.Namespace, terminal: Terminal) -> int:
    """`reactor deploy`."""
    from reactor_trio.cli.deploy_command import deploy

    return deploy(options, terminal)


def do_render(options: argparse.Namespace, terminal: Terminal) -> int:
    """`reactor render`."""
    with importing():
        from reactor_trio.cli.render_command import render

    return render(
        options.path, options.out, terminal, script=options.script, frames=options.frames, seconds=options.seconds,
        fps=options.fps, overrides=options.overrides, uploads=options.uploads, debug=options.debug,
    )  # fmt: skip


def do_replay(options: argparse.Namespace, terminal: Terminal) -> int:
    """`reactor replay`."""
    with importing():
        from reactor_trio.cli.render_command import replay

    return replay(
        options.recording, options.path, terminal, verify=options.verify, out=options.out, frames=options.frames,
        overrides=options.overrides, uploads=options.uploads, debug=options.debug,
    )  # fmt: skip
