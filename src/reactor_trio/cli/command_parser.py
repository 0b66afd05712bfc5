"""The parser of the command line: every command with its options, and the function that runs it.

The parser knows that function by its place only: a command's module is imported when the command runs.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from reactor_trio.cli.option_values import (
    address,
    amount,
    count,
    gpus,
    host_name,
    number,
    origin,
    port,
    rate,
    seconds,
    share,
)
from reactor_trio.cli.terminal import UsageError
from reactor_trio.plain_text import similar

_Commands = argparse._SubParsersAction
#: `add_argument` of one command's parser.
_Add = Callable[..., argparse.Action]

_PROJECT = "the project: its folder, or a file such as model.py or model.py:Class (default: this folder)"


class _Parser(argparse.ArgumentParser):
    """Raises UsageError where argparse would print its usage and exit, so that every error is one line."""

    def error(self, message: str) -> NoReturn:
        if choice := re.search(r"invalid choice: '([^']*)' \(choose from (.*)\)", message):
            message += _meant(choice[1], re.findall(r"[\w-]+", choice[2]))
        raise UsageError(f"{message}{' See' if message.endswith('?') else '; see'} {self.prog} --help")

    def refuse_unknown(self, arguments: list[str]) -> NoReturn:
        """Raise UsageError for what no option and no argument of this command takes."""
        flags = [text.partition("=")[0] for text in arguments if text.startswith("--")]
        self.error(f"unrecognized arguments: {' '.join(arguments)}"
                   + (_meant(flags[0], list(self._option_string_actions)) if flags else ""))  # fmt: skip


def _meant(given: str, known: list[str]) -> str:
    near = similar(given, known)
    return f"; did you mean {near}?" if near else ""


class _Version(argparse.Action):
    """Prints the version, which is looked up only then."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        from importlib.metadata import PackageNotFoundError, version

        try:
            print(f"reactor-trio {version('reactor-trio')}")
        except PackageNotFoundError:
            print("reactor-trio (not installed)")
        parser.exit()


def parse(arguments: list[str]) -> argparse.Namespace:
    """Parse the options of one command line; an empty one means `--help`.

    `run` of the result is the place of the command's function, `module:function`, which takes these options and a Terminal
    and returns the exit code. `arguments` is the command line itself, and `path` the project of a command that takes one.

    Raises UsageError; SystemExit(0) for `--help` and `--version`.
    """
    given = argparse.Namespace(arguments=arguments, place=None, drawn_token=None)
    options, unknown = build_parser().parse_known_args(arguments or ["--help"], given)
    command = vars(options).pop("command_parser")
    if unknown:
        command.refuse_unknown(unknown)
    if options.place is not None:
        options.path = options.place
    return options


def build_parser() -> argparse.ArgumentParser:
    """Build the parser of all commands. A test checks `docs/reference/cli.md` against it."""
    parser = _Parser(prog="reactor", description="Serve a generative video model to browsers.", allow_abbrev=False)
    parser.add_argument("--version", action=_Version, nargs=0, help="show program's version number and exit")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for add_command in (
        _add_init, _add_run, _add_schema, _add_types, _add_doctor, _add_ticket, _add_deploy, _add_render, _add_replay,
        _add_world, _add_client, _add_loadtest,
    ):  # fmt: skip
        add_command(commands)
    return parser


def _command(
    commands: _Commands[_Parser],
    name: str,
    text: str,
    *,
    module: str | None = None,
    debug: bool = True,
    project: str | None = None,
    here: Path | None = Path(),
) -> _Add:
    """Add a command. With `project`, the help of it, it takes a project as argument or as `--path`, by default `here`."""
    parser = commands.add_parser(name, help=text, allow_abbrev=False)
    parser.set_defaults(run=f"reactor_trio.cli.{module or name + '_command'}:{name}", command_parser=parser)
    if project is not None:
        either = parser.add_mutually_exclusive_group()
        either.add_argument("place", nargs="?", type=Path, metavar="PATH", help=project)
        either.add_argument("--path", type=Path, default=here, help="the same, as an option")
    if debug:
        parser.add_argument("--debug", action="store_true", help="show tracebacks and log more")
    return parser.add_argument


# ---- commands ---------------------------------------------------------------------------------------------------------


