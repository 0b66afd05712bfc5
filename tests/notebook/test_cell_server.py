"""`show` in a stand-in for IPython: what a cell shows, and when its server ends."""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import urllib.error
import urllib.request
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from tests.support.child_processes import at_port, in_a_fork, open_in
from tests.support.models import Picture

from reactor_trio import ModelFailed, ReactorError, ReactorPipeline, progress, show
from reactor_trio.errors import ManifestError


class Sky(ReactorPipeline):
    output: Picture

    def load(self, config):
        progress(0.25, "colours")
        if config.get("fails"):
            raise ValueError("no weights")

    def inference(self):
        while True:
            yield np.full((48, 64, 3), 9, np.uint8)


class Notebook:
    """A notebook's kernel. `shown` has what each output shows, by its number."""

    def __init__(self) -> None:
        self.kernel = self
        self.cell: str | None = None
        self.before_run: list = []
        self.shown: list[list] = []
        self.events = SimpleNamespace(register=lambda event, function: self.before_run.append((event, function)))

    def get_parent(self):
        return {"metadata": {} if self.cell is None else {"cellId": self.cell}}

    def display(self, value, *, raw, display_id):
        assert raw
        assert display_id
        outputs = [value]
        self.shown.append(outputs)
        return SimpleNamespace(update=lambda value, raw=False: outputs.append(value))

    def run(self, cell, function=lambda: None):
        """Run a cell, as IPython does."""
        self.cell = cell
        for event, before in self.before_run:
            assert event == "pre_run_cell"
            before(SimpleNamespace(cell_id=cell))
        return function()


def frame(url, width, height, extras):
    return (url, width, height, *extras)


@pytest.fixture
def notebook(monkeypatch):
    kernel = Notebook()
    ipython, display = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = lambda: kernel
    display.display, display.IFrame = kernel.display, frame
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    at_exit = []
    monkeypatch.setattr("atexit.register", at_exit.append)
    yield kernel
    for function in at_exit:
        function()


@pytest.fixture
def interrupt():
    """A function that raises KeyboardInterrupt in the main thread, once.

    It sends SIGINT until its handler runs: Python notices a signal late that comes just before a lock lets a thread sleep.
    """
    main, raised = threading.main_thread().ident, threading.Event()

    def raise_once(*_):
        if not raised.is_set():
            raised.set()
            raise KeyboardInterrupt

    def send():
        while not raised.is_set():
            signal.pthread_kill(main, signal.SIGINT)
            raised.wait(0.05)

    before = signal.signal(signal.SIGINT, raise_once)
    yield send
    signal.signal(signal.SIGINT, before)


def answers(url):
    try:
        with urllib.request.urlopen(f"{url}health") as answer:
            return answer.status == 200
    except urllib.error.URLError:
        return False


def test_a_kernel_without_standard_streams_shows_the_page(notebook, monkeypatch):
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    shown = notebook.run("a", lambda: show(Sky))
    assert answers(shown.url)
    shown.stop()


def test_a_cell_shows_the_page_in_a_frame(notebook):
    shown = notebook.run("a", lambda: show(Sky, height=300, fps=10))
    assert answers(shown.url)
    (outputs,) = notebook.shown
    assert outputs == [
        {"text/plain": "loading Sky ..."},
        {"text/plain": "loading Sky ... 25% colours"},
        (shown.url, "100%", 300, 'allow="autoplay; camera; clipboard-read; clipboard-write; gamepad; microphone"'),
    ]
    with urllib.request.urlopen(shown.url) as answer:
        policy = answer.headers["content-security-policy"]
    assert policy.endswith("frame-ancestors 'self' http://localhost:* http://127.0.0.1:* https://localhost:* https://127.0.0.1:*")
    shown.stop()
    shown.stop()
    assert not answers(shown.url)
    assert outputs[3] == {"text/plain": "Sky has stopped"}


def test_the_server_of_a_cell_ends_when_the_cell_runs_again_and_no_other(notebook):
    first = notebook.run("a", lambda: show(Sky))
    other = notebook.run("b", lambda: show(Sky))
    assert answers(first.url)
    assert answers(other.url)
    again = notebook.run("a", lambda: show(Sky))
    assert not answers(first.url)
    assert answers(again.url)
    assert answers(other.url)
    notebook.run("b")
    assert not answers(other.url)
    assert answers(again.url)


