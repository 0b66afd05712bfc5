"""TypeScript's language server, for tests of what an editor offers."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.web_client import WEB, node_program

TSC = WEB / "node_modules" / "typescript" / "bin" / "tsc"


class Editor:
    """An editor with one folder open. It asks one question at a time."""

    def __init__(self, server: subprocess.Popen[bytes], folder: Path) -> None:
        self._server = server
        self._folder = folder
        self._asked = 0
        self.ask("initialize", {"processId": None, "rootUri": folder.as_uri(), "capabilities": {}})
        self._send({"method": "initialized", "params": {}})

    def completions(self, name: str, text: str) -> dict[str, str]:
        """What is offered at `|` in a file with `text`, with its documentation."""
        before, _, after = text.partition("|")
        (self._folder / name).write_text(before + after, encoding="utf-8")  # the server looks for the file's project
        document = {"uri": (self._folder / name).as_uri()}
        opened = {**document, "languageId": "typescript", "version": 1, "text": before + after}
        self._send({"method": "textDocument/didOpen", "params": {"textDocument": opened}})
        place = {"line": before.count("\n"), "character": len(before) - before.rfind("\n") - 1}
        found = self.ask("textDocument/completion", {"textDocument": document, "position": place})
        self._send({"method": "textDocument/didClose", "params": {"textDocument": document}})
        offered = [self.ask("completionItem/resolve", item) for item in found["items"]]
        return {item["label"]: json.dumps(item.get("documentation", "")) for item in offered}

    def ask(self, method: str, params: Any) -> Any:
        self._asked += 1
        self._send({"id": self._asked, "method": method, "params": params})
        while (message := self._receive()).get("id") != self._asked or "method" in message:
            if "method" in message and "id" in message:
                self._send({"id": message["id"], "result": None})
        assert "result" in message, message
        return message["result"]

    def _send(self, message: dict[str, Any]) -> None:
        assert self._server.stdin is not None
        text = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._server.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(text), text))
        self._server.stdin.flush()

    def _receive(self) -> Any:
        assert self._server.stdout is not None
        length = 0
        while (line := self._server.stdout.readline()) != b"\r\n":
            assert line, "the language server has ended"
            if line.lower().startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        return json.loads(self._server.stdout.read(length))


@contextmanager
def editor(folder: Path) -> Iterator[Editor]:
    command = [node_program(), TSC, "--lsp", "--stdio"]
    with subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as server:
        try:
            yield Editor(server, folder)
        finally:
            server.kill()
