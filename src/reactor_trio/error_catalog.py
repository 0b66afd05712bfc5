"""The sections of `docs/reference/errors.md`: each mistake of an error or a warning, and its remedy.

An error has the section that the code names (`anchor=`), else that of the module that makes it, else that of its class.
`python -m tests.docs.errors_page` writes the page from this table, with the texts of the errors from the source.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Section(NamedTuple):
    """A section of the page.

    Attributes:
        title: the mistake, as its author would say it.
        remedy: what to do.
        modules: those whose errors have this section, without `reactor_trio.`.
    """

    title: str
    remedy: str
    modules: tuple[str, ...] = ()


SECTIONS: Final[dict[str, Section]] = {
    # ---- the model's class ----
    "no-yield": Section(
        "inference() has no yield",
        "`inference()` is a generator: the runtime takes one frame, or one batch, from each `yield`. Write `yield` "
        "where the frame is ready, in a loop (`while True:`), and no `return frame`. A model that must keep a loop of "
        "its own is a `ReactorModel` with `async def run(self)` and `await self.emit(frame)`.",
    ),
    "load-argument": Section(
        "load() takes no argument",
        "The runtime calls `load(config)` once. `config` is the dict of the file that `reactor.yaml` names as "
        "`config`, and `{}` without one. Write `def load(self, config):`, also if the model needs none of it. A "
        "parameter that is named `config_path`, or annotated `Path`, gets the path of the file.",
    ),
    "declaration": Section(
        "The model class cannot be used",
        "Python raises it while it creates the class, before weights load. The message names the class, the attribute "
        "and what to write instead. Which methods each kind of model has is in the guides.",
        (
            "interface.app", "interface.kinds", "interface.declaration", "interface.model", "kinds.blocking",
            "kinds.run_loop", "placement.model_instances", "offline.executor",
        ),
    ),
    "video-model": Section(
        "A VideoModel cannot be used",
        "Its methods run on a thread: they are plain functions, and `get_ctx()` has tracks and client. Its arguments "
        "come from the configuration by their names.",
        ("interface.video_model",),
    ),
    "sessions-and-ranks": Section(
        "The numbers of sessions, ranks or frames do not fit the model",
        "Correct the number that the message names, on the class or under `runtime:`. Only a `ReactorPipeline`, an "
        "app and a model with `batch_inference()` serve several sessions; several ranks serve one.",
        ("kinds.model_checks", "placement.processes", "distributed.distributed_runner", "distributed.worker_failures"),
    ),
    "state": Section(
        "The state class cannot be used",
        "Each field of an `InputState` has a type and a default, the value as a session begins: `strength: float = "
        "0.5`, or `InputField(default=0.5, ge=0, le=1)`. Annotate it in the model's class, `state: MyState`.",
        ("interface.state", "interface.input_field", "interface.dataclass_base"),
    ),
    "client-types": Section(
        "A client cannot set a value of this type",
        "A setting or an argument comes as JSON. Use bool, int, float, str, `Literal`, an Enum, a list, dict or "
        "dataclass of these. A picture or another file is an `UploadedFile`; live pictures are an `Input` track. "
        "Limits and default must fit the type.",
        ("interface.command_arguments",),
    ),
    "events": Section(
        "An @event or a hook cannot be called",
        "An event is a plain or async method with `self` and annotated arguments that have names. It returns its "
        "reply, and sends with `await self.send(message)`. A hook takes at most the client, annotated `ClientInfo`.",
        ("interface.events", "interface.registries"),
    ),
    "keys": Section(
        "No key, pointer or button reaches the command",
        "The page binds commands by name: `key_left(self, down: bool)`, `pointer_move(self, x: float, y: float)`, "
        "`gamepad_a(self, down: bool)`. Another name or argument makes it a form or a button. The message has the "
        "name to write.",
    ),
    "tracks": Section(
        "A track cannot be used",
        "A field of an `Output` or `Input` class is a track, annotated `Video` or `Audio`. In a `VideoModel` it is "
        "`VideoOut()`, with parentheses. Names are unique in the model, and a yield names only tracks of its class.",
        ("interface.tracks", "interface.blocking_tracks"),
    ),
    "messages": Section(
        "A message class cannot be used",
        "A `ModelMessage` has annotated fields that JSON can hold. A default that can change, such as a list, would "
        "be shared.",
        ("interface.messages",),
    ),
    # ---- what the model makes ----
    "frame-type": Section(
        "A frame has another type or shape",
        "A video track takes uint8 arrays or tensors, `(H, W, 3)` for a frame and `(N, H, W, 3)` for a batch: red, "
        "green, blue, 0 to 255. Grey: `np.stack([frame] * 3, axis=-1)`. RGBA: `frame[..., :3]`. Channels first: "
        "`frame.transpose(1, 2, 0)`. Floats 0 to 1: `(frame * 255).astype(np.uint8)`, and `to_frames(tensor)` for a "
        "tensor. Bool: `frame.astype(np.uint8) * 255`. 16 bit: `(frame >> 8).astype(np.uint8)`. Pillow: "
        "`np.asarray(image.convert('RGB'))`. A list: `np.stack(frames)`.",
    ),
    "sound-type": Section(
        "Sound has another type or shape",
        "An audio track takes int16 samples of one channel, `(1, M)`. Floats -1 to 1: `(samples * "
        "32767).astype(np.int16)`. One axis: `samples[None, :]`. Stereo: mix it, `samples.mean(0, keepdims=True)`. Each "
        "yield has sound; silence is `np.zeros((1, sample_rate // fps), np.int16)`. A track with a default, `main_audio: "
        "Audio = None`, may be left out.",
    ),
    "sound-gaps": Section(
        "Sound comes with some frames only",
        "A frame with sound is shown for as long as its samples last, and a frame without sound for one interval. So "
        "yield with each frame the samples of its time: `sample_rate / fps` of them, 1600 at 48 kHz and 30 fps. Keep "
        "what a decoder makes at once in a buffer of your own, and take that many from it.",
    ),
    "output": Section(
        "What was yielded or emitted is no output of this model",
        "Yield an `Output` of the model's module, a bare frame if the model has one video track, `Idle` or None. All "
        "tracks of one yield have the same number of frames.",
        ("media.frames", "kinds.blocking_context", "kinds.dynamic_batcher", "execution.session_binding"),
    ),
    "yields-none": Section(
        "inference() yields None",
        "A `yield` without a frame shows nothing, and the model waits for the next command. Write `yield frame`. If it "
        "waits on purpose, for a first prompt say, write `yield Idle`.",
    ),
    "frame-metadata": Section(
        "The metadata of a frame cannot be sent",
        "Give a video track `TrackPayload(frame, metadata)`: a mapping that JSON can hold, bytes, or a list with one "
        "for each frame of a batch.",
        ("media.frame_metadata",),
    ),
    "to-frames": Section(
        "to_frames() cannot convert the tensor",
        "Say with `layout=` which axis is which, and with `range=` the values of black and white.",
        ("interface.tensors",),
    ),
    # ---- the model's code while it runs ----
    "model-failed": Section(
        "The model's code raised",
        "The terminal, or the log, of the server has the traceback: it begins at your first line and ends with the one "
        "that raised, `(at model.py:17)`. Mend that line, and save: `reactor run --reload` loads the model again. With "
        "`--debug` clients are told the exception, too. After an exception in a step or in `@connected` only that "
        "session ends, and the next one begins anew; after one in a handler the session goes on. After one in `load()` "
        "or `run()` the server ends with exit code 1; under `runtime.isolation: process` it loads the model again.",
    ),
    "not-awaited": Section(
        "self.send() or self.emit() was not awaited",
        "Both are async: write `await self.send(message)`. Without `await` nothing is sent, and Python warns "
        "`coroutine 'self.send(message): nothing is sent; write ...' was never awaited` with your line. In a plain "
        "method, make it `async def`.",
        ("interface.author_code",),
    ),
    "asyncio": Section(
        "asyncio was called in model code",
        "Model code runs on Trio. The message names the counterpart in trio and in anyio. A library that needs "
        "asyncio runs in a thread: `await trio.to_thread.run_sync(asyncio.run, function())`.",
        ("concurrency.asyncio_guard",),
    ),
    "blocking-sleep": Section(
        "time.sleep in an async method",
        "It stops the thread of the model, and with it every session. Write `await trio.sleep(seconds)`.",
    ),
    "step-too-long": Section(
        "A step or handler does not end",
        "The log shows the line at which it is after `runtime.stuck_after` seconds; `/health` and the page say so, "
        "too. In an async method bound what it waits for (`with trio.move_on_after(5):`), in a plain one give the call "
        "a timeout. Make a long step several short ones with a `yield` each, and poll `self.cancelled()` so that it "
        "ends with its session. Instead of `time.sleep` write `await trio.sleep(seconds)`. A step that never ends can "
        "be ended by `runtime.isolation: process` alone.",
    ),
    "prints": Section(
        "The model prints too much",
        "`reactor run` shows 100 lines or 8000 characters a second of what the model prints, says what it leaves out, "
        "and then shows so much in 5 s only. Print once a second, or log with `get_logger()`, and no tensors in a step.",
    ),
    "input-ended": Section(
        "An input track has no more frames",
        "Its client has left. In a pipeline do not catch it; in `run()` catch it and wait for the next client.",
    ),
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
        ("configuration.reactor_config", "configuration.settings"),
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
        "Another program has the port, or the address is none of this machine's. The message says how to find the "
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

#: module -> anchor
SECTION_OF_MODULE: Final = {
    f"reactor_trio.{module}": anchor for anchor, section in SECTIONS.items() for module in section.modules
}
