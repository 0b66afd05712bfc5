"""`Introduction`: how a model introduces itself to people, by the manifest's keys `title`, `description`, `examples` ...

`GET /schema` shows it as `about`, and the viewer page draws it. The pictures that the manifest names are read with it, so
that a server never opens a file because a client names it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated, Any, Final
from urllib.parse import urlsplit

import msgspec

from reactor_trio.configuration.accent import COLOUR, accents
from reactor_trio.configuration.checked_struct import parse_struct
from reactor_trio.errors import CommandError, ManifestError
from reactor_trio.plain_text import one_line

if TYPE_CHECKING:
    from reactor_trio.interface.declaration import Declaration

#: Bytes of one picture, and how many pictures a manifest may name.
PICTURE_SIZE, MOST_PICTURES = 2 * 1024 * 1024, 64
#: Bytes of `about` as JSON: each client gets it in its welcome.
ABOUT_SIZE = 64 * 1024
#: Folder of the pictures' addresses, relative to the viewer page.
PICTURES = "pictures"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_PICTURE_TYPES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg"}

_Line = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
_HANDS = ("keyboard", "touch", "gamepad")
_Links = Annotated[dict[Annotated[str, msgspec.Meta(min_length=1, max_length=60)], str], msgspec.Meta(max_length=16)]


class Example(msgspec.Struct, frozen=True):
    """A preset: a name, a picture beside the manifest, and the values of the settings that it sets."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=60)]
    picture: str | None = None
    values: dict[str, Any] = {}


class IntroductionKeys(msgspec.Struct, frozen=True):
    """The manifest's keys about the model, as written.

    Attributes:
        title, author, hint: one line each, 200 characters at most.
        description: Markdown, 4000 characters at most.
        links: label -> address, which is http or https.
        hints: the same as `hint` for one kind of hand: `keyboard`, `touch`, `gamepad`.
        thumbnail, mark: a file beside the manifest.
        accent: the model's colour as "#rrggbb"; the page changes its lightness until it can be read.
        examples: presets.
    """

    title: _Line | None = None
    description: Annotated[str, msgspec.Meta(min_length=1, max_length=4000)] | None = None
    author: _Line | None = None
    links: _Links = {}
    thumbnail: str | None = None
    hint: _Line | None = None
    hints: dict[str, _Line] = {}
    accent: str | None = None
    mark: str | None = None
    examples: Annotated[list[Any], msgspec.Meta(max_length=MOST_PICTURES)] = []


class Picture(msgspec.Struct, frozen=True):
    """The bytes of one picture, its MIME type, and its entity tag."""

    data: bytes
    kind: str
    tag: str


class Introduction(msgspec.Struct, frozen=True):
    """The checked introduction of one model.

    Attributes:
        keys: the manifest's keys; `keys.examples` is in `examples`.
        examples: the presets, in the manifest's order.
        pictures: by the last part of their address.
        where: the manifest's path, for errors.
    """

    keys: IntroductionKeys = IntroductionKeys()
    examples: tuple[Example, ...] = ()
    pictures: Mapping[str, Picture] = {}
    where: str = ""

    def check(self, declaration: Declaration) -> None:
        """Check the presets against the model's commands. Raises ManifestError, which names the preset and the setting."""
        for number, example in enumerate(self.examples):
            for field, value in example.values.items():
                at = f"{self.where}: examples[{number}] ({example.name}): values.{field}: "
                parameter = declaration.setting_parameters.get(field)
                if parameter is None:
                    known = ", ".join(declaration.setting_parameters) or "none"
                    raise ManifestError(f"{at}the model has no setting of this name; its settings: {known}")
                try:
                    declaration.command(f"set_{field}").arguments.decode(_as_json({parameter.name: value}, at))
                except CommandError as error:
                    raise ManifestError(f"{at}{str(error).removesuffix(f' - at $.{parameter.name}')}") from None
        size = len(_as_json(self.about(declaration), f"{self.where}: "))
        if size > ABOUT_SIZE:
            raise ManifestError(f"{self.where}: examples: the introduction has {size} bytes as JSON, at most {ABOUT_SIZE}")

    def about(self, declaration: Declaration | None = None) -> dict[str, Any]:
        """Return the value of `about` in `GET /schema`. Without `description` it has the docstring of the model's class.

        Args:
            declaration: None while the model loads; then there is no docstring yet, and there are no hints.
        """
        keys = self.keys
        docstring = declaration.docstring if declaration else None
        settings, arguments = hints_of(declaration) if declaration else ({}, {})
        return {
            "title": keys.title,
            "description": keys.description or docstring or None,
            "author": keys.author,
            "hint": keys.hint,
            "hints": keys.hints,
            "accent": accents(keys.accent) if keys.accent else None,
            "mark": _address(keys.mark),
            "links": [{"label": label, "url": url} for label, url in keys.links.items()],
            "thumbnail": _address(keys.thumbnail),
            "examples": [
                {"name": one.name, "picture": _address(one.picture), "values": one.values} for one in self.examples
            ],
            "settings": settings,
            **({"arguments": arguments} if arguments else {}),
        }  # fmt: skip