def test_a_cell_may_show_several_models(notebook):
    first, second = notebook.run("a", lambda: (show(Sky), show(Sky, name="evening")))
    assert answers(first.url)
    assert answers(second.url)
    notebook.run("a")
    assert not answers(first.url)
    assert not answers(second.url)


def test_a_front_end_that_names_no_cell_has_one_server(notebook):
    first = notebook.run(None, lambda: show(Sky))
    notebook.run(None)
    assert answers(first.url)  # this may be another cell
    second = notebook.run(None, lambda: show(Sky))
    assert not answers(first.url)
    assert answers(second.url)


def test_the_end_of_the_kernel_stops_all_servers(notebook, monkeypatch):
    at_exit = []
    monkeypatch.setattr("atexit.register", at_exit.append)
    shown = [notebook.run(cell, lambda: show(Sky)) for cell in "ab"]
    (function,) = at_exit
    function()
    assert not any(answers(each.url) for each in shown)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_process_that_a_cell_forks_keeps_neither_the_port_nor_a_connection(notebook):
    """For example the workers of a data loader, which would hold the port after the kernel."""
    shown = notebook.run("a", lambda: show(Sky))
    port = shown._host.serving.port
    with socket.create_connection(("127.0.0.1", port)) as client:
        client.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n")
        assert client.recv(12) == b"HTTP/1.1 200"
        ours, clients = open_in(os.getpid()) & at_port(port), f"socket:[{os.fstat(client.fileno()).st_ino}]"
        assert len(ours) == 2
        assert clients not in ours
        assert in_a_fork(lambda: str(open_in("self") & ours)) == "set()"
    assert answers(shown.url)


def test_a_load_that_fails_is_the_cell_s_error_and_leaves_no_server(notebook):
    with pytest.raises(ModelFailed, match="no weights") as failed:
        notebook.run("a", lambda: show(Sky, config={"fails": True}))
    # IPython prints an exception that has a group in its context on stderr, and the cell shows no error.
    assert (failed.value.__context__, type(failed.value.__cause__).__name__) == (None, "ValueError")
    assert notebook.shown[0][-1] == {"text/plain": "Sky has failed"}
    assert answers(notebook.run("a", lambda: show(Sky)).url)


def test_a_wait_that_is_interrupted_stops_the_server(notebook, interrupt):
    shown = notebook.run("a", lambda: show(Sky))
    waits = threading.Event()
    thread = threading.Thread(target=lambda: waits.wait() and interrupt())
    thread.start()
    try:
        waits.set()
        shown.wait()
    except KeyboardInterrupt:
        shown.stop()  # does nothing, unless the signal came before the wait
    thread.join()
    assert not answers(shown.url)
    assert notebook.shown[0][-1] == {"text/plain": "Sky has stopped"}


def test_an_interrupted_load_leaves_no_server(notebook, interrupt):
    """The load goes on, since nothing can interrupt it; then its server ends."""

    class Slow(Sky):
        def load(self, config):
            interrupt()
            may_end.wait()

    may_end = threading.Event()
    with pytest.raises(KeyboardInterrupt):
        notebook.run("a", lambda: show(Slow))
    may_end.set()
    (server,) = (thread for thread in threading.enumerate() if thread.name == "reactor-io")
    server.join(120)
    assert not server.is_alive()
    assert notebook.shown[0][-1] == {"text/plain": "Slow has stopped"}


def test_a_page_that_reaches_the_kernel_another_way(notebook):
    shown = notebook.run("a", lambda: show(Sky, url="/user/ann/proxy/{port}/", frame_ancestors=["https://hub.example"]))
    port = shown._host.serving.port
    assert shown.url == f"/user/ann/proxy/{port}/"
    assert notebook.shown[0][-1][0] == shown.url
    with urllib.request.urlopen(shown._host.url) as answer:
        assert answer.headers["content-security-policy"].endswith("frame-ancestors 'self' https://hub.example")


def test_wrong_options_are_named(notebook):
    with pytest.raises(ManifestError, match=r"runtime\.hieght: unknown key"):
        show(Sky, hieght=3)


def test_outside_a_notebook_it_says_what_to_use(monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython", None)
    with pytest.raises(ReactorError, match=r"a program calls run\(Model\)"):
        show(Sky)
