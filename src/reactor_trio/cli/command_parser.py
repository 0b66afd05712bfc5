"""The parser of the command line: every command with its options. A command's module is imported only when it runs."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import NoReturn

from reactor_trio.cli import dispatch as carry_out
from reactor_trio.cli.option_values import amount, count, host_name, number, origin, port, seconds, share
from reactor_trio.cli.terminal import UsageError

__all__ = ["build_parser", "parse"]


_OUT = "write to this file (.mp4, .mkv, .webm), or to this new folder: pictures as PNG, sound as WAV"


class _Parser(argparse.ArgumentParser):
    """Raises UsageError where argparse would print its usage and exit, so that every error is one line."""

    def error(self, message: str) -> NoReturn:
        raise UsageError(f"{message}; see {self.prog} --help")


class _Version(argparse.Action):
    """Prints the version, which is looked up only then."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        print(f"reactor-trio {_version()}")
        parser.exit()


def parse(arguments: list[str]) -> argparse.Namespace:
    """Parse the options of one command line; an empty one means `--help`.

    Raises UsageError; SystemExit(0) for `--help` and `--version`.
    """
    options = build_parser().parse_args(arguments or ["--help"])
    options.arguments = arguments
    return options


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of all commands. A test checks `docs/cli.md` against it."""
    parser = _Parser(prog="reactor", description="Serve a generative video model to browsers.", allow_abbrev=False)
    parser.add_argument("--version", action=_Version, nargs=0, help="show program's version number and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    init = commands.add_parser("init", help="write a new project that runs", allow_abbrev=False)
    init.add_argument("name", metavar="NAME", help="the project's new folder; its last part becomes the model's name")
    init.add_argument("--template", metavar="T", default="gradient", help="gradient (default) or run_loop")
    init.set_defaults(carry_out=carry_out.do_init)

    _add_run(commands)

    schema = commands.add_parser(
        "schema", help="print the model's commands, tracks and messages as JSON", allow_abbrev=False
    )
    _add_project(schema)
    schema.add_argument(
        "--format", choices=("json", "asyncapi"), default="json", metavar="FORM",
        help="json (default): what GET /schema answers; asyncapi: an AsyncAPI 3 document",
    )  # fmt: skip
    schema.add_argument("--out", type=Path, metavar="F", help="write to this file instead of stdout")
    schema.set_defaults(carry_out=carry_out.do_schema)

    doctor = commands.add_parser("doctor", help="check the installation, the machine and the project", allow_abbrev=False)
    doctor.add_argument("--path", type=Path, help="the project's folder (default: this one, if it has a reactor.yaml)")
    doctor.add_argument("--certfile", type=Path, metavar="F", help="check this certificate (PEM), which the server will use")
    doctor.add_argument("--keyfile", type=Path, metavar="F", help="its private key (PEM), if it is in a file of its own")
    doctor.add_argument("--json", action="store_true", help="print the findings as one JSON array")
    _add_debug(doctor)
    doctor.set_defaults(carry_out=carry_out.do_doctor)

    ticket = commands.add_parser("ticket", help="print a signed ticket for one connection", allow_abbrev=False)
    _add_project(ticket)
    ticket.add_argument(
        "--role", choices=("control", "viewer"), default="control", metavar="R", help="control (default) or viewer"
    )
    ticket.add_argument("--expires", type=seconds, default=60.0, metavar="S", help="seconds until it expires (default: 60)")
    ticket.add_argument("--subject", metavar="WHO", help="name of the client that the ticket is for")
    ticket.add_argument("--max-session", type=seconds, metavar="S", help="seconds after which the session ends")
    ticket.set_defaults(carry_out=carry_out.do_ticket)

    _add_deploy(commands)
    _add_render_and_replay(commands)
    _add_client(commands)
    _add_loadtest(commands)
    return parser


def _add_client(commands: argparse._SubParsersAction[_Parser]) -> None:
    client = commands.add_parser("client", help="watch a server without a browser", allow_abbrev=False)
    client.add_argument("url", metavar="URL", help="the URL that reactor run printed, or its ws:// form")
    client.add_argument("--record", type=Path, metavar="F", help="record the session into this file: .mp4, .mkv or .webm")
    client.add_argument(
        "--send", action="append", default=[], metavar="COMMAND=VALUE",
        help="send a command first, e.g. set_brightness=0.5 (repeatable)",
    )  # fmt: skip
    client.add_argument(
        "--plain", action="store_true", help="print a line a second instead of the live view, also on a terminal"
    )
    client.add_argument("--picture", action="store_true", help="show the picture in the live view, in half blocks")
    client.add_argument("--token", metavar="T", help="access token for the server (default: the variable REACTOR_TOKEN)")
    client.add_argument("--seconds", type=seconds, metavar="N", help="leave after this many seconds (default: at Ctrl-C)")
    _add_debug(client)
    client.set_defaults(carry_out=carry_out.do_client)


def _add_deploy(commands: argparse._SubParsersAction[_Parser]) -> None:
    deploy = commands.add_parser("deploy", help="print the files that run a project on a cluster", allow_abbrev=False)
    deploy.add_argument(
        "--print", choices=("serve", "kuberay", "edge", "all"), nargs="?", const="all", metavar="WHAT", dest="what",
        help="serve (Ray Serve's configuration), kuberay (a RayService), edge (haproxy.cfg), "
        "or all (default): kuberay, and the edge as a Kubernetes Deployment",
    )  # fmt: skip
    _add_project(deploy)
    deploy.add_argument("--image", metavar="IMG", help="container image with the project and Ray")
    deploy.add_argument(
        "--project", default="/project", metavar="DIR", help="the project's folder in the image (default: /project)"
    )
    deploy.add_argument(
        "--set", action="append", default=[], metavar="KEY.SUB=VALUE", dest="overrides",
        help="override a value of config.yml, typed as YAML (repeatable)",
    )  # fmt: skip
    deploy.add_argument("--replicas", type=count, metavar="N", help="number of replicas (default: 1)")
    deploy.add_argument("--min", type=count, metavar="N", help="least number of replicas; with more sessions there are more")
    deploy.add_argument("--max", type=count, metavar="N", help="greatest number of replicas; with --min")
    deploy.add_argument(
        "--gpus-per-replica",
        type=float,
        default=1.0,
        metavar="G",
        help="GPUs of a replica: a whole number, or less than 1 to share one (default: 1)",
    )
    deploy.add_argument(
        "--domain", metavar="NAME", help="the edge's host name; clients reach replicas at wss://NAME/r/IP/PORT"
    )
    deploy.add_argument(
        "--advertise", metavar="URL", help="URL of a replica for clients, without an edge (default: ws://{ip}:{port})"
    )
    deploy.add_argument(
        "--pods", metavar="CIDR", help="network of the cluster's pods; the edge connects to no other address"
    )
    deploy.add_argument(
        "--certificate", metavar="SECRET",
        help="TLS Secret with the edge's certificate (default: the project's name and -tls)",
    )  # fmt: skip
    deploy.add_argument(
        "--max-session", type=seconds, metavar="S",
        help="longest session in seconds (default: runtime.limits.session_length, else 1800)",
    )  # fmt: skip
    deploy.add_argument(
        "--redis", metavar="HOST:PORT", help="Redis that keeps the state of Ray's head, so that sessions survive its loss"
    )
    deploy.add_argument("--redis-secret", metavar="SECRET", help="Secret with the password of Redis, under the key password")
    deploy.add_argument("--secret", metavar="SECRET", help="Secret with the variables that the manifest names as env:NAME")
    deploy.set_defaults(carry_out=carry_out.do_deploy)


def _add_loadtest(commands: argparse._SubParsersAction[_Parser]) -> None:
    load = commands.add_parser("loadtest", help="load a server with many clients at once", allow_abbrev=False)
    load.add_argument("url", metavar="URL", help="the URL that reactor run printed, or its ws:// form")
    load.add_argument(
        "--sessions", type=count, default=10, metavar="N", help="number of clients that ask for a session (default: 10)"
    )
    load.add_argument(
        "--arrival", choices=("poisson", "uniform", "all-at-once"), default="poisson", metavar="HOW",
        help="how clients arrive: poisson (default), uniform or all-at-once",
    )  # fmt: skip
    load.add_argument("--rate", type=seconds, default=1.0, metavar="R", help="arrivals a second (default: 1)")
    load.add_argument(
        "--length", type=seconds, default=30.0, metavar="S", help="mean length of a session in seconds (default: 30)"
    )
    load.add_argument(
        "--lengths", choices=("exponential", "fixed"), default="exponential", metavar="HOW",
        help="distribution of the lengths: exponential (default) or fixed",
    )  # fmt: skip
    load.add_argument(
        "--commands", type=amount, default=0.0, metavar="R", help="commands a second in each session (default: 0)"
    )
    load.add_argument(
        "--command", action="append", default=[], metavar="NAME",
        help="send only this command, instead of all that the server takes (repeatable)",
    )  # fmt: skip
    load.add_argument(
        "--vanish",
        type=amount,
        default=0.0,
        metavar="SHARE",
        help="share of clients, 0 to 1, that vanish without closing (default: 0)",
    )
    load.add_argument(
        "--viewers", type=number, default=0, metavar="N", help="additional viewers of each session (default: 0)"
    )
    load.add_argument("--seed", type=number, default=1, metavar="N", help="seed of all random choices (default: 1)")
    load.add_argument(
        "--patience", type=seconds, default=300.0, metavar="S",
        help="seconds after which a client that is not admitted gives up (default: 300)",
    )  # fmt: skip
    load.add_argument(
        "--at-once",
        type=count,
        default=500,
        metavar="N",
        help="most clients at the same time, viewers included (default: 500)",
    )
    load.add_argument(
        "--video", metavar="CODECS", help="codecs to ask for, best first, separated by commas (default: the client's)"
    )
    load.add_argument("--decode", action="store_true", help="decode every picture; by default no picture is decoded")
    load.add_argument("--token", metavar="T", help="access token for the server (default: the variable REACTOR_TOKEN)")
    load.add_argument("--json", type=Path, metavar="F", help="write all figures, also those of each client, to this file")
    load.add_argument("--max-errors", type=number, metavar="N", help="exit with 1 if there are more than N errors")
    load.add_argument(
        "--p99-admission", type=seconds, metavar="S", help="exit with 1 if the p99 of the time to admission is longer"
    )
    load.add_argument(
        "--p99-first-picture",
        type=seconds,
        metavar="S",
        help="exit with 1 if the p99 of the time to the first picture is longer",
    )
    _add_debug(load)
    load.set_defaults(carry_out=carry_out.do_loadtest)


def _add_run(commands: argparse._SubParsersAction[_Parser]) -> None:
    run = commands.add_parser("run", help="load the model and serve it", allow_abbrev=False)
    _add_project(run)
    run.add_argument(
        "--set", action="append", default=[], metavar="KEY.SUB=VALUE", dest="overrides",
        help="override a value of config.yml, typed as YAML (repeatable)",
    )  # fmt: skip
    run.add_argument("--host", help="address to listen on (default: runtime.host, 127.0.0.1)")
    run.add_argument("--port", type=port, help="port to listen on, 0 for any free one (default: runtime.port, 8080)")
    run.add_argument(
        "--allow-host", type=host_name, action="append", default=[], metavar="NAME", dest="hosts",
        help="accept requests for this host name or address, in addition to runtime.hosts (repeatable)",
    )  # fmt: skip
    run.add_argument(
        "--origin", type=origin, action="append", default=[], metavar="ORIGIN", dest="origins",
        help="let web pages of this origin connect, in addition to runtime.origins (repeatable)",
    )  # fmt: skip
    run.add_argument(
        "--record", type=Path, metavar="DIR",
        help="record each session into this folder: a film, and a timeline of its commands",
    )  # fmt: skip
    run.add_argument("--certfile", type=Path, metavar="F", help="serve TLS with this certificate (PEM): https and wss")
    run.add_argument("--keyfile", type=Path, metavar="F", help="its private key (PEM), if it is in a file of its own")
    run.add_argument("--reload", action="store_true", help="restart the server when a .py, .yml or .yaml file changes")
    run.add_argument("--replicas", type=count, metavar="N", help="serve with this many processes behind one address, on Ray")
    run.add_argument(
        "--gpus-per-replica", type=share, default=0.0, metavar="G", help="GPUs reserved for each replica (default: 0)"
    )
    run.add_argument("--ray-address", metavar="A", help="run the replicas on this Ray cluster (auto: this machine's)")
    run.add_argument(
        "--json-logs", action="store_true", default=None, help="log JSON, one object a line, also on a terminal"
    )
    run.add_argument(
        "--no-json-logs", action="store_false", dest="json_logs", help="log readable lines, also if stderr is not a terminal"
    )
    run.set_defaults(carry_out=carry_out.do_run)


def _add_render_and_replay(commands: argparse._SubParsersAction[_Parser]) -> None:
    render = commands.add_parser("render", help="run the model to a film or pictures, without clients", allow_abbrev=False)
    _add_project(render)
    render.add_argument("--out", type=Path, required=True, metavar="F", help=_OUT)
    render.add_argument(
        "--script", type=Path, metavar="F", help="file of commands with their steps or times: YAML, JSON lines or a timeline"
    )
    render.add_argument("--frames", type=count, metavar="N", help="render this many frames")
    render.add_argument(
        "--seconds", type=seconds, metavar="S",
        help="render this many seconds (default, without --frames: until the model ends, or Ctrl-C)",
    )  # fmt: skip
    render.add_argument("--fps", type=seconds, metavar="R", help="frames a second, instead of what the model declares")
    _add_config_and_uploads(render)
    render.set_defaults(carry_out=carry_out.do_render)

    replay = commands.add_parser("replay", help="run a recorded session's commands again", allow_abbrev=False)
    replay.add_argument("recording", type=Path, metavar="FILE", help="the timeline of a recorded session (.jsonl)")
    _add_project(replay)
    replay.add_argument("--verify", action="store_true", help="compare each frame's fingerprint with the recorded one")
    replay.add_argument("--out", type=Path, metavar="F", help=_OUT)
    replay.add_argument("--frames", type=count, metavar="N", help="end after this many frames (default: the recording's)")
    _add_config_and_uploads(replay)
    replay.set_defaults(carry_out=carry_out.do_replay)


def _add_config_and_uploads(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY.SUB=VALUE", dest="overrides",
        help="override a value of config.yml, typed as YAML (repeatable)",
    )  # fmt: skip
    parser.add_argument("--uploads", type=Path, metavar="DIR", help="folder of the files that commands name")


def _add_project(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--path", type=Path, default=Path(), help="the project's folder (default: this one)")
    _add_debug(parser)


def _add_debug(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--debug", action="store_true", help="show tracebacks and log more")


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("reactor-trio")
    except PackageNotFoundError:
        return "(not installed)"
