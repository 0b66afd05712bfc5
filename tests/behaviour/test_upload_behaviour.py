"""Uploaded files, in virtual time, through the same store as over a socket."""

from __future__ import annotations

import errno
import gc
import os
from pathlib import Path

import numpy as np
import pytest
import trio

from reactor_trio.client import Upload
from reactor_trio.errors import CommandError, DeclarationError, UploadRefused
from reactor_trio.interface import (
    ClientInfo,
    InputField,
    InputState,
    ReactorModel,
    ReactorPipeline,
    UploadedFile,
    VideoModel,
    command,
    event,
    file_uploaded,
    get_ctx,
)
from reactor_trio.session import upload_store as uploads_module
from reactor_trio.testing import open_server, open_session
from tests.support.models import Picture

UPLOAD = {
    "type": "object", "properties": {"upload_id": {"type": "string"}}, "required": ["upload_id"], "x-reactor": "upload",
}  # fmt: skip
MODES = pytest.mark.parametrize("mode", [{}, {"websocket": True}, {"thread": True}], ids=["memory", "websocket", "thread"])


class State(InputState):
    image: UploadedFile | None = InputField(default=None, description="the first frame", accept=["image/*"])
    number: int = 0


class Model(ReactorPipeline):
    fps = 10
    state: State

    def load(self, config):
        self.seen = []

    def inference(self):
        while True:
            self.seen.append((self.state.image, self.state.number))
            yield Picture(main_video=np.zeros((4, 4, 3), np.uint8))

    @event
    def add(self, file: UploadedFile, note: str = "") -> dict:
        self.seen.append(("add", file, note))
        return {"name": file.name, "type": file.mime_type, "size": file.size, "read": len(file.data)}

    @event
    def add_all(self, files: list[UploadedFile]) -> list[int]:
        return [len(file.data) for file in files]


class Listening(Model):
    @file_uploaded
    async def arrived(self, client: ClientInfo, file: UploadedFile):
        await trio.lowlevel.checkpoint()
        self.seen.append(("arrived", client.id, file, len(file.data)))


class Plain(ReactorPipeline):
    def inference(self):
        while True:
            yield Picture(main_video=np.zeros((4, 4, 3), np.uint8))


class Looping(ReactorModel):
    def load(self, config):
        self.seen = []

    async def run(self):
        while True:
            await self.emit(Picture(main_video=np.zeros((4, 4, 3), np.uint8)))

    @file_uploaded
    def arrived(self, file: UploadedFile):
        self.seen.append(file.data)


@MODES
async def test_a_field_gets_the_whole_file(mode, autojump_clock):
    data = os.urandom(700_000)
    async with open_session(Model, step_cost=0.01, **mode) as client:
        upload = await client.upload(data, name="cat.png")
        assert upload == Upload(upload.upload_id, "cat.png", "image/png", 700_000)
        await client.command("set_image", image=upload)
        await client.take(1)
        image = next(image for image, _ in client.server.model.seen if image is not None)
        assert (image.name, image.mime_type, image.size) == ("cat.png", "image/png", 700_000)
        assert image.data == data
        assert repr(image) == "UploadedFile(name='cat.png', mime_type='image/png', size=700000)"
        await client.command("set_image", image=None)
        await client.take(2)
        assert client.server.model.seen[-1][0] is None


@MODES
async def test_an_event_gets_the_whole_file(mode, autojump_clock):
    async with open_session(Model, step_cost=0.01, **mode) as client:
        first = await client.upload(b"one", name="a.txt", mime_type="text/plain; charset=utf-8")
        second = await client.upload(b"three")
        assert await client.command("add", file=first) == {
            "name": "a.txt", "type": "text/plain; charset=utf-8", "size": 3, "read": 3,
        }  # fmt: skip
        reference = {"upload_id": second.upload_id, "and": "more keys"}
        reply = await client.command("add", file=reference, note="n")
        assert reply == {"name": "file", "type": "application/octet-stream", "size": 5, "read": 5}
        assert await client.command("add_all", files=[first, second, first]) == [3, 5, 3]


@MODES
async def test_file_uploaded_runs_before_a_command_that_names_the_file(mode, autojump_clock):
    async with open_session(Listening, step_cost=0.01, **mode) as client:
        upload = await client.upload(b"abcd", name="x.bin")
        await client.command("add", file=upload)
        (arrived, number, file, size), added = (e for e in client.server.model.seen if isinstance(e[0], str))
        assert (arrived, number, size) == ("arrived", 1, 4)
        assert (file.name, file.data) == ("x.bin", b"abcd")
        assert added == ("add", file, "")
        assert added[1] is file


