"""Memory of arrays and tensors: where it lies, copies of it, and fresh arrays of a copy.

Arrays whose memory overlaps are copied as one buffer, so that they share memory again when they are put. Addresses say
what overlaps, since an array does not know its other views, and a tensor may share an array's memory. An array that did not
change since the last capture is not copied again: its bytes are compared with the last copy, which costs half of a copy.
(Counters of changes miss writes through `.data` and NumPy.)
"""

from __future__ import annotations

import ctypes
import operator
import sys
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import numpy as np

from reactor_trio.worlds.nodes import Array, Buffer, Tensor

_ALIGNMENT: Final = 64
_PLACE: Final = operator.attrgetter("device", "low")
_compare: Final = ctypes.CDLL(None).memcmp
_compare.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
#: device, lowest address, size
_Key = tuple[str, int, int]


class Live(msgspec.Struct, eq=False):
    """A live array or tensor whose memory is still to be copied: its node, where its first value is, and where it lies."""

    value: Any
    node: Array | Tensor
    device: str
    at: int
    low: int
    high: int
    nbytes: int


def live_array(array: np.ndarray[Any, Any]) -> Live:
    """Describe a NumPy array."""
    at, size, flags = address_of(array), array.nbytes, array.flags
    node = Array(array.dtype, array.shape, array.strides, flags.writeable)
    low, high = (at, at + size) if flags.c_contiguous else bounds(at, array.shape, array.strides, array.itemsize)
    return Live(array, node, "cpu", at, low, high, size)


def live_tensor(tensor: Any) -> Live:
    """Describe a torch tensor with strides."""
    size, device = tensor.element_size(), str(tensor.device)
    shape, strides = tuple(tensor.shape), tuple(tensor.stride())
    node = Tensor(str(tensor.dtype).removeprefix("torch."), size, shape, strides, device)
    at = tensor.data_ptr()
    low, high = bounds(at, shape, tuple(stride * size for stride in strides), size)
    return Live(tensor, node, device, at, low, high, tensor.numel() * size)


