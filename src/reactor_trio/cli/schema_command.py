"""`reactor schema`: print the model's commands, tracks and messages as `GET /schema` does, without running `load`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from reactor_trio.cli.terminal import OK, Terminal, UsageError
from reactor_trio.configuration.manifest import Manifest, load_manifest
from reactor_trio.interface.declaration import declaration_of
from reactor_trio.protocol import asyncapi_document
from reactor_trio.server.model_schema import model_schema


def schema(options: argparse.Namespace, terminal: Terminal) -> int:
    """Print a project's schema, or write it to `options.out`. Raises ManifestError and UsageError."""
    manifest = load_manifest(options.path)
    document = schema_of(manifest)
    if options.format == "asyncapi":
        settings = manifest.settings
        address = f"[{settings.host}]" if ":" in settings.host else settings.host
        document = asyncapi_document(document, host=f"{address}:{settings.port}")
    give(json.dumps(document, indent=2, ensure_ascii=False) + "\n", options.out, terminal)
    return OK


def schema_of(manifest: Manifest) -> dict[str, Any]:
    """Return the schema of a project's model, as a server of it answers `GET /schema`. Raises ManifestError."""
    return model_schema(manifest.name, declaration_of(manifest.import_quietly()), manifest.introduction)


def give(text: str, out: Path | None, terminal: Terminal) -> None:
    """Print `text`, which ends with a line end, or write it to the file `out`. Raises UsageError."""
    if out is None:
        terminal.give(text)
        return
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--out: cannot write {out}: {error.strerror}") from error