async def test_a_run_loop_gets_the_upload_hook(autojump_clock):
    async with open_session(Looping) as client:
        await client.upload(b"abcd")
        await client.take(2)
        assert client.server.model.seen == [b"abcd"]


class Blocking(VideoModel):
    def __init__(self, config):
        self.seen = []

    @command("use")
    def use(self, file: UploadedFile):
        self.seen.append(("use", file.data))

    @file_uploaded
    def arrived(self, file: UploadedFile):
        self.seen.append(("arrived", file.data))

    def start_session(self):
        while not get_ctx().should_stop():
            get_ctx().emit_block(np.zeros((4, 4, 3), np.uint8))


async def test_a_blocking_model_gets_the_upload_hook(autojump_clock):
    async with open_session(Blocking, step_cost=0.1) as client:
        await client.command("use", file=await client.upload(b"abcd"))
        assert client.server.model.seen == [("arrived", b"abcd"), ("use", b"abcd")]


async def test_a_hook_that_raises_harms_nothing(autojump_clock, caplog):
    class Failing(Model):
        @file_uploaded
        def arrived(self, file):
            raise ZeroDivisionError

    async with open_session(Failing, step_cost=0.01) as client:
        upload = await client.upload(b"abcd")
        assert (await client.command("add", file=upload))["read"] == 4
        with pytest.raises(ZeroDivisionError):
            await client.close()
    assert "@file_uploaded raised" in caplog.text


async def test_nothing_overtakes_a_command_whose_file_is_read(autojump_clock, monkeypatch):
    """Reading takes a second; meanwhile steps go on, and later commands wait behind it."""
    async with open_session(Model, step_cost=0.1) as client:
        upload = await client.upload(b"abcd", name="a.png")
        store = client.server.sessions[0].uploads
        disk = store._disk

        async def slow(function, *arguments):
            await trio.sleep(1)
            return await disk(function, *arguments)

        monkeypatch.setattr(store, "_disk", slow)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: client.command("set_image", image=upload))
            await trio.testing.wait_all_tasks_blocked()
            nursery.start_soon(lambda: client.command("set_number", number=1))
        await client.take(20)
        assert trio.current_time() >= 1
        states = [(image is not None, number) for image, number in client.server.model.seen]
        assert states.count((False, 0)) >= 9  # steps went on
        assert (False, 1) not in states
        assert states[-1] == (True, 1)


async def test_a_file_is_in_memory_once_however_many_commands_name_it(autojump_clock):
    async with open_session(Model, step_cost=0.1) as client:
        upload = await client.upload(bytes(1000))
        await client.command("add", file=upload)
        await client.command("add", file=upload)
        first, second = (entry[1] for entry in client.server.model.seen if entry[0] == "add")
        assert first is second
        del first, second
        client.server.model.seen.clear()
        gc.collect()
        assert await client.command("add_all", files=[upload]) == [1000]  # and read again when it was let go


@MODES
async def test_an_unknown_file_is_named_with_its_path(mode, autojump_clock):
    async with open_session(Model, step_cost=0.01, **mode) as client:
        good = await client.upload(b"x")
        for name, arguments, path in [
            ("set_image", {"image": {"upload_id": "nothing"}}, "$.image"),
            ("add", {"file": {"upload_id": "nothing"}}, "$.file"),
            ("add_all", {"files": [good, {"upload_id": "nothing"}]}, "$.files[1]"),
        ]:
            with pytest.raises(CommandError) as raised:
                await client.command(name, **arguments)
            assert raised.value.code == "unresolved_upload"
            assert str(raised.value) == f"No such upload in this session - at {path}"


@pytest.mark.parametrize("given", ["text", 3, [], {}, {"upload_id": 3}, True])
async def test_a_command_that_names_no_upload_is_refused(given, autojump_clock):
    async with open_session(Model, step_cost=0.01) as client:
        with pytest.raises(CommandError, match=r"at \$\.file") as raised:
            await client.command("add", file=given)
        assert raised.value.code == "invalid_command"


async def test_a_file_of_another_type_is_refused(autojump_clock):
    async with open_session(Model, step_cost=0.01) as client:
        upload = await client.upload(b"x", name="a.txt")
        with pytest.raises(CommandError, match=r"Expected a file of image/\*, got text/plain - at \$\.image"):
            await client.command("set_image", image=upload)


