"""Generators of random numbers as values: their kind as a name, their state as bytes.

A kind says what must fit for one generator to take the state of another: `random.Random`, `numpy.RandomState`,
`numpy.Generator:PCG64`, `torch.Generator:cpu`. Torch and `numpy.random` are used only where others have imported them.

What `SeedSequence.spawn` has counted is no part of the state, so generators that are spawned after a rewind differ.
"""

from __future__ import annotations

import random
import struct
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec
import numpy as np

#: bit generators of NumPy, whose whole state is what they say
_BIT_GENERATORS: Final = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
#: of `random.Random`: version, 625 words, whether there is a second value of `gauss`, that value
_RANDOM: Final = struct.Struct("<I625I?d")


def kind_of(value: Any) -> str | None:
    """Return the kind of a generator; None for another value, and for a class that derives from one."""
    if type(value) is random.Random:
        return "random.Random"
    torch = sys.modules.get("torch")
    if torch is not None and type(value) is torch.Generator:
        return f"torch.Generator:{value.device}"
    numpy_random = sys.modules.get("numpy.random")
    if numpy_random is None:
        return None
    if type(value) is numpy_random.RandomState and value._bit_generator.__class__.__name__ == "MT19937":
        return "numpy.RandomState"
    if type(value) is numpy_random.Generator:
        name = type(value.bit_generator).__name__
        return f"numpy.Generator:{name}" if name in _BIT_GENERATORS else None
    return None


def state_of(kind: str, generator: Any) -> bytes:
    """Return the state of a generator of this kind."""
    if kind == "random.Random":
        version, words, second = generator.getstate()
        return _RANDOM.pack(version, *words, second is not None, second or 0.0)
    if kind.startswith("torch"):
        return bytes(generator.get_state().numpy().data)
    state = generator.get_state(legacy=False) if kind == "numpy.RandomState" else generator.bit_generator.state
    return msgspec.msgpack.encode(_plain(state))


def set_state(kind: str, generator: Any, state: bytes) -> None:
    """Give a generator of this kind the state of another. Raises ValueError if it is no such state."""
    try:
        if kind == "random.Random":
            version, *words, has_second, second = _RANDOM.unpack(state)
            generator.setstate((version, tuple(words), second if has_second else None))
        elif kind.startswith("torch"):
            torch: Any = sys.modules["torch"]
            generator.set_state(torch.frombuffer(bytearray(state), dtype=torch.uint8))
        elif kind == "numpy.RandomState":
            generator.set_state(_of_plain(msgspec.msgpack.decode(state)))
        else:
            generator.bit_generator.state = _of_plain(msgspec.msgpack.decode(state))
    except (struct.error, msgspec.MsgspecError, TypeError, KeyError, RuntimeError, OverflowError) as error:
        raise ValueError(f"{kind}: no state of such a generator: {error}") from None


def make(kind: str, state: bytes) -> Any:
    """Make a generator with this state. Raises ValueError if there is no such kind here, or if it is no such state."""
    maker = _MAKERS.get(kind.partition(":")[0])
    if maker is None:
        raise ValueError(f"{kind} is no generator that is known here")
    generator = maker(kind.partition(":")[2])
    set_state(kind, generator, state)
    return generator


def _numpy_generator(name: str) -> Any:
    if name not in _BIT_GENERATORS:
        raise ValueError(f"NumPy has no bit generator {name}")
    return np.random.Generator(getattr(np.random, name)(0))


def _torch_generator(device: str) -> Any:
    torch: Any = sys.modules.get("torch")
    if torch is None:
        raise ValueError("torch is not imported here")
    try:
        return torch.Generator(device)
    except RuntimeError as error:  # no such device
        raise ValueError(str(error).partition("\n")[0]) from None


_MAKERS: Final[Mapping[str, Callable[[str], Any]]] = {
    "random.Random": lambda _: random.Random(0),  # nosec B311 - an author's, not a secret
    "numpy.RandomState": lambda _: np.random.RandomState(0),
    "numpy.Generator": _numpy_generator,
    "torch.Generator": _torch_generator,
}


def of_process() -> dict[str, tuple[str, Any]]:
    """Return the generators that the whole process shares, of modules that are imported: name -> kind, generator.

    With several sessions they are nobody's, since to set them for one disturbs the others.
    """
    found: dict[str, tuple[str, Any]] = {"random": ("random.Random", random)}
    if "numpy.random" in sys.modules:
        found["numpy.random"] = ("numpy.RandomState", np.random)
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        found["torch"] = ("torch.Generator:cpu", torch.default_generator)
        if torch.cuda.is_initialized():
            device = torch.cuda.current_device()
            found["torch.cuda"] = (f"torch.Generator:cuda:{device}", torch.cuda.default_generators[device])
    return found


def _plain(state: Any) -> Any:
    """Return a state of NumPy as MessagePack has it: arrays as bytes and numbers of 128 bits as text."""
    if isinstance(state, dict):
        return {key: _plain(value) for key, value in state.items()}
    if isinstance(state, np.ndarray):
        return {"dtype": state.dtype.str, "data": state.tobytes()}
    if type(state) is int and state >> 63:
        return {"int": hex(state)}
    return state.item() if isinstance(state, np.generic) else state


def _of_plain(state: Any) -> Any:
    if not isinstance(state, dict):
        return state
    if state.keys() == {"dtype", "data"}:
        dtype = np.dtype(state["dtype"])
        if dtype.hasobject:
            raise ValueError("an array of objects")
        return np.frombuffer(state["data"], dtype).copy()
    if state.keys() == {"int"}:
        return int(state["int"], 16)
    return {key: _of_plain(value) for key, value in state.items()}


