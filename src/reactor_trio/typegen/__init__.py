"""The types of a model, for programs that use it: JSON Schema becomes TypeScript or Python.

`types_of` makes the text of one file from the answer to `GET /schema`. The same schema always gives the same text.

    schema_types.py     the types that a JSON Schema can have here, and what is documented about them
    read_schema.py      reads the JSON Schemas of a model's commands and messages
    source_text.py      names, strings and comments that cannot leave their place in the source
    typescript.py       writes TypeScript
    python_module.py    writes Python
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, get_args

from reactor_trio.typegen.python_module import python_module
from reactor_trio.typegen.read_schema import read_model
from reactor_trio.typegen.schema_types import ModelTypes
from reactor_trio.typegen.typescript import typescript

Language = Literal["typescript", "python"]
LANGUAGES: Final[tuple[Language, ...]] = get_args(Language)

_WRITERS: Final[dict[Language, Callable[[ModelTypes], str]]] = {"typescript": typescript, "python": python_module}


def types_of(schema: Mapping[str, Any], language: Language) -> str:
    """Return the source text with the types of a model.

    Args:
        schema: the answer to `GET /schema`, as JSON values.
        language: the language of the text.

    Raises ProtocolError if `schema` is not such an answer.
    """
    return _WRITERS[language](read_model(schema))