async def test_a_file_of_another_session_is_unknown(autojump_clock):
    async with open_server(Model, step_cost=0.01) as server:
        async with server.connect() as client:
            upload = await client.upload(b"x")
        async with server.connect() as client:
            with pytest.raises(CommandError, match="No such upload"):
                await client.command("add", file=upload)


async def test_the_schema(autojump_clock):
    async with open_session(Model, step_cost=0.01) as client:
        schemas = {command["name"]: command["schema"]["properties"] for command in client.schema["commands"]}
        assert schemas["add"]["file"] == UPLOAD
        assert schemas["add_all"]["files"]["items"] == UPLOAD
        assert schemas["set_image"]["image"] == {
            "anyOf": [UPLOAD, {"type": "null"}], "default": None, "description": "the first frame", "accept": ["image/*"],
        }  # fmt: skip


def test_declaration_mistakes():
    with pytest.raises(DeclarationError, match="accept is for an UploadedFile"):

        class Wrong(InputState):
            number: int = InputField(default=0, accept=["image/png"])

    with pytest.raises(DeclarationError, match="takes one UploadedFile"):

        class NoFile(ReactorPipeline):
            @file_uploaded
            def arrived(self, client: ClientInfo): ...


# ---- who may upload, and how much ---------------------------------------------------------------------------------------


async def test_only_a_model_that_takes_files_gives_a_token(autojump_clock):
    async with open_session(Plain, step_cost=0.01) as client:
        with pytest.raises(UploadRefused, match="Plain takes no files") as raised:
            await client.upload(b"x")
        assert raised.value.status == 404
        status, *_ = await client._post("/uploads", {"content-length": "1"}, chunks(b"x"))
        assert status == 404


async def test_a_viewer_cannot_upload(autojump_clock):
    async with open_server(Model, step_cost=0.01) as server, server.connect(), server.connect(role="viewer") as viewer:
        with pytest.raises(UploadRefused, match="a viewer cannot upload"):
            await viewer.upload(b"x")


class chunks:
    def __init__(self, *pieces):
        self.pieces = iter(pieces)

    def __aiter__(self):
        return self

    async def __anext__(self):
        await trio.lowlevel.checkpoint()
        for piece in self.pieces:
            return piece
        raise StopAsyncIteration


def head(client, **headers):
    return {"authorization": f"Bearer {client.welcome.upload_token}", **headers}


HEADS = {
    "no_token": ({"content-length": "3"}, 401),
    "wrong_token": ({"authorization": "Bearer nothing", "content-length": "3"}, 401),
    "other_scheme": ({"authorization": "Basic TOKEN", "content-length": "3"}, 401),
    "token_not_ascii": ({"authorization": "Bearer \xe4", "content-length": "3"}, 401),
    "no_length": ({"authorization": "Bearer TOKEN"}, 411),
    "chunked": ({"authorization": "Bearer TOKEN", "transfer-encoding": "chunked"}, 411),
    "empty": ({"authorization": "Bearer TOKEN", "content-length": "0"}, 400),
    "too_large": ({"authorization": "Bearer TOKEN", "content-length": "2049"}, 413),
    "type": ({"authorization": "Bearer TOKEN", "content-length": "3", "content-type": "no type"}, 400),
    "good": ({"authorization": "bearer TOKEN", "content-length": "3", "content-type": "image/png"}, 201),
}


@pytest.mark.parametrize("name", HEADS)
async def test_heads(name, autojump_clock):
    headers, expected = HEADS[name]
    async with open_session(Model, step_cost=0.01, uploads={"file_size": 2048}) as client:
        given = {key: value.replace("TOKEN", client.welcome.upload_token) for key, value in headers.items()}
        status, body, _refusal = await client._post("/uploads?name=a", given, chunks(b"abc"))
        assert status == expected, body
        metrics = client.server.http("/metrics").body.decode()
        assert f'reactor_uploads_total{{outcome="{"stored" if expected == 201 else "refused"}"}} 1.0' in metrics


async def test_the_token_in_the_query_goes_first_and_a_proxy_may_set_the_header(autojump_clock):
    async with open_session(Model, step_cost=0.01) as client:
        async def posted(token, headers):
            return (await client._post(f"/uploads?token={token}", {"content-length": "3", **headers}, chunks(b"abc")))[0]

        token = client.welcome.upload_token
        assert await posted(token, {}) == 201
        assert await posted(token, {"authorization": "Bearer a-proxy-s-own"}) == 201
        assert await posted(token[:-1], {"authorization": f"Bearer {token}"}) == 401

        async def behind_a_proxy(target, headers, body):
            return await post(target, {**headers, "authorization": "Bearer a-proxy-s-own"}, body)

        post, client._post = client._post, behind_a_proxy
        assert (await client.upload(b"abc")).size == 3


