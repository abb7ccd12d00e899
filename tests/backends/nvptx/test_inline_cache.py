"""Inline caches on their own: which calls they take, and what becomes of the others."""

from __future__ import annotations

import functools
import gc
import math
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import tile
from tests.runtime.fake_torch import Parameter, Tensor, aligned, install
from tile.backends.capabilities import ArgumentGuard, CallGuards
from tile.backends.nvptx.inline_cache import inline_cache
from tile.runtime.call_guards import (
    constant_guard,
    descriptor_guard,
    field_guards,
    integer_guard,
    passed_guard,
    tensor_guard,
)
from tile.runtime.grid import LIMITS
from tile.runtime.specialize import Rule

KERNEL = object()
CONSTANTS = {"num_warps": 4, "D": 3}
RULE = Rule("n")


@pytest.fixture(autouse=True)
def torch(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)


class Calls:
    """An inline cache of an entry, and what was called."""

    def __init__(
        self, guards: Sequence[ArgumentGuard | None], names: tuple[str, ...] = (), **more: Any
    ) -> None:
        self.runs: list[tuple[Any, ...]] = []
        self.notes: list[tuple[Any, ...]] = []
        self.misses: list[Any] = []
        self.result: Any = True
        given = CallGuards(
            LIMITS,
            more.get("states", ()),
            more.get("readings", ()),
            names,
            tuple(one for one in guards if one is not None),
            CONSTANTS,
            more.get("fields", ()),
            more.get("pairs", ()),
            more.get("length"),
        )
        self.launch = inline_cache(given, self.note, self.run, KERNEL, self.otherwise)

    def note(self, *tensors: Any) -> None:
        self.notes.append(tensors)

    def run(self, *values: Any) -> Any:
        self.runs.append(values)
        if isinstance(self.result, Exception):
            raise self.result
        return self.result

    def otherwise(self, *args: Any, **kwargs: Any) -> str:
        self.misses.append((args, kwargs))
        return "otherwise"

    def hits(self, *args: Any, grid: Any = (3,), **kwargs: Any) -> bool:
        """Call, and return True if the cache took the call."""
        self.misses.clear()
        result = self.launch(grid, *args, **kwargs)
        if result is KERNEL:
            assert not self.misses
            return True
        assert result == "otherwise" and self.misses == [((grid, *args), kwargs)]
        return False


def tensor(offset: int = 0) -> Tensor:
    return Tensor(aligned(64)[offset:])


def test_a_call_with_all_kinds_of_arguments() -> None:
    x = tensor()
    guards = [
        tensor_guard("x", x),
        integer_guard(RULE, "n", 5),
        passed_guard("p", 1.5),
        passed_guard("p", True),
    ]
    calls = Calls([*guards, constant_guard("C", 64)], ("BLOCK",))
    y = tensor()
    assert calls.hits(y, 7, 2.5, False, BLOCK=64, grid=(3, 4))
    assert calls.runs == [(3, 4, 1, y.data_ptr(), 7, 2.5, False)] and calls.notes == [(y,)]
    assert not calls.hits(y, 7, 2.5, False, BLOCK=65)
    assert not calls.hits(y, 7, 2.5, 0, BLOCK=64)
    assert not calls.hits(y, 7, 2, False, BLOCK=64)
    assert not calls.hits(y, 7, 2.5, False)
    assert not calls.hits(y, 7, 2.5, False, 64)
    assert not calls.hits(y, 7, 2.5, False, BLOCKS=64)
    assert not calls.hits(y, 7, 2.5, False, BLOCK=64, other=1)
    assert len(calls.runs) == 1


def test_tensors() -> None:
    """A tensor has the same type, dtype and device, and an aligned address."""
    x = tensor()
    calls = Calls([tensor_guard("x", x)])
    assert calls.hits(x) and calls.hits(tensor())
    assert tensor_guard("x", tensor(1)) is None and not calls.hits(tensor(1))
    assert not calls.hits(None) and not calls.hits(x.data_ptr())
    other = Tensor(aligned(64).astype("int32"))
    assert not calls.hits(other)


def test_a_tensor_of_another_device(monkeypatch: pytest.MonkeyPatch) -> None:
    x = tensor()
    calls = Calls([tensor_guard("x", x)])
    monkeypatch.setattr(Tensor, "get_device", lambda self: 5)
    calls = Calls([ArgumentGuard("tensor", "x", Tensor, x.dtype, 4)])
    assert not calls.hits(x)
    calls = Calls([ArgumentGuard("tensor", "x", Tensor, x.dtype, 5)])
    assert calls.hits(x)


@pytest.mark.parametrize("grid", [(1,), (2**31 - 1,), (1, 65535), (7, 2, 65535)])
def test_grids(grid: Any) -> None:
    calls = Calls([])
    assert calls.hits(grid=grid)
    assert calls.runs == [(*grid, 1, 1)[:3]]


