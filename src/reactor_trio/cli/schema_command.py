"""`reactor schema`: print the model's commands, tracks and messages as `GET /schema` does, without running `load`."""

from __future__ import annotations

import contextlib
import json
import sys
from pathlib import Path

from reactor_trio.cli.terminal import OK, Terminal, UsageError
from reactor_trio.configuration.manifest import load_manifest
from reactor_trio.interface.declaration import declaration_of
from reactor_trio.protocol import PROTOCOL, asyncapi_document

__all__ = ["schema"]


def schema(path: Path, out: Path | None, terminal: Terminal, *, form: str = "json") -> int:
    """Print the schema of the project in `path`, or write it to `out`, as "json" or as an "asyncapi" document.

    Raises ManifestError and UsageError.
    """
    manifest = load_manifest(path)
    # Whatever the author's module prints during its import must not end up in the JSON.
    with contextlib.redirect_stdout(sys.stderr):
        model = manifest.model
    document = {"name": manifest.name, "protocol": PROTOCOL, **declaration_of(model).schema()}
    if form == "asyncapi":
        settings = manifest.settings
        address = f"[{settings.host}]" if ":" in settings.host else settings.host
        document = asyncapi_document(document, host=f"{address}:{settings.port}")
    text = json.dumps(document, indent=2, ensure_ascii=False)
    if out is None:
        terminal.say(text)
        return OK
    try:
        out.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--out: cannot write {out}: {error.strerror}") from error
    return OK
