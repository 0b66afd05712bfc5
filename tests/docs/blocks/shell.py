"""The commands of a page's `sh` blocks, in the page's folder."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from packaging.requirements import Requirement
from tests.docs.blocks import programs
from tests.docs.blocks.page import Block
from tests.support.forked_command import WITH_TESTS

#: what a server prints when it can be used
READY = re.compile(r"(?:is ready|serves).*?: (https?://\S+)")
QUOTED = re.compile(r"'[^']*'|\"[^\"$`]*\"")
#: A command with one of these outside of quotes needs a shell.
SIGNS = re.compile(r"[|<>;`*]|\$\(|&(?!\s*$)")
#: A command that only sets variables.
SETS = re.compile(r"export \w+=|\w+=(\$\(.*\)|\S*)$")
ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)=(.*)", re.DOTALL)
#: in a program that serves
CALLS_RUN = re.compile(r"^ +run\(", re.MULTILINE)
#: real seconds after which a command counts as one that never ends
PATIENCE = 60


@dataclass
class Server:
    """A command that goes on: the reader lets it run in a terminal."""

    command: str
    block: Block
    line: int
    process: programs.Started
    url: str
    variables: Mapping[str, str]
    output: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Read what it says, or it waits when the pipe is full."""
        self._reader = threading.Thread(target=self.output.extend, args=(self.process.stdout or (),))
        self._reader.start()

    def kill(self) -> str:
        """End it at once, if it runs. Return all that it has said."""
        self.process.kill()
        self.process.wait()
        self._reader.join()
        if self.process.stdout is not None:
            self.process.stdout.close()
        return "".join(self.output)

    def stop(self) -> None:
        """Press Ctrl-C. A server that has ended before, or ends otherwise than after Ctrl-C, is an error."""
        early = self.process.poll()
        self.process.send_signal(signal.SIGINT)
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            code = None
        said = self.kill()
        if early is not None or code != 0:
            when = "ended by itself" if early is not None else "was stopped"
            raise self.block.failed(f"`{self.command}` {when} with code {code}:\n{said}", self.line)