def bounds(address: int, shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> tuple[int, int]:
    """Return the lowest address of an array and the first one behind it."""
    low = high = address
    if 0 in shape:
        return low, high
    for length, stride in zip(shape, strides, strict=True):
        if stride < 0:
            low += (length - 1) * stride
        else:
            high += (length - 1) * stride
    return low, high + itemsize


class Copies:
    """The copies of one capture after another, of one model: what did not change since the last one is not copied again."""

    def __init__(self) -> None:
        #: with the addresses of the copies
        self._last: dict[_Key, tuple[Buffer, int]] = {}

    def fill(self, living: list[Live]) -> list[Buffer]:
        """Copy the memory of all arrays of a capture, and tell their nodes where in which buffer they lie."""
        made: dict[_Key, tuple[Buffer, int]] = {}
        for group in _overlapping(living):
            first = group[0]
            high = first.high if len(group) == 1 else max(each.high for each in group)
            key = first.device, first.low, high - first.low
            low, size = first.low, high - first.low
            if len(group) == 1 and size > first.nbytes:  # the bytes between are another's
                first.value = _without_gaps(first)
                first.at = low = address_of(first.value)
                size = first.nbytes
            made[key] = kept = self._copied(key, group, low, size)
            for each in group:
                each.node.offset, each.node.buffer = each.at - low, kept[0]
        self._last = made
        return list({id(buffer): buffer for buffer, _ in made.values()}.values())

    def _copied(self, key: _Key, group: list[Live], low: int, size: int) -> tuple[Buffer, int]:
        """Return the last copy of this memory if it still has the same bytes, else a new one, and where it is."""
        phase, tensors = low % _ALIGNMENT, any(isinstance(each.node, Tensor) for each in group)
        data: np.ndarray[Any, Any] | None = None
        if key[0] != "cpu":
            data = _from_device(group[0].value, low, size)
        if len(group) > 1 and any(each.high - each.low > each.nbytes for each in group):
            data = _only_theirs(group, low, _copy(low, size, phase) if data is None else data)
        last = self._last.get(key)
        if last is not None and (last[0].phase, last[0].tensors, len(last[0].data)) == (phase, tensors, size):
            address = low if data is None else address_of(data)
            if _compare(address, last[1], size) == 0:
                return last
        if data is None:
            data = _copy(low, size, phase)
        return Buffer(data, phase, key[0], tensors), address_of(data)


def address_of(value: Any) -> int:
    """Return where the first value of an array or tensor lies."""
    return int(value.__array_interface__["data"][0] if isinstance(value, np.ndarray) else value.data_ptr())


def _overlapping(living: list[Live]) -> Iterator[list[Live]]:
    """Yield the arrays in groups that share memory, each group from its lowest address on."""
    group: list[Live] = []
    device, high = "", 0
    for each in sorted(living, key=_PLACE):
        if group and each.device == device and each.low < high:
            group.append(each)
            high = max(high, each.high)
            continue
        if group:
            yield group
        group, device, high = [each], each.device, each.high
    if group:
        yield group


def _without_gaps(live: Live) -> Any:
    """Return a contiguous copy, and note its strides."""
    if isinstance(live.node, Tensor):
        dense = live.value.contiguous()
        live.node.strides = tuple(dense.stride())
        return dense
    dense = np.ascontiguousarray(live.value)
    live.node.strides = dense.strides
    return dense


def _copy(address: int, size: int, phase: int) -> np.ndarray[Any, Any]:
    """Copy memory of the host."""
    room = _room(size, phase)
    ctypes.memmove(address_of(room), address, size)
    return room


def _room(size: int, phase: int) -> np.ndarray[Any, Any]:
    """Return that many bytes of new memory, aligned as the original was."""
    whole = np.empty(size + _ALIGNMENT, np.uint8)
    start = (phase - address_of(whole)) % _ALIGNMENT
    return whole[start : start + size]


def _from_device(tensor: Any, low: int, size: int) -> np.ndarray[Any, Any]:
    """Copy memory of a device, from `low` on, to the host. The tensor lies in it."""
    torch: Any = sys.modules["torch"]
    begin = low - tensor.data_ptr() + tensor.storage_offset() * tensor.element_size()
    with torch.inference_mode():
        there = torch.empty(0, dtype=torch.uint8, device=tensor.device)
        there.set_(tensor.untyped_storage(), begin, (size,), (1,))
        copied: np.ndarray[Any, Any] = there.cpu().numpy()
    return copied


def _only_theirs(group: list[Live], low: int, data: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Set to 0 what lies between the arrays of a group: it is no part of this world, and may be another session's."""
    theirs = np.zeros(len(data), np.uint8)
    for each in group:
        tensor = isinstance(each.node, Tensor)
        size = each.value.element_size() if tensor else each.value.itemsize
        strides = tuple(stride * size for stride in each.node.strides) if tensor else each.node.strides
        if 0 not in each.node.shape:
            np.ndarray((*each.node.shape, size), np.uint8, theirs, each.at - low, (*strides, 1))[...] = 1
    data *= theirs
    return data


class FreshArrays:
    """New arrays of captured nodes. Each buffer is copied once, however many arrays lie in it."""

    def __init__(self) -> None:
        self._rooms: dict[int, Any] = {}

    def array(self, node: Array) -> np.ndarray[Any, Any]:
        """Make the array of a node."""
        if 0 in node.shape:
            array: np.ndarray[Any, Any] = np.empty(node.shape, node.dtype)
        else:
            array = np.ndarray(node.shape, node.dtype, self._host(_filled(node)), node.offset, node.strides)
        array.flags.writeable = node.writeable
        return array

    def tensor(self, node: Tensor) -> Any:
        """Make the tensor of a node. Raises ValueError if this process has no such device or dtype."""
        torch = _torch()
        dtype = getattr(torch, node.dtype, None)
        if not isinstance(dtype, torch.dtype):
            raise ValueError(f"torch {torch.__version__} has no dtype {node.dtype}")
        if dtype.itemsize != node.itemsize:
            raise ValueError(f"a value of {node.dtype} has {dtype.itemsize} bytes here, and had {node.itemsize}")
        buffer, device = _filled(node), _device(torch, node.device)
        with torch.inference_mode(mode=False):
            if id(buffer) not in self._rooms:
                room = torch.empty(buffer.phase + buffer.data.nbytes, dtype=torch.uint8, device=device)
                room[buffer.phase :].copy_(torch.from_numpy(buffer.data))
                self._rooms[id(buffer)] = room
            storage = self._rooms[id(buffer)].untyped_storage()
            begin = (buffer.phase + node.offset) // node.itemsize
            return torch.empty(0, dtype=dtype, device=device).set_(storage, begin, node.shape, node.strides)

    def _host(self, buffer: Buffer) -> np.ndarray[Any, Any]:
        """Return the fresh copy of a buffer of the host; if tensors lie in it too, torch allocates it."""
        if id(buffer) not in self._rooms:
            if buffer.tensors:
                torch = _torch()
                self._rooms[id(buffer)] = torch.empty(buffer.phase + buffer.data.nbytes, dtype=torch.uint8)
                self._rooms[id(buffer)][buffer.phase :].copy_(torch.from_numpy(buffer.data))
            else:
                self._rooms[id(buffer)] = _copy(address_of(buffer.data), buffer.data.nbytes, buffer.phase)
        room = self._rooms[id(buffer)]
        if buffer.tensors:
            room = room.numpy()[buffer.phase :]
        return room  # type: ignore[no-any-return]


def _torch() -> Any:
    torch = sys.modules.get("torch")
    if torch is None:
        raise ValueError("it is a torch tensor, and torch is not imported here")
    return torch


def _filled(node: Array | Tensor) -> Buffer:
    assert node.buffer is not None
    return node.buffer


def _device(torch: Any, name: str) -> Any:
    """Return the device of that name; if there are fewer of them here, the current one of its kind."""
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ValueError(f"it was on the device {name}, which torch does not know here") from None
    if device.type == "cpu":
        return device
    backend = getattr(torch, device.type, None)
    if backend is None or not hasattr(backend, "is_available") or not backend.is_available():
        raise ValueError(f"it was on the device {name}, and there is none here")
    if device.index is not None and device.index >= backend.device_count():
        return torch.device(device.type, backend.current_device())
    return device
