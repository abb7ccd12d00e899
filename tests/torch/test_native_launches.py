"""Launches that read PyTorch's tensors by their handles, without a GPU."""

from __future__ import annotations

import copy
import gc
import pickle
import sys
import weakref
from typing import Any

import pytest
import torch

import tile
from tests.backends.nvptx.test_inline_cache import Calls
from tile.backends.nvptx.address_reader import address_reader
from tile.backends.nvptx.descriptor_maker import ENTRIES, descriptor_maker
from tile.backends.tensor_handles import tensor_kind
from tile.runtime.arguments import tensor_descriptor
from tile.runtime.call_guards import descriptor_guard, field_guards, tensor_guard

describe = tile.TensorDescriptor.from_tensor


def test_kinds_of_tensors() -> None:
    x = torch.zeros(8, 4)
    kind = tensor_kind(x)
    assert kind is not None and kind == tensor_kind(torch.ones(3)) == tensor_kind(x.t())
    assert kind == tensor_kind(torch.nn.Parameter(x))
    batched: list[Any] = []
    torch.vmap(lambda row: batched.append(tensor_kind(row)) or row)(x)
    others = x.double(), x.to_sparse(), x.to("meta"), x.int()
    assert kind not in [*map(tensor_kind, others), *batched]


def test_tensors() -> None:
    """A cache takes those of the same type, dtype and device at an aligned address."""
    x = torch.zeros(64)
    calls = Calls([tensor_guard("x", x)])
    y = torch.ones(4, 4)
    assert calls.hits(x) and calls.hits(y)
    assert calls.runs == [(3, 1, 1, one.data_ptr()) for one in (x, y)]
    assert calls.notes == [(x,), (y,)]
    others = x[1:], x.double(), x.to("meta"), x.to_sparse(), torch.nn.Parameter(x), None, 5
    assert not any(calls.hits(other) for other in others)
    hits: list[bool] = []
    torch.vmap(lambda row: hits.append(calls.hits(row)) or row)(y)
    assert hits == [False]
    calls = Calls([tensor_guard("x", torch.nn.Parameter(x))])
    assert calls.hits(torch.nn.Parameter(y)) and not calls.hits(y)


def test_descriptors() -> None:
    """And descriptors with the same fields, of tensors with the same shape and strides."""
    memory = torch.zeros(64, 8)
    d = describe(memory[:16], [4, 4])
    guard = descriptor_guard("x", d)
    calls = Calls([guard], fields=field_guards(0, d))
    other = describe(memory[16:32], [4, 4])
    assert calls.hits(d) and calls.hits(other)
    assert [run[3] for run in calls.runs] == [memory.data_ptr(), memory[16:].data_ptr()]
    for different in (memory[:15], memory[:16].double(), memory[:32:2], memory.view(-1), memory):
        changed = describe(memory[:16], [4, 4])
        changed.base = different
        assert not calls.hits(changed)
    for name in ("shape", "strides", "block_shape", "padding", "base"):
        changed = describe(memory[:16], [4, 4])
        setattr(changed, name, ())
        assert not calls.hits(changed)
        delattr(changed, name)
        assert not calls.hits(changed)
    base = memory[:16].clone()
    resized = describe(base, [4, 4])
    assert calls.hits(resized)
    base.resize_(4, 8)
    assert not calls.hits(resized)


def test_references() -> None:
    x = torch.zeros(16, 8)
    d = describe(x, [4, 4])
    calls = Calls([tensor_guard("x", x), descriptor_guard("d", d)], fields=field_guards(1, d))
    objects = [x, d, d.shape, d.block_shape]
    before = [sys.getrefcount(one) for one in objects]
    for _ in range(1000):
        calls.launch((3,), x, d)
        calls.launch((3,), x, x)
    calls.runs.clear()
    calls.notes.clear()
    calls.misses.clear()
    after = [sys.getrefcount(one) for one in objects]
    assert max(abs(x - y) for x, y in zip(before, after, strict=True)) < 100


# -- descriptors that machine code makes


