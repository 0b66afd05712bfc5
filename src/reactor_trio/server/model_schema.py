"""`model_schema`: the answer to `GET /schema`, which is also the `schema` of each welcome."""

from __future__ import annotations

from typing import Any

from reactor_trio.configuration.introduction import Introduction
from reactor_trio.interface.declaration import Declaration
from reactor_trio.protocol import PROTOCOL


def model_schema(name: str, declaration: Declaration, introduction: Introduction) -> dict[str, Any]:
    """Return what the model declares, and `about`, its introduction to people, which `schema_hash` does not cover."""
    return {"name": name, "protocol": PROTOCOL, **declaration.schema(), "about": introduction.about(declaration)}
