"""`vectors`: the packets of the protocol's test vectors, from the file that every client's tests read."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from reference_pages.markdown import table

FILE = Path(__file__).parents[1] / "reference" / "protocol-vectors.json"
_MEANS = {
    "exact": "This library encodes the values to these bytes, and decodes them back.",
    "accepted": "Other encodings of the same values, which a receiver accepts too.",
    "refused": "These are no packets of the protocol.",
}


def vectors() -> str:
    """Return a table of the packets of each kind."""
    packets = json.loads(FILE.read_text(encoding="utf-8"))["packets"]
    return "\n".join(_section(kind, packets[kind]) for kind in _MEANS)


def _section(kind: str, cases: list[dict[str, Any]]) -> str:
    decoded = any("packet" in case for case in cases)
    head = ["name", "what it shows", *(["values"] if decoded else []), "bytes"]
    rows = [
        [f"`{case['name']}`", case.get("note", ""), *([_values(case["packet"])] if decoded else []), f"`{case['hex']}`"]
        for case in cases
    ]
    return f"## `{kind}`\n\n{_MEANS[kind]}\n\n{table(head, rows)}"


def _values(packet: dict[str, Any]) -> str:
    return f"`{json.dumps(packet, separators=(', ', ': '))}`"
