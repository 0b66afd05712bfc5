"""Sections on what is wrong with a model: its class, what it makes, its code while it runs."""

from __future__ import annotations

from typing import Final

from reactor_trio.error_catalog.section import Section

MODEL_SECTIONS: Final[dict[str, Section]] = {
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
        "0.5`, or `InputField(default=0.5, ge=0, le=1)`. Annotate it in the model's class, `state: MyState`. A value that "
        "your own code sets outside the limits is kept, and a warning names the line, once.",
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
    "saves": Section(
        "The world of a model cannot be saved as declared",
        "`saves = Saves()` says that the state is the whole world. `Saves(\"water\", \"world.place\")` adds attributes of "
        "the model, and `types=(Maze,)` classes whose instances are values. `@saving` returns more values in a dict, and "
        "`@restored` takes them back, `(self, saved, moment)`.",
        ("interface.saving",),
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
        "The server prints the traceback in its terminal or log. It begins at your first line and ends with the line that "
        "raised, `(at model.py:17)`. Mend that line, and save: `reactor run --reload` loads the model again. With "
        "`--debug` the server tells clients the exception, too. An exception in a step or in `@connected` ends only "
        "that session; the next session works again. After an exception in a handler the session goes on. After one in "
        "`load()` or `run()` the server ends with exit code 1; under `runtime.isolation: process` it loads the model again.",
    ),
    "native-crash": Section(
        "Native code crashed the server",
        "C or CUDA code that the model calls ended the process by a signal (SIGSEGV, SIGABRT); no `except` sees it. The "
        "terminal shows `Fatal Python error: Segmentation fault` or `Aborted`, and then where each thread was, the latest "
        "call first. Below `Current thread` the first line with a file of yours made the call. The exit code is 139 or "
        "134. With `--reload` the signal is named, too, and the next change starts the server again. With `reactor run "
        "--isolation process` only the model's process ends, and the server loads the model again.",
    ),
    "not-awaited": Section(
        "self.send() or self.emit() was not awaited",
        "Both are async, as `client.send()` is: write `await self.send(message)`. Without `await` nothing is sent or shown; "
        "a warning names your line, once. A plain method must be made `async def`.",
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
        "`reactor run` shows 100 lines or 8000 characters a second of what the model prints on a stream, and of what it "
        "logs. It says what it leaves out, and then shows so much in 5 s only. Errors in the log have an allowance of their "
        "own. Print or log once a second, and no tensors in a step.",
    ),
    "input-ended": Section(
        "An input track has no more frames",
        "Its client has left. In a pipeline do not catch it; in `run()` catch it and wait for the next client.",
    ),
}
