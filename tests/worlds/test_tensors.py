"""Tensors of torch in a world: layouts, dtypes, memory that is shared, writing in place (rows 4 and 5 of worlds.md)."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

from reactor_trio.errors import CommandError
from reactor_trio.worlds.put import prepare
from tests.worlds.kit import back, captured, model_of, put

DTYPES = [
    torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2, torch.complex64,
    torch.uint8, torch.int8, torch.int16, torch.int64, torch.bool, torch.uint16,
]  # fmt: skip


def bits(tensor: torch.Tensor) -> bytes:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(), (0, 3), (5,), (2, 3, 4)], ids=str)
def test_each_dtype_comes_back_bit_by_bit(dtype, shape):
    given = (torch.rand(shape, generator=torch.Generator().manual_seed(1)) * 9).to(dtype)
    found = back(given)
    assert (found.dtype, found.shape, found.stride()) == (dtype, given.shape, given.stride())
    assert bits(found) == bits(given)
    assert given.numel() == 0 or found.data_ptr() != given.data_ptr()


@pytest.mark.parametrize(
    "change",
    [
        lambda t: t.t(), lambda t: t[1:], lambda t: t[:, ::2], lambda t: t.expand(2, 4, 6), lambda t: t.flip(0),
        lambda t: t.to(torch.bfloat16)[1:, 1:],
    ],
)  # fmt: skip
def test_each_layout_comes_back(change):
    given = change(torch.arange(24.0).reshape(4, 6))
    found = back(given)
    assert torch.equal(found, given)
    assert (found - 1).sum() == (given - 1).sum()


def test_a_tensor_its_alias_its_views_and_an_array_of_its_memory_share_it_again():
    whole = torch.arange(24.0).reshape(4, 6)
    found = back([whole, whole, whole[1], whole.view(torch.int32), whole.numpy(), whole.t().detach()])
    assert found[0] is found[1]
    found[0][1, 5] = 99
    assert found[2][5] == found[3].view(torch.float32)[1, 5] == found[4][1, 5] == found[5][5, 1] == 99
    array = np.arange(8, dtype=np.uint8)
    odd = array[1:5]
    found = back([odd, torch.from_numpy(array)[4:]])  # the array is the lowest, at an odd address
    found[1][0] = 77
    assert found[0].tolist() == [1, 2, 3, 77]


def test_a_tensor_between_bytes_of_others_takes_none_of_them():
    batch = torch.full((4, 3), 7, dtype=torch.uint8)
    batch[:, 1] = 1
    model = model_of()
    model.state._value = [batch[:, 1], batch[1:3, 1]]
    (buffer,) = captured(model).blobs.values()
    assert sorted(set(buffer.data.tolist())) == [0, 1]


def test_tensors_of_inference_mode_are_captured_put_and_written_in_place():
    model = model_of("thing.part[...]")
    with torch.inference_mode():
        live = model.thing.part = [(torch.zeros(3), torch.zeros(2, 2).t()), 5]
        model.state._value = torch.ones(2)
    address = live[0][0].data_ptr()
    world = captured(model)
    with torch.inference_mode():
        live[0][0].add_(1)
        live[0][1].add_(1)
        live[1] = 6
    put(model, world)
    assert model.thing.part is live
    assert live[0][0].data_ptr() == address
    assert [live[0][0].sum().item(), live[0][1].sum().item(), live[1]] == [0, 0, 5]
    model.state._value.add_(1)  # what is new was not made in inference mode, and may be changed anywhere
    with torch.inference_mode():
        put(model, world)
    model.state._value.add_(1)


@pytest.mark.parametrize("then", [torch.zeros(4), torch.zeros(3, dtype=torch.float16), 5])
def test_a_tensor_that_does_not_fit_in_place_changes_nothing(then):
    model = model_of("thing.part[...]")
    model.thing.part = torch.zeros(3)
    world = captured(model)
    model.thing.part = then
    with pytest.raises(CommandError, match="in place"):
        prepare(model, world, alone=False)


def test_generators_of_torch_go_on_in_place_and_those_of_the_process_when_a_session_is_alone():
    model = model_of()
    die = model.state._value = torch.Generator().manual_seed(3)
    world = captured(model, alone=True)
    expected = torch.rand(2, generator=die), torch.rand(2)
    put(model, world, alone=True)
    assert model.state._value is die
    assert torch.equal(torch.rand(2, generator=die), expected[0])
    assert torch.equal(torch.rand(2), expected[1])
    fresh = type(model)()
    put(fresh, world)
    assert torch.equal(torch.rand(2, generator=fresh.state._value), expected[0])


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (torch.zeros(2).to_sparse(), "sparse, quantized, nested or without data is no value"),
        (torch.zeros(2, device="meta"), "sparse, quantized, nested or without data is no value"),
        (torch.zeros(2, requires_grad=True), r"records gradients cannot be saved; make it under torch\.inference_mode"),
        (torch.zeros(2, dtype=torch.complex64).conj(), r"conjugated view of a tensor cannot be saved; write \.resolve_conj"),
        (torch.nn.Parameter(torch.zeros(2)), "Parameter: only plain tensors are values, and weights are no part of a world"),
        (torch.nn.Linear(1, 1), r"Linear is no value that can be saved: name its parts in Saves\(\.\.\.\)"),
    ],
)
def test_a_tensor_outside_the_list_says_what_to_do(value, said):
    with pytest.raises(CommandError, match=said) as raised:
        back(value)
    assert raised.value.code == "cannot_save"


def test_a_device_that_is_not_here_is_named():
    model = model_of()
    model.state._value = torch.zeros(2)
    world = captured(model)
    world.values["state._value"].device = "cuda:0"
    if torch.cuda.is_available():
        pytest.skip("this machine has the device")
    with pytest.raises(CommandError, match=r"state\._value: it was on the device cuda:0, and there is none here"):
        put(model, world)