def _add_init(commands: _Commands[_Parser]) -> None:
    add = _command(commands, "init", "write a new project that runs", debug=False)
    add("name", metavar="NAME", help="the project's new folder; its last part becomes the model's name")
    add("--template", metavar="T", default="gradient", help="gradient (default), run_loop or app")


def _add_run(commands: _Commands[_Parser]) -> None:
    add = _command(commands, "run", "load the model and serve it", project=_PROJECT)
    _add_config(add)
    add("--host", help="address to listen on (default: runtime.host, 127.0.0.1)")
    add("--port", type=port, help="port to listen on, 0 for any free one (default: runtime.port, 8080)")
    add("--allow-host", type=host_name, action="append", default=[], metavar="NAME", dest="hosts",
        help="accept requests for this host name or address, in addition to runtime.hosts (repeatable)")  # fmt: skip
    add("--origin", type=origin, action="append", default=[], metavar="ORIGIN", dest="origins",
        help="let web pages of this origin connect, in addition to runtime.origins (repeatable)")  # fmt: skip
    add("--management", type=address, metavar="[HOST:]PORT",
        help="answer /health, /ready and /metrics on this port too (default: runtime.management, none)")  # fmt: skip
    add("--record", type=Path, metavar="DIR",
        help="record each session into this folder: a film, and a timeline of its commands")  # fmt: skip
    add("--token", metavar="FROM",
        help="let in only who has a token: auto (the variable REACTOR_TOKEN, or one drawn and shown on this terminal), "
        "env:NAME or file:PATH")  # fmt: skip
    add("--max-sessions", type=count, metavar="N", help="sessions at the same time (default: runtime.max_sessions)")
    add("--isolation", choices=("thread", "process"), metavar="WHERE",
        help="where the model runs: thread, or process, which is started again after a crash (default: runtime.isolation)")
    add("--fps", type=rate, metavar="R", help="frames a second, instead of what the model declares")
    add("--open", action="store_true", help="open the page in this machine's browser")
    add("--certfile", type=Path, metavar="F", help="serve TLS with this certificate (PEM): https and wss")
    add("--keyfile", type=Path, metavar="F", help="its private key (PEM), if it is in a file of its own")
    add("--reload", action="store_true", help="restart the server when a .py, .yml or .yaml file changes")
    add("--replicas", type=count, metavar="N", help="serve with this many processes behind one address, on Ray")
    add("--gpus-per-replica", type=gpus, default=0.0, metavar="G", help="GPUs reserved for each replica (default: 0)")
    add("--ray-address", metavar="A", help="run the replicas on this Ray cluster (auto: this machine's)")
    add("--json-logs", action="store_true", default=None, help="log JSON, one object a line, also on a terminal")
    add("--no-json-logs", action="store_false", dest="json_logs", help="log readable lines, also without a terminal")


def _add_schema(commands: _Commands[_Parser]) -> None:
    add = _command(commands, "schema", "print the model's commands, tracks and messages as JSON", project=_PROJECT)
    add("--format", choices=("json", "asyncapi"), default="json", metavar="FORM",
        help="json (default): what GET /schema answers; asyncapi: an AsyncAPI 3 document")  # fmt: skip
    add("--out", type=Path, metavar="F", help="write to this file instead of stdout")


def _add_types(commands: _Commands[_Parser]) -> None:
    text = "write the model's types as TypeScript or Python, for clients"
    add = _command(commands, "types", text, project=_PROJECT, here=None)
    add("--language", choices=("ts", "python"), metavar="L",
        help="ts or python (default: python if the name of --out ends in .py, else ts)")  # fmt: skip
    add("--url", metavar="URL", help="take the model from this running server instead of a project")
    add("--token", metavar="T", help="access token for the server (default: the variable REACTOR_TOKEN)")
    add("--out", type=Path, metavar="F", help="write to this file instead of stdout")
    add("--check", action="store_true",
        help="write nothing; exit with 1 and print the difference if the file of --out is not up to date")  # fmt: skip


def _add_doctor(commands: _Commands[_Parser]) -> None:
    text = "check the installation, the machine and the project"
    project = _PROJECT.replace("this folder", "this folder, if it has a reactor.yaml")
    add = _command(commands, "doctor", text, module="doctor", project=project, here=None)
    add("--certfile", type=Path, metavar="F", help="check this certificate (PEM), which the server will use")
    add("--keyfile", type=Path, metavar="F", help="its private key (PEM), if it is in a file of its own")
    add("--json", action="store_true", help="print the findings as one JSON array")