WRONG_GRIDS = [
    *((), (1, 1, 1, 1), 1, [1], (0,), (-1,), (2**31,), (1, 65536), (1, 1, 65536), (1.0,), (True,)),
    *(None, (2**70,), (1, 0), len),
]


@pytest.mark.parametrize("grid", WRONG_GRIDS, ids=repr)
def test_other_grids_are_left_to_the_launch_function(grid: Any) -> None:
    calls = Calls([])
    assert not calls.hits(grid=grid) and not calls.runs


def described(shape: tuple[int, ...] = (8, 8), dtype: str = "float32", **more: Any) -> Any:
    array = aligned(math.prod(shape), np.dtype(dtype)).reshape(shape)
    return tile.TensorDescriptor.from_tensor(Tensor(array), [4, 4], **more)


def test_descriptors() -> None:
    """Other addresses hit, other fields of a descriptor or of its base do not."""
    one = described()
    guard = descriptor_guard("x", one)
    assert guard is not None
    calls = Calls([passed_guard("p", 1.5), guard], fields=field_guards(1, one))
    for x in (one, described()):
        assert calls.hits(0.5, x)
        assert calls.runs.pop() == (3, 1, 1, 0.5, x.base.data_ptr())
        assert calls.notes.pop() == (x.base,)
    changed = described()
    for name, value in [("shape", (8, 7)), ("strides", (16, 1)), ("block_shape", (4, 2))]:
        setattr(changed, name, value)
        assert not calls.hits(0.5, changed)
        setattr(changed, name, getattr(one, name))
        assert calls.hits(0.5, changed)
    others = [described((16, 8)), described(dtype="int32"), described(padding="nan"), one.base]
    assert not any(calls.hits(0.5, other) for other in others)
    changed.base = Parameter(changed.base.array)
    assert not calls.hits(0.5, changed)
    changed.base = None
    assert not calls.hits(0.5, changed)
    changed = described()
    changed.shape = [8, 8]
    assert not calls.hits(0.5, changed)
    calls = Calls([guard], fields=field_guards(0, changed))
    assert calls.hits(changed)
    changed.shape[1] = 7
    assert not calls.hits(changed)


