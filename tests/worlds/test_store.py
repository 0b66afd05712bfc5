"""The store of saved worlds: bounded, private, whole or nothing (rows 19, 23, 30 of worlds.md, the pure part)."""

from __future__ import annotations

import errno
import stat

import msgspec
import pytest

from reactor_trio.errors import CommandError, ManifestError
from reactor_trio.world_store import FolderShelf, MemoryShelf, WorldStore, new_id
from tests.worlds.kit import captured, model_of, put
from tests.worlds.test_files import KEY, ORIGIN, OTHER_KEY

LIFETIME = 100.0


class Clock:
    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


def world_of(text: str):
    model = model_of()
    model.state._value = text
    return captured(model)


def text_of(world) -> str:
    model = model_of()
    put(model, world)
    return model.state._value


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture(params=["folder", "memory"])
def shelf(request, tmp_path):
    return FolderShelf(tmp_path / "worlds") if request.param == "folder" else MemoryShelf()


def store_on(shelf, clock, most_bytes: int = 1 << 20, world_bytes: int = 1 << 20, keys=(KEY,)) -> WorldStore:
    return WorldStore(shelf, keys, most_bytes=most_bytes, world_bytes=world_bytes, now=clock)


def code_of(call, *given, **named) -> str:
    with pytest.raises(CommandError) as raised:
        call(*given, **named)
    return raised.value.code


def load(store, id, **changed):  # noqa: A002
    return store.load(id, lambda _saved: msgspec.structs.replace(ORIGIN, **changed), {})


def test_a_saved_world_comes_back_until_it_is_forgotten(shelf, clock):
    store, id = store_on(shelf, clock), new_id()  # noqa: A001
    saved = store.save(id, world_of("here"), ORIGIN, clock() + LIFETIME)
    world, origin, warnings, digest = load(store, id)
    assert digest == saved.digest
    assert (text_of(world), origin, warnings) == ("here", ORIGIN, [])
    store.forget(id, lambda saved: saved)
    assert code_of(load, store, id) == code_of(store.forget, id, lambda saved: saved) == "no_such_world"
    assert shelf.kept() == {}


def test_a_world_expires_at_its_time_and_its_file_goes(shelf, clock):
    store, id = store_on(shelf, clock), new_id()  # noqa: A001
    store.save(id, world_of("here"), ORIGIN, clock() + LIFETIME)
    clock.time += LIFETIME - 1
    store.clean()
    load(store, id)
    clock.time += 1
    assert code_of(load, store, id) == "no_such_world"
    store.clean()
    assert shelf.kept() == {}


def test_the_bytes_of_the_store_are_bounded_and_nothing_unexpired_is_deleted(shelf, clock):
    first, second, third = new_id(), new_id(), new_id()
    size = store_on(shelf, clock).save(first, world_of("a"), ORIGIN, clock() + LIFETIME).size
    store = store_on(shelf, clock, most_bytes=2 * size)
    store.save(second, world_of("b"), ORIGIN, clock() + 2 * LIFETIME)
    assert code_of(store.save, third, world_of("c"), ORIGIN, clock() + LIFETIME) == "too_many"
    assert text_of(load(store, first)[0]) == "a"
    clock.time += LIFETIME  # the first one has expired
    store.save(third, world_of("c"), ORIGIN, clock() + LIFETIME)
    assert code_of(load, store, first) == "no_such_world"
    assert sum(kept.size for kept in shelf.kept().values()) == 2 * size


def test_a_world_may_have_exactly_its_bytes(shelf, clock):
    size = store_on(shelf, clock).save(new_id(), world_of("a"), ORIGIN, clock() + LIFETIME).size
    store_on(shelf, clock, world_bytes=size).save(new_id(), world_of("a"), ORIGIN, clock() + LIFETIME)
    assert code_of(store_on(shelf, clock, world_bytes=size - 1).save, new_id(), world_of("a"), ORIGIN, 2e3) == "too_big"
    assert len(shelf.kept()) == 2


def test_a_world_is_its_subjects_alone_and_of_its_model_and_key(shelf, clock):
    store, id = store_on(shelf, clock), new_id()  # noqa: A001
    store.save(id, world_of("a"), msgspec.structs.replace(ORIGIN, subject="ada"), clock() + LIFETIME)
    assert code_of(load, store, id) == code_of(load, store, id, subject="bob") == "no_such_world"
    assert code_of(store.forget, id, lambda _saved: ORIGIN) == "no_such_world"
    assert code_of(load, store, id, subject="ada", model="other:Model") == "foreign_world"
    assert code_of(load, store_on(shelf, clock, keys=(OTHER_KEY,)), id, subject="ada") == "foreign_world"
    load(store_on(shelf, clock, keys=(OTHER_KEY, KEY)), id, subject="ada")


def test_the_folder_is_private_and_says_nothing_of_users(tmp_path, clock):
    shelf = FolderShelf(tmp_path / "deep" / "worlds")
    key, id = shelf.key(), new_id()  # noqa: A001
    origin = msgspec.structs.replace(ORIGIN, subject="ada", label="my maze")
    store_on(shelf, clock, keys=(key,)).save(id, world_of("a"), origin, clock() + LIFETIME)
    assert stat.S_IMODE(shelf.folder.stat().st_mode) == 0o700
    files = sorted(shelf.folder.iterdir())
    assert [stat.S_IMODE(file.stat().st_mode) for file in files] == [0o600, 0o600]
    assert not any(word in file.name for file in files for word in (id, "ada", "maze"))
    assert FolderShelf(shelf.folder).key() == key


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_nothing_is_left_of_a_write_that_fails(tmp_path, clock, error, monkeypatch):
    shelf = FolderShelf(tmp_path / "worlds")
    store = store_on(shelf, clock)

    def fails(*_given) -> None:
        raise OSError(error, "cannot")

    monkeypatch.setattr("os.utime", fails)  # the file is written by then, and has its temporary name
    assert code_of(store.save, new_id(), world_of("a"), ORIGIN, clock() + LIFETIME) == "store_failed"
    assert list(shelf.folder.iterdir()) == []
    monkeypatch.undo()
    store.save(new_id(), world_of("a"), ORIGIN, clock() + LIFETIME)  # and its bytes are free again


def test_a_folder_that_is_gone_is_a_failed_store_and_one_that_cannot_be_made_a_mistake_of_the_manifest(tmp_path, clock):
    shelf = FolderShelf(tmp_path / "worlds")
    shelf.folder.rmdir()
    assert code_of(store_on(shelf, clock).save, new_id(), world_of("a"), ORIGIN, clock() + LIFETIME) == "store_failed"
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ManifestError, match=r"^runtime\.worlds\.store: .*/file/worlds cannot be used: Not a directory\n"):
        FolderShelf(tmp_path / "file" / "worlds")


def test_what_a_killed_server_had_begun_goes_and_what_is_being_written_stays(tmp_path):
    shelf = FolderShelf(tmp_path / "worlds")
    begun = shelf.folder / "a.part"
    begun.write_bytes(b"half")
    shelf.remove_parts(begun.stat().st_mtime)
    assert begun.exists()
    shelf.remove_parts(begun.stat().st_mtime + 1)
    assert not begun.exists()