@pytest.mark.parametrize(("given", "plain"), [
    ("../../etc/passwd", "passwd"), ("C:\\temp\\a.png", "a.png"), ("a\nb\0c", "abc"), ("..", "file"), ("", "file"),
    ("/", "file"), ("x" * 300, "x" * 255), ("käse.png", "käse.png"),
])  # fmt: skip
async def test_a_name_is_no_path(given, plain, autojump_clock):
    async with open_session(Model, step_cost=0.01) as client:
        assert (await client.upload(b"x", name=given)).name == plain


@pytest.mark.parametrize("pieces", [(b"abc",), (b"abcdef",), (), (b"ab", b"cdefg")])
async def test_another_byte_count_than_announced_changes_nothing(pieces, autojump_clock):
    async with open_session(Listening, step_cost=0.01) as client:
        status, body, _refusal = await client._post("/uploads", head(client, **{"content-length": "5"}), chunks(*pieces))
        assert (status, body) == (400, b"5 bytes were announced and others came; the file was not kept\n")
        await client.take(2)
        assert not [entry for entry in client.server.model.seen if entry[0] is not None]
        assert len(client.server.sessions[0].uploads) == 0
        assert 'reactor_uploads_total{outcome="incomplete"} 1.0' in client.server.http("/metrics").body.decode()


async def test_limits_of_a_session(autojump_clock):
    limits = {"file_size": 2048, "total_size": 4096, "files": 3}
    async with open_session(Model, step_cost=0.01, uploads=limits) as client:
        await client.upload(bytes(2048))
        with pytest.raises(UploadRefused, match="a file may have 2048 bytes, this one has 2049") as raised:
            await client.upload(bytes(2049))
        assert raised.value.status == 413
        await client.upload(bytes(1048))
        with pytest.raises(UploadRefused, match="the files of a session may have 4096 bytes, 1000 are left") as raised:
            await client.upload(bytes(1001))
        assert raised.value.status == 413
        await client.upload(bytes(1000))
        with pytest.raises(UploadRefused, match="a session may have 3 files") as raised:
            await client.upload(b"x")
        assert (raised.value.status, raised.value.code) == (429, "too_many_files")


async def test_a_failed_upload_gives_its_reserved_bytes_back(autojump_clock):
    async with open_session(Model, step_cost=0.01, uploads={"total_size": 4096, "files": 2}) as client:
        for _ in range(3):
            assert (await client._post("/uploads", head(client, **{"content-length": "4096"}), chunks(b"x")))[0] == 400
        await client.upload(bytes(4000))
        await client.upload(bytes(96))


class stalled(chunks):
    def __init__(self, bell):
        super().__init__(b"x")
        self.bell = bell

    async def __anext__(self):
        try:
            return await super().__anext__()
        except StopAsyncIteration:
            await self.bell.wait()
            raise


async def test_uploads_under_way_are_limited(autojump_clock):
    async with open_session(Model, step_cost=0.01, uploads={"at_once": 2}) as client:
        bell, results = trio.Event(), []

        async def post():
            results.append(await client._post("/uploads", head(client, **{"content-length": "2"}), stalled(bell)))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(post)
            nursery.start_soon(post)
            await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(UploadRefused, match="2 uploads are under way") as raised:
                await client.upload(b"x")
            assert (raised.value.status, raised.value.code) == (429, "uploads_under_way")
            bell.set()
        assert [status for status, *_ in results] == [400, 400]
        await client.upload(b"x")  # what they had reserved is given back


async def test_a_session_that_ends_ends_its_uploads(autojump_clock):
    """At once, though its step goes on for a second."""
    async with open_server(Model, step_cost=[0.1, 1.0]) as server:
        result = []
        async with trio.open_nursery() as nursery:
            async with server.connect() as client:
                post, headers = client._post, head(client, **{"content-length": "2"})

                async def upload():
                    result.append((await post("/uploads", headers, stalled(trio.Event())), trio.current_time()))

                nursery.start_soon(upload)
                await client.upload(b"kept until now")
                await trio.sleep(0.5)
                await client.vanish()
            assert result == [((410, b"the session has ended; the file was not kept\n", "session_over"), 0.5)]
            assert (await post("/uploads", headers, chunks(b"ab")))[0] == 401
        assert 'reactor_uploads_total{outcome="session_over"} 1.0' in server.http("/metrics").body.decode()