_Hints = dict[str, dict[str, Any]]


def hints_of(declaration: Declaration) -> tuple[_Hints, dict[str, _Hints]]:
    """Return how settings, and the arguments of other commands, are shown. Only those whose author says it are there.

    They are hints for people and not in the schema itself, so `schema_hash` stays the same when one changes.
    """
    settings = {name: each.info.hints for name, each in declaration.setting_parameters.items() if each.info.hints}
    others = {name: spec.arguments.parameters for name, spec in declaration.commands.items()
              if not (name.startswith("set_") and name.removeprefix("set_") in declaration.setting_parameters)}  # fmt: skip
    arguments = {name: {each.name: each.info.hints for each in given if each.info.hints} for name, given in others.items()}
    return settings, {name: hints for name, hints in arguments.items() if hints}


#: that of a model without a manifest
NOT_INTRODUCED: Final = Introduction()


def read_introduction(path: Path, keys: IntroductionKeys) -> Introduction:
    """Check the keys of the manifest `path`, and read the pictures that they name. Raises ManifestError."""
    for label, url in keys.links.items():
        _check_link(url, f"{path}: links.{label}")
    for hand in keys.hints:
        if hand not in _HANDS:
            raise ManifestError(f"{path}: hints: expected the keys {', '.join(_HANDS)}, got {one_line(repr(hand))}")
    if keys.accent is not None and COLOUR.fullmatch(keys.accent) is None:
        raise ManifestError(f"{path}: accent: expected a colour such as '#2f6fd0', got {one_line(repr(keys.accent))}")
    examples: list[Example] = []
    for number, given in enumerate(keys.examples):
        try:
            examples.append(parse_struct(given, Example, f"examples[{number}]"))
        except ManifestError as error:
            raise ManifestError(f"{path}: {error}") from None
    named = [
        ("thumbnail", keys.thumbnail),
        ("mark", keys.mark),
        *((f"examples[{n}].picture", one.picture) for n, one in enumerate(examples)),
    ]
    files: dict[str, Path] = {}
    pictures: dict[str, Picture] = {}
    for key, text in named:
        if text is None:
            continue
        name, file = _file_of(path, key, text)
        if files.setdefault(name, file) != file:
            raise ManifestError(f"{path}: {key}: {text}: another picture is called {name}, too; rename one of them")
        if name not in pictures:
            pictures[name] = _read_picture(file, f"{path}: {key}: {text}")
    if len(pictures) > MOST_PICTURES:
        raise ManifestError(f"{path}: examples: the manifest names {len(pictures)} pictures, at most {MOST_PICTURES}")
    return Introduction(keys, tuple(examples), pictures, str(path))


def _as_json(value: Any, at: str) -> bytes:
    try:
        return msgspec.json.encode(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:  # YAML has sets, lone surrogates, circles
        raise ManifestError(f"{at}cannot be written as JSON: {one_line(str(error))}") from None


def _address(picture: str | None) -> str | None:
    return None if picture is None else f"{PICTURES}/{PurePosixPath(picture).name}"


def _check_link(url: str, at: str) -> None:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:  # `http://[`
        valid = False
    if not valid or len(url) > 1000 or not url.isprintable() or " " in url:
        raise ManifestError(f"{at}: expected an address that begins with https:// or http://, got {url!r}")


def _file_of(manifest: Path, key: str, text: str) -> tuple[str, Path]:
    name = PurePosixPath(text).name
    if _NAME.fullmatch(name) is None:
        raise ManifestError(
            f"{manifest}: {key}: {text!r}: a picture's name has letters, digits, dots, dashes and underscores, 64 at most"
        )
    folder = manifest.parent
    try:
        file = (folder / text).resolve()
        inside = file.is_relative_to(folder.resolve())
    except (OSError, ValueError, RuntimeError) as error:  # a NUL in the text, or links in a circle
        raise ManifestError(f"{manifest}: {key}: {text!r}: {error}") from None
    if not inside:
        raise ManifestError(f"{manifest}: {key}: {text!r} is not in the folder of the manifest")
    return name, file


def _read_picture(file: Path, at: str) -> Picture:
    try:
        with file.open("rb") as opened:
            data = opened.read(PICTURE_SIZE + 1)
    except (OSError, ValueError) as error:
        raise ManifestError(f"{at}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if len(data) > PICTURE_SIZE:
        raise ManifestError(f"{at}: it has more than {PICTURE_SIZE} bytes")
    kind = next((kind for start, kind in _PICTURE_TYPES.items() if data.startswith(start)), None)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        kind = "image/webp"
    if kind is None:
        raise ManifestError(f"{at}: expected a PNG, JPEG or WebP picture")
    return Picture(data, kind, f'"{hashlib.blake2b(data, digest_size=8).hexdigest()}"')
