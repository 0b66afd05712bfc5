"""`reactor types`: write the types of a project's or a server's model as TypeScript or Python, or check a file of them."""

from __future__ import annotations

import argparse
import difflib
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import trio

from reactor_trio.cli.client_command import target_of, token_hint
from reactor_trio.cli.schema_command import give, schema_of
from reactor_trio.cli.terminal import FAILED, OK, Terminal, UsageError
from reactor_trio.configuration.manifest import load_manifest
from reactor_trio.errors import ProtocolError
from reactor_trio.interface.schema_hash import schema_hash
from reactor_trio.typegen import Language, types_of

#: Bytes of the largest schema that is read from a server.
MOST_SCHEMA: Final = 4 * 1024 * 1024
#: Seconds in which a server answers, to the last byte.
TIMEOUT: Final = 10.0


def types(options: argparse.Namespace, terminal: Terminal) -> int:
    """Print the types, write them to `options.out`, or compare that file with them. Raises ManifestError and UsageError."""
    out: Path | None = options.out
    if options.check and out is None:
        raise UsageError("--check: name the file to check with --out")
    if options.url is None and options.token is not None:
        raise UsageError("--token: it is for a server; name the server with --url")
    found = _schema(options)
    try:
        text = types_of(found, _language(options.language, out))
    except ProtocolError as error:
        raise UsageError(f"{options.url or options.path or Path()}: {error}") from error
    if options.check and out is not None:
        return _check(out, text, terminal)
    give(text, out, terminal)
    return OK


def _language(given: str | None, out: Path | None) -> Language:
    if given is None:
        return "python" if out is not None and out.suffix == ".py" else "typescript"
    return "python" if given == "python" else "typescript"


def _schema(options: argparse.Namespace) -> dict[str, Any]:
    """Return the schema as JSON values, from the project in a folder or from a server."""
    if options.url is None:
        found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(schema_of(load_manifest(options.path or Path()))))
        return found
    if options.path is not None:
        raise UsageError("--path and --url: give the project's folder or the server, not both")
    target, token = target_of(options)
    text = _fetched(target, token)
    try:
        found = msgspec.json.decode(text, type=dict[str, Any])
        return {"schema_hash": schema_hash(found), **found}
    except (msgspec.MsgspecError, KeyError, UnicodeError, RecursionError) as error:
        raise UsageError(f"{target}: its /schema is not the schema of a model: {error}") from error


def _fetched(target: str, token: str | None) -> bytes:
    """Return the answer to `GET /schema` of the server at `target`. Raises UsageError."""
    from reactor_trio.client.http_request import http_get  # few commands need the client
    from reactor_trio.client.refusals import refusal_reason

    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    try:
        answer = trio.run(partial(http_get, target, "schema", headers, most=MOST_SCHEMA, timeout=TIMEOUT))
    except OSError as error:
        raise UsageError(f"{target}: {error}; does the server run?", anchor="no-server") from error
    except ProtocolError as error:
        raise UsageError(f"{target}: {error}, which is not the schema of a model") from error
    if answer.status != 200:
        reason, _ = refusal_reason(answer.status, answer.body)
        raise UsageError(f"{target}: the server answered {answer.status}: {reason}{token_hint(answer.status, token)}")
    return answer.body


def _check(out: Path, text: str, terminal: Terminal) -> int:
    """Compare the file with the types that would be written. Prints the difference and returns 1 if there is one."""
    try:
        present = out.read_bytes().decode("utf-8", "replace")
    except FileNotFoundError:
        terminal.fail(f"{out}: no such file; make it with the same command without --check")
        return FAILED
    except OSError as error:
        raise UsageError(f"--out: cannot read {out}: {error.strerror}") from error
    if present == text:
        return OK
    for line in difflib.unified_diff(present.split("\n"), text.split("\n"), str(out), "the model's types", lineterm=""):
        terminal.say(line)
    terminal.fail(f"{out}: the model has other types now; make the file again with the same command without --check")
    return FAILED