def test_pairs_of_tensors_that_must_not_overlap() -> None:
    """The lower one ends where the other begins, or before; lengths are read once a call."""
    lengths: list[int] = []

    def length(tensor: Tensor) -> int:
        lengths.append(4 * (tensor.array.size - 1) + 4)
        return lengths[-1]

    memory = aligned(64)
    parts = [Tensor(memory[start : start + 16]) for start in (0, 16, 32)]
    guards = [tensor_guard(name, part) for name, part in zip("xyz", parts, strict=True)]
    grids: list[Any] = []

    def grid(meta: dict[str, Any]) -> Any:
        grids.append(meta)
        return (1,)

    calls = Calls(guards, pairs=((0, 2), (1, 2)), length=length)
    x, y, z = parts
    for order in ((x, y, z), (z, y, x), (y, x, z), (x, x, z), (z, z, x)):
        assert calls.hits(*order, grid=grid) and calls.notes.pop() == order
    longer, later = Tensor(memory[:20]), Tensor(memory[4:20])
    grids.clear()
    for order in ((x, y, x), (x, longer, y), (y, x, longer), (longer, x, y), (later, x, y)):
        assert not calls.hits(*order, grid=grid)
    assert not lengths and not grids and not calls.notes
    strided = Tensor(memory[:16:2])
    assert calls.hits(strided, x, y) and lengths == [32]
    calls = Calls(guards, pairs=((0, 2), (1, 2)), length=lambda tensor: 1 // 0)
    assert calls.hits(x, y, z) and not calls.hits(strided, x, y)


BOTH = (False, True)


def test_grid_functions() -> None:
    """They get the constants and the arguments that are parameters of the kernel."""
    metas: list[dict[str, Any]] = []

    def grid(meta: dict[str, Any]) -> Any:
        metas.append(meta)
        return (meta["n"] // 2, 2**20)[: meta["n"] - 9]

    x = tensor()
    guards = [tensor_guard("x", x), integer_guard(RULE, "n", 10), constant_guard("", 8)]
    calls = Calls(guards, ("num_ctas",))
    assert calls.hits(x, 10, num_ctas=8, grid=grid)
    assert calls.runs == [(5, 1, 1, x.data_ptr(), 10)]
    assert metas == [{**CONSTANTS, "x": x, "n": 10}] and CONSTANTS == {"num_warps": 4, "D": 3}
    assert not calls.hits(x, 14, num_ctas=8, grid=grid)  # 2**20 along the second axis
    assert not calls.hits(x, 10, num_ctas=7, grid=grid) and len(metas) == 2
    for wrong in (lambda meta: 5, lambda meta: [5], lambda meta: (), lambda meta: meta["M"]):
        assert not calls.hits(x, 10, num_ctas=8, grid=wrong)
    assert len(calls.runs) == 1


RULES = [Rule("n", ones=ones, alignment=aligned) for ones in BOTH for aligned in BOTH]
NUMBERS = [*range(-40, 70), 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**63, -(2**63) - 1, 2**70]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule.ones}{rule.alignment}")
def test_integers_have_the_key_of_the_entry(rule: Rule) -> None:
    """Those that a cache takes; it leaves -1 to the launch function."""

    def key(number: int) -> Any:
        if not -(2**31) <= number < 2**31:
            return "wide"
        return number == 1 and rule.ones, [number % n == 0 for n in (4, 8, 16)] * rule.alignment

    for first in (1, 2, 4, 8, 16, 48, 17, -1, 0):
        guard = integer_guard(rule, "n", first)
        assert guard is not None
        calls = Calls([guard])
        for number in NUMBERS:
            assert calls.hits(number) == (number != -1 and key(number) == key(first)), number
    assert integer_guard(rule, "n", 2**31) is None


def test_constants() -> None:
    """Equal ones of the same type; an error of a comparison is left to the launch function."""

    class Odd:
        def __eq__(self, other: object) -> bool:
            raise ValueError

        __hash__ = object.__hash__

    odd = Odd()
    for constant, equal, others in [
        (1000, int("1000"), (1001, 1000.0, True)),
        ("add", "".join(["a", "dd"]), ("sub", None)),
        (None, None, (0, False)),
        (True, True, (1, False)),
        (odd, odd, (Odd(), 1)),
    ]:
        calls = Calls([constant_guard("C", constant)])
        assert calls.hits(equal)
        assert not any(calls.hits(other) for other in others)


def test_states_and_readings() -> None:
    cache, hooks, alive, text = {1: 2}, [], [True], "nvptx"
    texts = {"backend": text}
    states = ((cache, True), (hooks, False), (alive, True))
    calls = Calls([], states=states, readings=((functools.partial(texts.get, "backend"), text),))
    assert calls.hits()
    hooks.append(print)
    assert not calls.hits()
    hooks.clear()
    texts["backend"] = "interp"
    assert not calls.hits()
    del texts["backend"]
    assert not calls.hits()
    texts["backend"] = text
    assert calls.hits()
    alive.clear()
    assert not calls.hits()


def test_errors() -> None:
    """An error of a note or a launch is cleared, and the launch function is called."""
    calls = Calls([])
    calls.result = False
    assert not calls.hits()
    calls.result = ValueError("of a launch")
    assert not calls.hits()
    calls.result = 1
    assert not calls.hits()

    def fail() -> None:
        raise ValueError("of a reading")

    assert not Calls([], readings=((fail, None),)).hits()
    x = tensor()
    calls = Calls([tensor_guard("x", x)])

    class Raising(Tensor):
        def data_ptr(self) -> int:
            raise ValueError("of a tensor")

    raising = Raising(aligned(64))
    calls = Calls([ArgumentGuard("tensor", "x", Raising, raising.dtype, raising.get_device())])
    assert not calls.hits(raising)
    given = CallGuards(LIMITS, (), (), (), (), CONSTANTS)
    with pytest.raises(ValueError, match="of a reading"):
        inline_cache(given, calls.note, calls.run, KERNEL, lambda *args: fail())(1)


def test_references() -> None:
    """Neither a hit nor a miss takes or drops one of its objects."""
    x, wide = tensor(), 2**20 + 4
    guards = [tensor_guard("x", x), integer_guard(RULE, "n", 4), constant_guard("C", "constant")]
    text = "nvptx" + str(x.data_ptr())
    d = described()
    guards.append(descriptor_guard("d", d))
    fields = field_guards(3, d)
    calls = Calls(guards, readings=((lambda: text, text),), fields=fields)
    grid = (2**20,)
    result = (2**20, 2**10)
    function, wrong = (lambda meta: result), (lambda meta: [])
    objects = [
        result,
        CONSTANTS,
        function,
        x,
        wide,
        grid,
        grid[0],
        text,
        x.dtype,
        KERNEL,
        True,
        None,
        1,
        calls.run,
        Tensor,
    ]
    gc.collect()  # what other tests have left
    before = [sys.getrefcount(one) for one in objects]
    for _ in range(1000):
        calls.launch(grid, x, wide, "constant", d)
        calls.launch(function, x, wide, "constant", d)
        calls.launch(wrong, x, wide, "constant", d)
        calls.launch(grid, x, wide, "other", d)
        calls.launch(grid, x, 3, "constant", d)
        calls.launch(grid, x, wide, "constant", objects[4])
    calls.runs.clear()
    calls.notes.clear()
    calls.misses.clear()
    after = [sys.getrefcount(one) for one in objects]
    changes = [now - earlier for earlier, now in zip(before, after, strict=True)]
    assert max(map(abs, changes)) < 100
    counts = [sys.getrefcount(text)]
    calls.launch = None
    gc.collect()
    counts.append(sys.getrefcount(text))
    assert counts[1] < counts[0]