class Shell:
    """A terminal in the page's folder.

    `ports` has the free port that stands for each one that the page names; `see` is called with each server before its end.
    """

    def __init__(self, folder: Path, ports: Mapping[str, str], see: Callable[[Server], None]) -> None:
        self.folder = folder
        self.servers: list[Server] = []
        self._may_fail = False
        self._ports, self._see = ports, see
        path = os.pathsep.join([str(Path(sys.prefix) / "bin"), os.environ["PATH"]])
        self.variables = {
            **os.environ, "PATH": path, "PYTHONPATH": WITH_TESTS, "PYTHONUNBUFFERED": "1", "COLUMNS": "120",
            programs.PORT: ports["8080"],
        }  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for server in self.servers:
            server.kill()

    def run(self, block: Block, *, shows_error: bool = False) -> str:
        """Run the block's commands. Return what they print; a server's output only until it is ready.

        Each has to end with 0, unless the page shows the error with which one ends.
        """
        self._may_fail = shows_error
        said, in_background = "", False
        for line, command in commands(block.text):
            if self.servers and self.servers[-1].block is block and not in_background:
                raise block.failed(
                    f"`{command}` waits for the server above; give a second terminal a block of its own", line
                )
            before = len(self.servers)
            said += self._command(block, line, command)
            if len(self.servers) > before:
                in_background = command.rstrip().endswith("&")
        return said

    def stop_servers(self) -> None:
        """See and stop them, in the order in which they were started."""
        for server in self.servers:
            self._see(server)
            server.stop()
        self.servers.clear()

    def _command(self, block: Block, line: int, command: str) -> str:
        said = ""
        for part in [command] if needs_shell(command.replace(" && ", " ")) else command.split(" && "):
            text = with_free_ports(part.strip().removesuffix("&").rstrip(), self._ports)
            if needs_shell(text) and not SETS.match(text):
                said += self._waited(block, line, ["bash", "-c", text])
            else:
                said += self._simple(block, line, text)
        return said

    def _simple(self, block: Block, line: int, command: str) -> str:
        if SETS.match(command):
            return self._set_variables(block, line, command)
        words = shlex.split(command)
        given = {}
        while words and (found := ASSIGNMENT.fullmatch(words[0])):
            given[found[1]] = self._expanded(found[2])
            del words[0]
        words = [self._expanded(word) for word in words]
        if words[0] == "cd":
            self.folder = self.folder / words[1]
        elif words[:2] == ["pip", "install"]:
            missing = [each for each in words[2:] if not installed(each)]
            if missing:
                raise block.failed(f"needs the network: {' '.join(missing)} is not installed here", line)
        elif words == ["kill", "%1"]:
            self.servers.pop(0).stop()
        else:
            return self._waited(block, line, words, given)
        return ""

    def _set_variables(self, block: Block, line: int, command: str) -> str:
        """Let a shell set the variables, for the commands below."""
        done = subprocess.run(
            ["bash", "-ac", f"{command}\nenv -0"], cwd=self.folder, env=self.variables,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            raise block.failed(f"`{command}` ended with code {done.returncode}:\n{done.stderr}", line)
        self.variables = dict(each.split("=", 1) for each in done.stdout.split("\0") if each)
        return ""

    def _waited(self, block: Block, line: int, words: list[str], given: Mapping[str, str] | None = None) -> str:
        """Wait until the command has ended with 0, or serves."""
        command, variables = shlex.join(words), self.variables | dict(given or {})
        if self._takes_the_port(words):
            self.stop_servers()  # The reader stops the one that has the port.
        try:
            process = programs.start(words, self.folder, variables)
        except OSError as error:
            raise block.failed(f"`{command}`: {error}", line) from None
        alarm = threading.Timer(PATIENCE, process.kill)
        alarm.start()
        output: list[str] = []
        assert process.stdout is not None
        for text in process.stdout:
            output.append(text)
            if found := READY.search(text):
                alarm.cancel()
                said = "".join(output)
                self.servers.append(Server(command, block, line, process, found[1], variables, output))
                return said
        code = process.wait(PATIENCE)
        process.stdout.close()
        alarm.cancel()
        if code != 0 and not self._may_fail:
            raise block.failed(f"`{command}` ended with code {code}:\n{''.join(output)}", line)
        return "".join(output)

    def _takes_the_port(self, words: list[str]) -> bool:
        """Whether it is a server on the port that each has by default."""
        if words[:2] == ["reactor", "run"]:
            return "--port" not in words
        program = self.folder / words[-1]
        served = words[0] == "python" and program.suffix == ".py" and program.is_file()
        return served and CALLS_RUN.search(program.read_text(encoding="utf-8")) is not None

    def _expanded(self, word: str) -> str:
        return re.sub(r"\$\{?(\w+)\}?", lambda found: self.variables.get(found[1], ""), word)


def needs_shell(command: str) -> bool:
    """Whether there is more to the command than words and variables."""
    return SIGNS.search(QUOTED.sub("", command)) is not None


def with_free_ports(text: str, ports: Mapping[str, str]) -> str:
    """The text with a free port for each one that it names, so that pages run beside each other."""
    return re.sub(rf"(?<![\w.])(?:{'|'.join(ports)})(?![\w.])", lambda found: ports[found[0]], text) if ports else text


def commands(text: str) -> Iterator[tuple[int, str]]:
    """Each command with its line, from 1. A backslash continues it; a comment, and a prompt `$ `, are left out."""
    begun, first = "", 1
    for number, line in enumerate(text.splitlines(), 1):
        first = first if begun else number
        begun += line.strip().removeprefix("$ ")
        if begun.endswith("\\"):
            begun = begun[:-1].rstrip() + " "
            continue
        if command := re.sub(r"(^|\s)#\s.*$", "", begun).strip():
            yield first, command
        begun = ""


def installed(requirement: str) -> bool:
    """Whether `pip install` would find it satisfied, with its extras."""
    if requirement.startswith("-"):
        return True
    wanted = Requirement(requirement)
    try:
        found = importlib.metadata.distribution(wanted.name)
    except importlib.metadata.PackageNotFoundError:
        return False
    for each in map(Requirement, found.requires or []):
        by_extra = each.marker is not None and any(each.marker.evaluate({"extra": extra}) for extra in wanted.extras)
        if by_extra and not installed(f"{each.name}[{','.join(each.extras)}]"):
            return False
    return wanted.specifier.contains(found.version, prereleases=True)
