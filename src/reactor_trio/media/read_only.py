"""Whether an array that its author has made read-only is a promise of all whose memory it shares.

A read-only *view* promises nothing: code that has the array, buffer or tensor below it can still write there.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def is_read_only(array: npt.NDArray[Any]) -> bool:
    """Whether the array and all that it is a view of are read-only: arrays, and the object whose buffer they show.

    False for an owner that does not say so, such as a tensor. Another view of the same memory that was made before is not
    looked for.
    """
    owner: Any = array
    while isinstance(owner, (np.ndarray, memoryview)):
        if isinstance(owner, memoryview):  # it may be read-only over a buffer that is not
            owner = owner.obj
        elif owner.flags.writeable:
            return False
        else:
            owner = owner.base
    if owner is None:
        return True
    try:
        return memoryview(owner).readonly
    except TypeError:  # it has no buffer of its own
        return False
