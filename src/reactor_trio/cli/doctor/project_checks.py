"""Checks of a project: the manifest, the model's class and the weights. None of them runs `load`."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

from reactor_trio.cli.doctor.finding import Finding, ok, problem, warning
from reactor_trio.configuration.manifest import Manifest, load_manifest
from reactor_trio.errors import ReactorError
from reactor_trio.interface.declaration import declaration_of
from reactor_trio.interface.manifest_files import WEIGHTS_VARIABLE, files_of_manifest, get_weights_path
from reactor_trio.kinds.model_checks import check_model as check_class
from reactor_trio.kinds.model_checks import config_doubts


def check_manifest(path: Path) -> tuple[Manifest | None, Finding]:
    """Read the manifest and the config file that it names. The manifest is None if it cannot be read."""
    try:
        manifest = load_manifest(path)
    except ReactorError as error:
        return None, problem("manifest", str(error))
    if manifest.unused:
        what = f"{manifest.source}: without effect here: {', '.join(manifest.unused)}"
        return manifest, warning("manifest", what, "see docs/reference/model/migration.md")
    return manifest, ok("manifest", f"{manifest.source}: {manifest.name}")


def check_model(manifest: Manifest) -> Finding:
    """Import the model's class and the moderation function, and check the class as a server does."""
    try:
        # Whatever the author's module prints must not mix with the findings.
        with contextlib.redirect_stdout(sys.stderr):
            model, _ = manifest.model, manifest.moderate
            checked = check_class(model, manifest.settings)
    except ReactorError as error:
        return problem("model", str(error))
    schema, doubts = checked.schema, (*checked.doubts, *config_doubts(model, manifest.config))
    tracks = ", ".join(f"{track['name']} ({track['kind']} {track['direction']})" for track in schema["tracks"])
    count = len(schema["commands"])
    text = f"{manifest.model_path}: {tracks or 'no tracks'}; {count} command{'' if count == 1 else 's'}"
    if doubts:
        return warning("model", "; ".join((text, *(doubt.text for doubt in doubts))), "; ".join(d.remedy for d in doubts))
    return ok("model", text)


def check_saves(manifest: Manifest) -> Finding | None:
    """Look for lines that change a model's world after a `yield`, which a rewind would lose. None if it saves no worlds."""
    try:
        model = manifest.model
        if model is None or declaration_of(model).world is None:
            return None
    except ReactorError:  # `check_model` tells it
        return None
    from reactor_trio.worlds.after_yield import changes_after_yield  # late: models without Saves import none of it

    if changes := changes_after_yield(model):
        what = "; ".join(f"{change.at} changes the world after the yield: `{change.text}`" for change in changes)
        return warning("saves", what, "change it before the yield: a moment is taken there, so a rewind repeats a frame")
    return ok("saves", "nothing changes the world after a yield")


def check_weights(manifest: Manifest) -> Finding | None:
    """Check the weights folder that the manifest or the environment names. None if neither names one."""
    named_by = WEIGHTS_VARIABLE if WEIGHTS_VARIABLE in os.environ else "weights_path"
    if manifest.weights is None and named_by != WEIGHTS_VARIABLE:
        return None
    with files_of_manifest(manifest.files):
        folder = get_weights_path()
    if not folder.is_dir():
        return warning("weights", f"there is no folder {folder}", f"put the weights there, or correct {named_by}")
    if not os.access(folder, os.R_OK | os.X_OK):
        return problem("weights", f"{folder} cannot be read", "give it to the server's user")
    return ok("weights", str(folder))