def _add_ticket(commands: _Commands[_Parser]) -> None:
    add = _command(commands, "ticket", "print a signed ticket for one connection", project=_PROJECT)
    add("--role", choices=("control", "viewer"), default="control", metavar="R", help="control (default) or viewer")
    add("--expires", type=seconds, default=60.0, metavar="S", help="seconds until it expires (default: 60)")
    add("--subject", metavar="WHO", help="name of the client that the ticket is for")
    add("--max-session", type=seconds, metavar="S", help="seconds after which the session ends")


def _add_deploy(commands: _Commands[_Parser]) -> None:
    add = _command(commands, "deploy", "print the files that run a project on a cluster", project=_PROJECT)
    add("--print", choices=("serve", "kuberay", "edge", "all"), nargs="?", const="all", metavar="WHAT", dest="what",
        help="serve (Ray Serve's configuration), kuberay (a RayService), edge (haproxy.cfg), "
        "or all (default): kuberay, and the edge as a Kubernetes Deployment")  # fmt: skip
    add("--image", metavar="IMG", help="container image with the project and Ray")
    add("--project", default="/project", metavar="DIR", help="the project's folder in the image (default: /project)")
    _add_config(add)
    add("--replicas", type=count, metavar="N", help="number of replicas (default: 1)")
    add("--min", type=count, metavar="N", help="least number of replicas; with more sessions there are more")
    add("--max", type=count, metavar="N", help="greatest number of replicas; with --min")
    add("--gpus-per-replica", type=gpus, default=1.0, metavar="G",
        help="GPUs of a replica: a whole number, or less than 1 to share one (default: 1)")  # fmt: skip
    add("--domain", metavar="NAME", help="the edge's host name; clients reach replicas at wss://NAME/r/IP/PORT")
    add("--advertise", metavar="URL", help="URL of a replica for clients, without an edge (default: ws://{ip}:{port})")
    add("--pods", metavar="CIDR", help="network of the cluster's pods; the edge connects to no other address")
    add("--certificate", metavar="SECRET",
        help="TLS Secret with the edge's certificate (default: the project's name and -tls)")  # fmt: skip
    add("--max-session", type=seconds, metavar="S",
        help="longest session in seconds (default: runtime.limits.session_length, else 1800)")  # fmt: skip
    add("--redis", metavar="HOST:PORT", help="Redis that keeps the state of Ray's head, so that sessions survive its loss")
    add("--redis-secret", metavar="SECRET", help="Secret with the password of Redis, under the key password")
    add("--secret", metavar="SECRET", help="Secret with the variables that the manifest names as env:NAME")


def _add_render(commands: _Commands[_Parser]) -> None:
    add = _command(commands, "render", "run the model to a film or pictures, without clients", project=_PROJECT)
    _add_offline(add, out_required=True)
    add("--script", type=Path, metavar="F", help="commands with their steps or times: YAML, JSON lines or a timeline")
    add("--frames", type=count, metavar="N", help="render this many frames")
    add("--seconds", type=seconds, metavar="S",
        help="render this many seconds (default, without --frames: until the model ends, or Ctrl-C)")  # fmt: skip
    add("--fps", type=rate, metavar="R", help="frames a second, instead of what the model declares")


def _add_replay(commands: _Commands[_Parser]) -> None:
    add = _command(commands, "replay", "run a recorded session's commands again", module="render_command")
    add("recording", type=Path, metavar="FILE", help="the timeline of a recorded session (.jsonl)")
    add("--path", type=Path, default=Path(), help=_PROJECT)
    _add_offline(add, out_required=False)
    add("--verify", action="store_true", help="compare each frame's fingerprint with the recorded one")
    add("--frames", type=count, metavar="N", help="end after this many frames (default: the recording's)")
    add("--world", type=Path, action="append", default=[], metavar="FILE", dest="worlds",
        help="a saved world that the recording names, or a folder with such files (repeatable)")  # fmt: skip


