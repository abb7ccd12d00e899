"""Calls of ops on a device's tensors, which one generated function repeats."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any, cast

import numpy as np
import pytest

import tile
import tile.ops
from tests.runtime.fake_torch import Parameter, Tensor, aligned
from tests.runtime.test_fast_path import Noting, install_noting
from tile.errors import ArgumentValueError
from tile.ops.core.call import Call
from tile.ops.lists.foreach import apply_kernel
from tile.ops.rowwise.softmax_kernels import softmax_kernel
from tile.runtime.callbacks import recorded_launches


@pytest.fixture
def noting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Noting]:
    backend = install_noting(monkeypatch)
    for op in (tile.ops.softmax, tile.ops.adamw, tile.ops.foreach_apply):
        cast(Any, op).plans.clear()
    for kernel in (softmax_kernel, apply_kernel):
        kernel.cache.clear()
    with tile.backend("nvptx:sm_90a"):
        yield backend


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of ops that checked their arguments."""
    names: list[str] = []
    init = Call.__init__
    monkeypatch.setattr(Call, "__init__", lambda call, op: (names.append(op), init(call, op))[1])
    return names


def rows(count: int = 4, shift: int = 0) -> Tensor:
    return Tensor(aligned(count * 20, shift=shift).reshape(count, 20))


def is_replay(op: Any) -> list[bool]:
    return [plan.__name__.endswith("replay") for plan in op.plans.values()]


def replayed(call: Any) -> None:
    """Call twice, after which a replay takes over."""
    for _ in range(2):
        call()


def test_a_replay_allocates_and_launches(noting: Noting, calls: list[str]) -> None:
    replayed(lambda: tile.ops.softmax(rows()))
    assert is_replay(tile.ops.softmax) == [True] and calls == ["softmax"]
    noting.repeats.clear()
    x = rows()
    results = [tile.ops.softmax(x) for _ in range(2)]
    grid, values = noting.repeats[0]
    assert [one[1][:2] for one in noting.repeats] == [
        (x.data_ptr(), result.data_ptr()) for result in results
    ]
    assert values[2:] == (20, 20, 4, 20) and all(repeat[0] == grid for repeat in noting.repeats)
    assert results[0].shape == x.shape and results[0]._version == 0
    assert tile.ops.softmax(Parameter(x.array)).shape == x.shape
    assert calls == ["softmax", "softmax"], "another type of an argument is another reader"


def test_what_a_replay_relies_on(noting: Noting, calls: list[str], monkeypatch) -> None:
    """Launches at other addresses, after changes, and that are watched go other ways."""
    replayed(lambda: tile.ops.softmax(rows()))
    before, launched = len(noting.repeats), len(noting.launches)
    tile.ops.softmax(rows(shift=1))
    assert (len(noting.repeats), len(noting.launches)) == (before, launched + 1)
    with recorded_launches() as watched:
        tile.ops.softmax(rows())
    assert len(watched) == 1 and len(noting.repeats) == before
    seen: list[Any] = []
    softmax_kernel.add_pre_run_hook(lambda *args, **options: seen.append(args))
    tile.ops.softmax(rows())
    assert len(seen) == 1 and len(noting.repeats) == before
    softmax_kernel.pre_run_hooks.clear()
    tile.ops.softmax(rows())
    assert len(noting.repeats) == before + 1
    softmax_kernel.cache.clear()
    launched = len(noting.launches)
    tile.ops.softmax(rows())
    assert len(noting.launches) == launched + 1 and softmax_kernel.cache
    before = len(noting.repeats)
    for count in (1, 2):
        tile.ops.softmax(rows())
        assert len(noting.repeats) == before + count
    replay: Any
    (replay,) = tile.ops.softmax.plans.values()  # type: ignore[attr-defined]
    alive = [value for name, value in replay.__globals__.items() if "alive" in name]
    assert alive == [[True]], "a replay of what was compiled anew"
    noting.ready = False
    tile.ops.softmax(rows())
    assert len(noting.launches) == launched + 2
    assert calls == ["softmax"]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_arrays_to_write(noting: Noting, calls: list[str], order: tuple[int, int]) -> None:
    x = rows()
    ways = [lambda: tile.ops.softmax(x, out=rows()), lambda: tile.ops.softmax(x, out=x)]
    for at in order:
        replayed(ways[at])
    assert is_replay(tile.ops.softmax) == [True, True] and len(calls) == 2
    out = rows()
    for target in (out, x):
        before = target._version
        assert tile.ops.softmax(x, out=target) is target
        assert target._version == before + 1
        assert noting.repeats[-1][1][:2] == (x.data_ptr(), target.data_ptr())
    memory = aligned(400)
    whole, shifted = (Tensor(memory[at : at + 80].reshape(4, 20)) for at in (0, 20))
    assert len(calls) == 2
    with pytest.raises(ArgumentValueError, match="`out` shares memory with `x`"):
        tile.ops.softmax(whole, out=shifted)
    tile.ops.softmax(whole, out=Tensor(whole.array))  # the same memory
    assert len(calls) == 3


