"""Module paths of earlier versions: each still imports, with a `DeprecationWarning` that names the new one."""

from __future__ import annotations

import sys
import warnings
from importlib import import_module


def moved(old: str, new: str) -> None:
    """Make the module `new` the one that `import old` gives; called by a module at the old path that does nothing else."""
    warnings.warn(f"{old} is deprecated: import {new}", DeprecationWarning, stacklevel=3)
    sys.modules[old] = import_module(new)