def _add_world(commands: _Commands[_Parser]) -> None:
    add = _command(commands, "world", "print what is in the file of a saved world")
    add("file", type=Path, metavar="FILE", help="the file (.world)")
    add("--key-file", type=Path, metavar="F",
        help="check that this key has signed it (default: the file key in the same folder, as a store has it)")  # fmt: skip
    add("--depth", type=number, default=3, metavar="N", help="show values that lie in each other this deep (default: 3)")
    add("--json", action="store_true", help="print it as one JSON object")


def _add_client(commands: _Commands[_Parser]) -> None:
    add = _command(commands, "client", "watch a server without a browser")
    _add_server(add)
    add("--record", type=Path, metavar="F", help="record the session into this file: .mp4, .mkv or .webm")
    add("--send", action="append", default=[], metavar="COMMAND=VALUE",
        help="send a command first, e.g. set_brightness=0.5 (repeatable)")  # fmt: skip
    add("--plain", action="store_true", help="print a line a second instead of the live view, also on a terminal")
    add("--picture", action="store_true", help="show the picture in the live view, in half blocks")
    add("--seconds", type=seconds, metavar="N", help="leave after this many seconds (default: at Ctrl-C)")


def _add_loadtest(commands: _Commands[_Parser]) -> None:
    add = _command(commands, "loadtest", "load a server with many clients at once")
    _add_server(add)
    add("--sessions", type=count, default=10, metavar="N", help="number of clients that ask for a session (default: 10)")
    add("--arrival", choices=("poisson", "uniform", "all-at-once"), default="poisson", metavar="HOW",
        help="how clients arrive: poisson (default), uniform or all-at-once")  # fmt: skip
    add("--rate", type=rate, default=1.0, metavar="R", help="arrivals a second (default: 1)")
    add("--length", type=seconds, default=30.0, metavar="S", help="mean length of a session in seconds (default: 30)")
    add("--lengths", choices=("exponential", "fixed"), default="exponential", metavar="HOW",
        help="distribution of the lengths: exponential (default) or fixed")  # fmt: skip
    add("--commands", type=amount, default=0.0, metavar="R", help="commands a second in each session (default: 0)")
    add("--command", action="append", default=[], metavar="NAME",
        help="send only this command, instead of all that the server takes (repeatable)")  # fmt: skip
    add("--vanish", type=share, default=0.0, metavar="SHARE",
        help="share of clients, 0 to 1, that vanish without closing (default: 0)")  # fmt: skip
    add("--viewers", type=number, default=0, metavar="N", help="additional viewers of each session (default: 0)")
    add("--seed", type=number, default=1, metavar="N", help="seed of all random choices (default: 1)")
    add("--patience", type=seconds, default=300.0, metavar="S",
        help="seconds after which a client that is not admitted gives up (default: 300)")  # fmt: skip
    add("--at-once", type=count, default=500, metavar="N",
        help="most clients at the same time, viewers included (default: 500)")  # fmt: skip
    add("--video", metavar="CODECS", help="codecs to ask for, best first, separated by commas (default: the client's)")
    add("--decode", action="store_true", help="decode every picture; by default no picture is decoded")
    add("--json", type=Path, metavar="F", help="write all figures, also those of each client, to this file")
    add("--max-errors", type=number, metavar="N", help="exit with 1 if there are more than N errors")
    add("--p99-admission", type=seconds, metavar="S", help="exit with 1 if the p99 of the time to admission is longer")
    add("--p99-first-picture", type=seconds, metavar="S",
        help="exit with 1 if the p99 of the time to the first picture is longer")  # fmt: skip


# ---- options that commands share --------------------------------------------------------------------------------------


def _add_config(add: _Add) -> None:
    add("--set", action="append", default=[], metavar="KEY.SUB=VALUE", dest="overrides",
        help="override a value of config.yml, typed as YAML (repeatable)")  # fmt: skip


def _add_offline(add: _Add, *, out_required: bool) -> None:
    _add_config(add)
    add("--out", type=Path, required=out_required, metavar="F",
        help="write to this file (.mp4, .mkv, .webm), or to this new folder: pictures as PNG, sound as WAV")  # fmt: skip
    add("--uploads", type=Path, metavar="DIR", help="folder of the files that commands name")


def _add_server(add: _Add) -> None:
    add("url", metavar="URL", help="the URL that reactor run printed, or its ws:// form")
    add("--token", metavar="T", help="access token for the server (default: the variable REACTOR_TOKEN)")
