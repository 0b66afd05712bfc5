"""`reactor schema`: print the model's commands, tracks and messages as `GET /schema` does, without running `load`."""

from __future__ import annotations

import argparse
import json

from reactor_trio.cli.terminal import OK, Terminal, UsageError
from reactor_trio.configuration.manifest import load_manifest
from reactor_trio.interface.declaration import declaration_of
from reactor_trio.protocol import PROTOCOL, asyncapi_document


def schema(options: argparse.Namespace, terminal: Terminal) -> int:
    """Print a project's schema, or write it to `options.out`. Raises ManifestError and UsageError."""
    manifest = load_manifest(options.path)
    declared = declaration_of(manifest.import_quietly())
    document = {"name": manifest.name, "protocol": PROTOCOL, **declared.schema()}
    if options.format == "asyncapi":
        settings = manifest.settings
        address = f"[{settings.host}]" if ":" in settings.host else settings.host
        document = asyncapi_document(document, host=f"{address}:{settings.port}")
    text = json.dumps(document, indent=2, ensure_ascii=False)
    if options.out is None:
        terminal.say(text)
        return OK
    try:
        options.out.write_text(text + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"--out: cannot write {options.out}: {error.strerror}") from error
    return OK
