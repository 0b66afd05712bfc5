"""`reactor ticket`: print a ticket for one connection, signed with the manifest's first key."""

from __future__ import annotations

import argparse

from reactor_trio.cli.terminal import OK, Terminal, UsageError
from reactor_trio.configuration.credentials import read_key
from reactor_trio.configuration.manifest import load_manifest
from reactor_trio.edge.tickets import issue_ticket


def ticket(options: argparse.Namespace, terminal: Terminal) -> int:
    """Print a ticket for a project's model. Raises ManifestError and UsageError."""
    manifest = load_manifest(options.path)
    auth = manifest.settings.auth
    if auth is None or not auth.ticket_keys:
        raise UsageError(f"{manifest.source}: runtime.auth.ticket_keys: a ticket needs a key that signs it")
    key = read_key(auth.ticket_keys[0], "runtime.auth.ticket_keys[0]")
    try:
        text = issue_ticket(
            key, role=options.role, expires=options.expires, subject=options.subject, max_session=options.max_session,
            model=manifest.name,
        )  # fmt: skip
    except ValueError as error:
        raise UsageError(str(error)) from None
    terminal.give(f"{text}\n")
    return OK
