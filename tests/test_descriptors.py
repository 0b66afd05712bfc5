"""What a forked child of this process keeps of it: nothing that is registered, and what is not registered as it was."""

from __future__ import annotations

import gc
import os
import socket
import subprocess
import sys
import tempfile
import threading
import weakref

import pytest
import trio

from reactor_trio.descriptors import keep_from_children, open_kept_from_children
from tests.support.child_processes import in_a_fork

#: Python from 3.12 on warns of a fork in a process with threads, which is what these tests are about.
pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")


def target(number: int) -> str:
    return os.readlink(f"/proc/self/fd/{number}")


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    theirs.settimeout(10)
    with ours, theirs:
        yield ours, theirs


def test_a_child_has_the_null_device_instead_and_the_parent_goes_on(pair):
    ours, theirs = pair
    assert keep_from_children(ours) is ours
    assert in_a_fork(lambda: target(ours.fileno()) + " " + target(theirs.fileno()).partition(":")[0]) == "/dev/null socket"
    ours.sendall(b"still here")
    assert theirs.recv(100) == b"still here"


def test_the_other_end_sees_the_end_of_the_parent_although_a_child_lives(pair):
    ours, theirs = pair
    keep_from_children(ours)
    reader, writer = os.pipe()
    if not (child := os.fork()):
        os.close(writer)
        os.read(reader, 1)  # until the parent lets it go
        os._exit(0)
    ours.close()
    assert theirs.recv(1) == b""
    os.close(writer)
    os.close(reader)
    os.waitpid(child, 0)


def test_an_object_of_the_child_that_closes_its_number_closes_nothing_else(pair):
    ours, _ = pair
    keep_from_children(ours)

    def say() -> str:
        number = ours.fileno()
        with open("/proc/self/stat") as file:
            ours.close()
            return f"{number != file.fileno()} {file.read(1) != ''}"

    assert in_a_fork(say) == "True True"


def test_descriptors_that_are_closed_already_are_not_touched(pair):
    ours, theirs = pair
    keep_from_children(ours).close()
    again = socket.socket()
    with again:
        assert in_a_fork(lambda: target(again.fileno()).partition(":")[0]) == "socket"
    one = socket.socket()
    keep_from_children(one)
    gone = weakref.ref(one)
    one.close()
    del one
    gc.collect()
    assert gone() is None
    assert in_a_fork(lambda: target(theirs.fileno()).partition(":")[0]) == "socket"


async def test_sockets_of_trio_and_files_are_registered_too(tmp_path):
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        with (tmp_path / "file").open("wb", buffering=0) as file:
            keep_from_children(listener.socket)
            keep_from_children(file)
            numbers = listener.socket.fileno(), file.fileno()
            assert in_a_fork(lambda: " ".join(map(target, numbers))) == "/dev/null /dev/null"


def test_without_a_descriptor_to_spare_they_are_closed():
    program = (
        "import os, resource, socket\n"
        "from reactor_trio.descriptors import keep_from_children\n"
        "ours = keep_from_children(socket.socket())\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (ours.fileno() + 1,) * 2)\n"
        "if not (child := os.fork()):\n"
        "    try:\n"
        "        os.fstat(ours.fileno())\n"
        "    except OSError:\n"
        "        os._exit(7)\n"
        "    os._exit(0)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "7\n"


def test_a_program_that_is_started_does_not_have_what_this_process_inherited(pair):
    """As the listening sockets under `reactor run --reload`, and the link of a model's process."""
    ours, _ = pair
    ours.set_inheritable(True)
    keep_from_children(ours)
    asks = f"import os; print(os.path.exists('/proc/self/fd/{ours.fileno()}'))"
    done = subprocess.run([sys.executable, "-c", asks], capture_output=True, text=True, check=True, close_fds=False)
    assert done.stdout == "False\n"


def test_a_fork_of_another_thread_waits_until_what_is_opened_is_registered():
    """The recorder opens its file in a thread of its own, while a handler may start a process."""
    files, said = [], []
    forks = threading.Thread(target=lambda: said.append(in_a_fork(lambda: target(files[0].fileno()))))

    def opened():
        files.append(tempfile.TemporaryFile())  # noqa: SIM115 - the test closes it
        forks.start()
        forks.join(0.2)  # were the fork not held up, it would be over by now
        return files[0]

    with open_kept_from_children(opened):
        forks.join()
    assert said == ["/dev/null"]