async def test_a_session_that_ends_while_the_last_bytes_are_written(autojump_clock, tmp_path):
    """A write cannot be interrupted; what it wrote is let go."""
    async with open_server(Model, step_cost=0.1, uploads={"folder": str(tmp_path)}) as server:
        result = []
        async with trio.open_nursery() as nursery:
            async with server.connect() as client:
                store = server.sessions[0].uploads
                disk = store._disk

                async def slow(function, *arguments):
                    with trio.CancelScope(shield=True):
                        await trio.sleep(function is uploads_module._write)
                        return await disk(function, *arguments)

                store._disk = slow

                async def upload():
                    result.append(await client._post("/uploads", head(client, **{"content-length": "2"}), chunks(b"ab")))

                nursery.start_soon(upload)
                await trio.sleep(0.5)
                await client.vanish()
        assert result == [(410, b"the session has ended; the file was not kept\n", "session_over")]
        assert open_files(tmp_path) == 0


# ---- the disk ------------------------------------------------------------------------------------------------------------


def open_files(folder: Path) -> int:
    """How many files in `folder` this process holds open, with a name or without.

    A count of all descriptors would change whenever the collector frees what an earlier test left.
    """
    named = [Path(f"/proc/self/fd/{name}") for name in os.listdir("/proc/self/fd")]
    return sum(os.readlink(each).startswith(f"{folder}/") for each in named if each.is_symlink())


async def test_files_leave_no_name_and_no_descriptor(autojump_clock, tmp_path):
    async with open_session(Model, step_cost=0.01, uploads={"folder": str(tmp_path)}) as client:
        await client.upload(b"abc")
        await client.upload(b"abc")
        assert open_files(tmp_path) == 2
        assert os.listdir(tmp_path) == []
    assert open_files(tmp_path) == 0


@pytest.mark.parametrize(("code", "status", "message"), [
    (errno.ENOSPC, 507, "the server's disk is full; the file was not kept"),
    (errno.EIO, 500, "the server cannot store it: Input/output error; the file was not kept"),
])  # fmt: skip
async def test_a_write_error_is_answered_and_no_file_is_kept(code, status, message, autojump_clock, monkeypatch, tmp_path):
    def fail(content, data, digest):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(uploads_module, "_write", fail)
    async with open_session(Model, step_cost=0.01, uploads={"folder": str(tmp_path)}) as client:
        with pytest.raises(UploadRefused, match=message) as raised:
            await client.upload(b"abc")
        assert raised.value.status == status
        assert open_files(tmp_path) == 0
        assert 'reactor_uploads_total{outcome="failed"} 1.0' in client.server.http("/metrics").body.decode()
        monkeypatch.undo()
        await client.upload(b"abc")


async def test_a_folder_that_is_not_there(autojump_clock, caplog):
    """This is the operator's fault, who finds it in the log."""
    async with open_session(Model, step_cost=0.01, uploads={"folder": "/nowhere"}) as client:
        with pytest.raises(UploadRefused, match="cannot store it: No such file or directory") as raised:
            await client.upload(b"abc")
        assert raised.value.status == 500
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == [
        f"session {client.session_id}: an upload failed: the server cannot store it: No such file or directory; "
        "the file was not kept (runtime.uploads.folder says where files go)"
    ]


@pytest.mark.parametrize("error", [OSError(errno.EIO, "Input/output error"), MemoryError()])
async def test_a_file_that_cannot_be_read_fails_its_command_only(error, autojump_clock, monkeypatch, caplog):
    def fail(content, size):
        raise error

    async with open_session(Model, step_cost=0.01) as client:
        upload = await client.upload(b"abc")
        monkeypatch.setattr(uploads_module, "_read", fail)
        with pytest.raises(CommandError, match="the file cannot be read") as raised:
            await client.command("add", file=upload)
        assert raised.value.code == "unresolved_upload"
        monkeypatch.undo()
        assert (await client.command("add", file=upload))["read"] == 3


async def test_a_path_is_read(autojump_clock, tmp_path):
    path = tmp_path / "cat.jpg"
    path.write_bytes(b"jpeg")
    async with open_session(Model, step_cost=0.01) as client:
        upload = await client.upload(path)
        assert (upload.name, upload.mime_type, upload.size) == ("cat.jpg", "image/jpeg", 4)


async def test_a_process_reports_the_pieces_that_it_takes_so_that_more_than_its_window_crosses(autojump_clock):
    async with open_session(Model, isolation="process") as client:
        files = [await client.upload(bytes(6 * 1024 * 1024), name="film.bin") for _ in range(2)]
        answer = await client.command("add_all", files=files)
    assert answer == [6 * 1024 * 1024] * 2