def test_numbers_that_vary(noting: Noting, calls: list[str]) -> None:
    state = [rows() for _ in range(4)]
    for step in (1, 2):
        tile.ops.adamw(*state, step, 0.1)
    assert is_replay(tile.ops.adamw) == [True] and calls == ["adamw"]
    tile.ops.adamw(*state, 3, 0.25)
    values = noting.repeats[-1][1]
    assert values[:6] == (*(one.data_ptr() for one in state), 80, 0.25)
    np.testing.assert_allclose(values[6:], (1 / (1 - 0.9**3), 1 / (1 - 0.999**3)))
    with pytest.raises(ArgumentValueError, match="`step` is 0"):
        tile.ops.adamw(*state, 0, 0.1)


# -- lists


def lists(count: int, shift: int = 0) -> list[Tensor]:
    return [Tensor(aligned(64 + at, shift=shift)) for at in range(count)]


def addresses(tensors: list[Tensor]) -> list[int]:
    return [one.data_ptr() for one in tensors]


@pytest.mark.parametrize("kind", [list, tuple])
def test_lists_are_replayed(noting: Noting, calls: list[str], kind: Any) -> None:
    def call(out: Any = None) -> Any:
        return tile.ops.foreach_apply("add", kind(xs), kind(ys), 0.5, out=out)

    for _ in range(4):
        xs, ys = lists(72), lists(72)
        noting.repeats.clear()
        results = call()
    assert is_replay(tile.ops.foreach_apply) == [True] and calls == ["foreach_apply"]
    first, second = (values for _, values in noting.repeats)
    assert [*first[:192]] == [
        *addresses(xs[:64]),
        *addresses(ys[:64]),
        *addresses([*results[:64]]),
    ]
    assert [*second[:24]] == [
        *addresses(xs[64:]),
        *addresses(ys[64:]),
        *addresses([*results[64:]]),
    ]
    assert first[-1] == second[-1] == 0.5
    assert tile.ops.foreach_apply("add", kind(xs), kind(ys), 2.0) and len(calls) == 1
    assert noting.repeats[-1][1][-1] == 2.0, "alpha is not part of the key"
    ys[7] = Tensor(aligned(70))
    with pytest.raises(ArgumentValueError, match=r"`ys\[7\]` has shape \(70,\)"):
        call()


