"""The settings of a world that another process saved, checked against what the model's class declares today."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from reactor_trio.errors import CommandError
from reactor_trio.interface.files import UploadedFile
from reactor_trio.interface.state import InputState


def check_settings(state: type[InputState], settings: Mapping[str, Any]) -> None:
    """Check that a client could set each of these today.

    The world of this process needs no such check: the author's own code may set what a client may not.

    Raises CommandError `restore_failed`, whose message names the setting.
    """
    files: dict[str, UploadedFile] = {}

    def described(value: Any) -> Any:
        if not isinstance(value, UploadedFile):
            raise NotImplementedError
        files[str(len(files))] = value
        return {"upload_id": str(len(files) - 1)}

    for name, value in settings.items():
        arguments = state.__reactor_arguments__.get(name)
        if arguments is None:
            continue
        try:
            arguments.decode(msgspec.json.encode({name: value}, enc_hook=described), files.__getitem__)
        except Exception as error:  # also what a class of the author raises
            raise CommandError("restore_failed", f"state.{name}: {error}") from None
