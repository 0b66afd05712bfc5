"""Sections on what is wrong around a model: the project, the command line, programs that serve, client and server."""

from __future__ import annotations

from typing import Final

from reactor_trio.error_catalog.section import Section

SERVING_SECTIONS: Final[dict[str, Section]] = {
    # ---- the project ----
    "manifest": Section(
        "reactor.yaml cannot be read",
        "The message names file and key. `reactor init NAME` writes a project that runs, and `reactor.yaml.example` "
        "has each key.",
        ("configuration.manifest", "configuration.load_argument"),
    ),
    "manifest-keys": Section(
        "A key of reactor.yaml is unknown, or its value is wrong",
        "The message names the key by its path, what it may be, and which key was probably meant. "
        "`reactor.yaml.example` has each key with its default; `docs/reference/limits.md` has the limits.",
        ("configuration.reactor_config", "configuration.settings", "configuration.checked_struct"),
    ),
    "model-import": Section(
        "The model's module cannot be imported",
        "Python has raised while it read the model's file, or the file has no such class. The message has the file "
        "and line.",
        ("configuration.model_import",),
    ),
    "missing-module": Section(
        "A package is not installed",
        "Install what the model needs in the environment of `reactor`: `pip install -r requirements.txt`, if there is "
        "such a file beside the model. `which reactor` shows which environment that is.",
    ),
    "introduction": Section(
        "The model's introduction cannot be used",
        "Correct `accent`, `hints`, `examples` or the links of `reactor.yaml` as the message says.",
        ("configuration.introduction",),
    ),
    "tokens": Section(
        "A token or key cannot be used",
        "Make one with `python -c 'import secrets; print(secrets.token_urlsafe(32))'`, put it into a variable, and "
        "name that in `reactor.yaml`: `token: env:REACTOR_TOKEN`. `reactor run --token auto` draws one for a day.",
        ("configuration.credentials", "edge.access", "cli.ticket_command"),
    ),
    "certificates": Section(
        "A TLS certificate cannot be used",
        "Give a certificate and the key that belongs to it, both PEM, and the key without a password. `reactor doctor "
        "--certfile F` checks them.",
        ("edge.certificates",),
    ),
    "address": Section(
        "The server cannot listen",
        "Another program has the port, or this machine does not have the address. The message says how to find the "
        "program. `--port 0` takes any free port.",
        ("cli.serving", "edge.ports"),
    ),
    "tracing": Section(
        "Commands cannot be traced",
        "Install the extra `tracing`, or correct the variable.",
        ("server.tracing",),
    ),
    "encoder": Section(
        "An encoder cannot be used",
        "Leave `runtime.codec` at `auto`, or install what the message names. `reactor doctor` lists the encoders of "
        "this machine.",
        ("media.codecs",),
    ),
    "isolation": Section(
        "The model cannot run in a process of its own",
        "`runtime.isolation: process` imports the class again in another process: put it into a module, and keep out "
        "of its config what cannot be sent.",
        ("placement.isolation.isolated_worker", "placement.isolation.process_supervision"),
    ),
    "moderation": Section(
        "The moderation function is missing",
        "Give the function itself: `serve(..., moderate=check)`.",
        ("placement.model_source",),
    ),
    # ---- the command line, and programs that serve ----
    "command-line": Section(
        "The command line is wrong",
        "`reactor COMMAND --help` lists the options of each command.",
    ),
    "send": Section(
        "reactor client --send cannot send this",
        "A setting is set by `set_`: `--send set_strength=0.9`. A command with arguments has their names: `--send "
        "'jump={x: 1}'`; one without is its name alone. `reactor schema` lists all.",
    ),
    "no-server": Section(
        "No server answers",
        "Start it (`reactor run`), and compare host and port. From another machine it must listen there, `--host "
        "0.0.0.0`.",
    ),
    "scripts": Section(
        "A script or a recording cannot be used",
        "The message names file and line. A script has a list of commands, each with `step` or `t`, `name` and "
        "`arguments`.",
        (
            "offline.open_rendering", "offline.script", "offline.script_uploads", "offline.recorded_session",
            "offline.rendering",
        ),
    ),
    "recordings": Section(
        "A recording or film cannot be written",
        "Choose a name that is free, in a folder that can be written, and which ends in .mp4, .mkv or .webm. Films "
        "need the extra `video`.",
        ("recording.containers", "recording.movie", "recording.recorder", "server.session_recording", "offline.film_files"),
    ),
    "deploy": Section(
        "The project cannot be deployed so",
        "Give the option that the message names. `docs/operate/cluster.md` has the whole way.",
        ("cli.deploy_command", "deployment.choices"),
    ),
    "replicas": Section(
        "The replicas cannot be started",
        "Install the extra `ray`, and correct what the message names.",
        ("cli.run_replicated", "replicas.cluster", "replicas.model_facts", "replicas.options"),
    ),
    "wrong-use": Section(
        "The package was called where it cannot serve",
        "`run(Model)` is the last line of a program, under `if __name__ == \"__main__\":`. A Trio program awaits "
        "`serve()`, any other thread uses `RuntimeHost`, a notebook `show(Model)`.",
    ),
    "runtime-failed": Section(
        "The runtime itself failed",
        "This is a mistake of reactor-trio, not yours: please report it with the traceback that `--debug` shows.",
    ),
    # ---- between client and server ----
    "command-refused": Section(
        "A command was refused",
        "`code` and message say why, with the path of the wrong value. `docs/protocol.md` has the codes.",
    ),
    "connection-refused": Section(
        "The server refused the connection",
        "The message has the HTTP status. For 401 put the token into the variable `REACTOR_TOKEN`, or give `--token`; "
        "for 503 come back later.",
    ),
    "session-ended": Section(
        "The session has ended",
        "`reason` says why, and `docs/protocol.md` what each reason means and whether to come back.",
    ),
    "upload-refused": Section(
        "An upload was refused",
        "`code` says why; `docs/reference/limits.md` has the sizes that are allowed.",
    ),
    "protocol": Section(
        "The other end does not speak the protocol",
        "Compare the versions of client and server (`reactor --version`). A proxy between them may change the bytes.",
    ),
}