def test_lists_that_are_written(noting: Noting, calls: list[str]) -> None:
    noting.specializes_noalias = True
    xs, ys = lists(12), lists(12)

    def call(out: Any) -> Any:
        return tile.ops.foreach_apply("add", xs, ys, out=out)

    for out in (xs, [*xs], xs, ys, ys, lists(12), lists(12)):
        call(out)
    assert is_replay(tile.ops.foreach_apply) == [True] * 3 and len(calls) == 3
    apart = lists(12)
    for out in (xs, ys, apart):
        before = [one._version for one in out]
        assert call(out) == tuple(out)
        assert [one._version for one in out] == [count + 1 for count in before]
        assert [*noting.repeats[-1][1][:48]] == [
            *(one for some in (xs, ys, out) for one in [*addresses(some), *addresses(some[:1]) * 4])
        ]
    assert len(calls) == 3
    mixed = [*apart[:11], xs[11]]  # one of them in place
    call(mixed)
    assert len(calls) == 3
    for wrong in ([*apart[:11], xs[3]], [*apart[:11], Tensor(xs[11].array[4:])]):
        with pytest.raises(ArgumentValueError, match=r"`out\[11\]`"):
            call(wrong)
    memory = aligned(132)
    with pytest.raises(ArgumentValueError, match=r"`out\[4\]` shares memory with `out\[3\]`"):
        call([*apart[:3], Tensor(memory[:67]), Tensor(memory[64:]), *apart[5:]])
    apart[5].requires_grad = True
    count = len(noting.repeats), len(noting.launches)
    with pytest.raises(ArgumentValueError, match="requires a gradient"):
        call(apart)
    assert (len(noting.repeats), len(noting.launches)) == count


def test_a_list_with_arrays_of_another_device(noting: Noting, calls: list[str]) -> None:
    replayed(lambda: tile.ops.foreach_apply("scale", lists(3)))
    xs = [Tensor(one.array, 1) for one in lists(3)]
    tile.ops.foreach_apply("scale", xs)
    assert len(calls) == 2
    with pytest.raises(ArgumentValueError, match="on one device"):
        tile.ops.foreach_apply("scale", [*lists(2), xs[2]])


def test_errors_of_a_call_name_the_op(noting: Noting) -> None:
    with pytest.raises(TypeError, match=r"softmax\(\) missing 1 required positional argument"):
        tile.ops.softmax()  # type: ignore[call-arg]
    assert sys.modules["torch"].Tensor is Tensor


def test_a_list_that_is_known_not_to_require_gradients(noting: Noting, calls: list[str]) -> None:
    """Which tensors of a list require one is part of the key: launches do not ask again."""
    xs, out = lists(3), lists(3)
    for _ in range(3):
        tile.ops.foreach_apply("scale", xs, alpha=2.0, out=out)
    (replay,) = cast(Any, tile.ops.foreach_apply).plans.values()
    assert not [name for name in replay.__globals__ if "note" in name]
    for _ in range(3):
        out[1].requires_grad = not out[1].requires_grad
        if out[1].requires_grad:
            with pytest.raises(ArgumentValueError, match="requires a gradient"):
                tile.ops.foreach_apply("scale", xs, alpha=2.0, out=out)
        else:
            tile.ops.foreach_apply("scale", xs, alpha=2.0, out=out)


def test_unaligned_lists_are_launched_by_ordinary_means(noting: Noting) -> None:
    xs, out = lists(12), lists(12)
    for _ in range(3):
        tile.ops.foreach_apply("scale", xs, alpha=2.0, out=out)
    counts = len(noting.repeats), len(noting.launches)
    tile.ops.foreach_apply("scale", xs, alpha=2.0, out=[*out[:11], *lists(12, shift=1)[11:]])
    assert (len(noting.repeats), len(noting.launches)) == (counts[0], counts[1] + 1)


def test_copies_of_rows_that_tma_cannot_load(noting: Noting) -> None:
    """One launch copies both operands, whose arrays are in tuples of its arguments."""
    cast(Any, tile.ops.matmul).plans.clear()

    def matrix() -> Tensor:
        return Tensor(np.zeros((403, 403), np.float16))

    a, b = matrix(), matrix()
    replayed(lambda: tile.ops.matmul(a, b))
    assert is_replay(tile.ops.matmul) == [True]
    noting.repeats.clear()
    a, b = matrix(), matrix()
    result = tile.ops.matmul(a, b)
    (grid, copied), (_, multiplied) = noting.repeats
    assert grid == (202, 1, 1)  # of four rows of both
    assert (copied[0], copied[9]) == (a.data_ptr(), b.data_ptr())
    assert multiplied[:3] == (copied[1], copied[10], result.data_ptr())