@pytest.fixture
def making(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Let descriptors be made by a maker of this test."""
    making = tensor_descriptor._Making()
    making.maker_of = descriptor_maker
    monkeypatch.setattr(tensor_descriptor, "_making", making)
    return making


CASES = [
    (torch.zeros(16, 8), [4, 4], "zero"),
    (torch.zeros(16, 8), (4, 4), "nan"),
    (torch.zeros(8, 16).t().contiguous(), [16, 4], "zero"),
    (torch.zeros(16, 8, dtype=torch.float16), [2, 8], "zero"),
    (torch.nn.Parameter(torch.zeros(16, 8)), [4, 4], "zero"),
    (torch.zeros(1, 16, 1, 8)[:, ::2], [1, 2, 1, 4], "zero"),
    (torch.zeros(64), [4], "zero"),
]


def test_made_descriptors_are_like_those_of_from_tensor(making: Any) -> None:
    expected = [describe(*case) for case in CASES]
    for (tensor, block, padding), first in zip(CASES, expected, strict=True):
        made = making.make(tensor, block, padding)
        assert type(made) is tile.TensorDescriptor and made.base is tensor
        assert made.block_shape is block and made.padding == padding
        fields = made.shape, made.strides, made.round_f32_to_tf32
        assert fields == (first.shape, first.strides, False)
        again = describe(tensor, block, padding)
        assert again.base is tensor and again.shape is made.shape


def test_other_descriptors_are_not_made(making: Any) -> None:
    x = torch.zeros(16, 8)
    block = [4, 4]
    describe(x, block)
    assert making.make(x, block, "zero") is not None
    strided, narrow = torch.zeros(16, 16)[:, :8], torch.zeros(16, 4)
    others = x[:15], strided, narrow, x.double(), x.to("meta"), x.view(-1), torch.nn.Parameter(x)
    for other in (*others, x.to_sparse(), x.numpy(), None):
        assert making.make(other, block, "zero") is None
    for blocks in ([4, 8], [4], (4, 4), 4, None):
        assert making.make(x, blocks, "zero") is None
    assert making.make(x, block, "nan") is None
    block[0] = 8
    assert making.make(x, block, "zero") is None
    with pytest.raises(TypeError):
        making.make(x, block, padding="zero")


def test_errors_are_those_of_other_descriptors(making: Any) -> None:
    x = torch.zeros(16, 8)
    describe(x, [4, 4])
    for call in (
        lambda: describe(x[:, ::2], [4, 4]),
        lambda: describe(x, [4, 4, 4]),
        lambda: describe(x, [4, 4], "none"),
        lambda: describe(x, [4, 4], "zero", True),
        lambda: describe(x.to_sparse(), [4, 4]),
    ):
        with pytest.raises(tile.errors.ArgumentError):
            call()


def test_entries_are_bounded(making: Any) -> None:
    tensors = [torch.zeros(16 + at, 8) for at in range(2 * ENTRIES + 3)]
    for tensor in tensors:
        describe(tensor, [4, 4])
    assert [making.make(one, [4, 4], "zero") is None for one in tensors].count(False) == 3
    for _ in range(3):
        for tensor in tensors[-3:]:
            describe(tensor, [4, 4])
    assert making.make(tensors[-1], [4, 4], "zero") is not None


def test_made_descriptors_are_objects_like_others(making: Any) -> None:
    """They are collected, take other attributes, and are copied."""
    x = torch.zeros(16, 8)
    describe(x, [4, 4])
    gc.collect()
    made = making.make(x, [4, 4], "zero")
    objects = [x, made.shape, made.strides, made.padding]
    before = [sys.getrefcount(one) for one in objects]
    more = [making.make(x, [4, 4], "zero") for _ in range(1000)]
    during = [sys.getrefcount(one) for one in objects]
    more.clear()
    after = [sys.getrefcount(one) for one in objects]
    assert all(y - x >= 1000 for x, y in zip(before, during, strict=True)) and after == before
    made.name = "x"
    assert weakref.ref(made)() is made and made.name == "x"
    assert copy.copy(made) == made and pickle.loads(pickle.dumps(made)).shape == (16, 8)
    made.block_shape = cycle = [made]
    freed = weakref.ref(made)
    del made, cycle
    gc.collect()
    assert freed() is None


# -- addresses that machine code compares


def test_addresses_of_tensors() -> None:
    x, y, z = (torch.zeros(16) for _ in range(3))
    reader = address_reader((torch.Tensor, torch.nn.Parameter), x, 3)
    assert reader is not None and reader.read(x, y, z) is None
    addresses = tuple(one.data_ptr() for one in (x, y, z))
    reader.remember(addresses)
    for same in ((x, y, z), ([x, y], z), ((x,), (y, z)), ([], x, [y, torch.nn.Parameter(z)])):
        assert reader.read(*same) is addresses
    others: list[Any] = [(), (x,), (x, y), (x, z, y), (x, y, z, z), ([x, y, z], x), (x, y, z[1:])]
    others += [(x, y, None), ([x, y], None), ([x, [y, z]],), ({x, y, z},), (x, y, z.to_sparse())]
    assert not any(reader.read(*other) for other in others)
    rows: list[Any] = []
    torch.vmap(lambda row: rows.append(reader.read(x, y, row)) or row)(torch.zeros(2, 4))
    assert rows == [None]
    reader.remember(tuple(one.data_ptr() for one in (z, y, x)))
    assert reader.read(x, y, z) is None and reader.read(z, y, x) is not None


def test_references_of_addresses() -> None:
    tensors = [torch.zeros(16) for _ in range(3)]
    reader = address_reader((torch.Tensor, torch.nn.Parameter), tensors[0], 3)
    assert reader is not None
    addresses = tuple(one.data_ptr() for one in tensors)
    reader.remember(addresses)
    objects = [addresses, *tensors, None]
    before = [sys.getrefcount(one) for one in objects]
    for _ in range(1000):
        reader.read(tensors)
        reader.read(tensors, None)
    after = [sys.getrefcount(one) for one in objects]
    assert max(abs(x - y) for x, y in zip(before, after, strict=True)) < 100
    alive = weakref.ref(reader.read)
    del reader
    gc.collect()
    assert alive() is None
