"""`facts_of`: the model's schema and slots, which the application needs before any replica has loaded the model.

A subprocess reads them, so that the process that builds the application does not import the author's code:
`python -m reactor_trio.replicas.model_facts`, with the options as JSON on standard input.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import msgspec

from reactor_trio.errors import ManifestError
from reactor_trio.interface.declaration import declaration_of
from reactor_trio.replicas.options import Options, manifest_of, parse_options
from reactor_trio.server.model_schema import model_schema


class Facts(msgspec.Struct, frozen=True):
    """A project's name, its model's slots in each replica, and the schema as `GET /schema` answers it."""

    name: str
    slots: int
    schema: dict[str, Any]


def facts_of(options: Options) -> Facts:
    """Read the facts of a project in a subprocess. Raises ManifestError with the last line of its error output."""
    asked = subprocess.run(
        [sys.executable, "-m", __spec__.name if __spec__ else __name__],
        input=msgspec.json.encode(options), capture_output=True, check=False,
    )  # fmt: skip
    if asked.returncode:
        lines = asked.stderr.decode("utf-8", "replace").strip().splitlines()
        raise ManifestError(lines[-1] if lines else f"the project cannot be read (exit code {asked.returncode})")
    return msgspec.json.decode(asked.stdout, type=Facts)


def main() -> None:
    """Print the facts as JSON, or exit with one line about the error."""
    try:
        manifest = manifest_of(parse_options(msgspec.json.decode(sys.stdin.buffer.read())))
        model = manifest.import_quietly()
        schema = model_schema(manifest.name, declaration_of(model), manifest.introduction)
    except Exception as error:
        sys.exit(f"{error}")
    slots = manifest.settings.max_sessions or model.max_sessions
    sys.stdout.buffer.write(msgspec.json.encode(Facts(manifest.name, slots, schema)))


if __name__ == "__main__":
    main()
