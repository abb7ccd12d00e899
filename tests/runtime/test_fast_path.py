"""The fast path of launches, on a backend that records its calls."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.runtime.fake_torch import Device, Parameter, Tensor, aligned, install
from tests.runtime.kernels import add
from tile import backends
from tile.backends.base import Artifact, Options, Target
from tile.backends.capabilities import BoundLaunch, FastLaunch, InlineCache, Item, Passed
from tile.backends.nvptx.inline_cache import inline_cache
from tile.errors import ArgumentTypeError, ArgumentValueError, TileError
from tile.ir.module import Module
from tile.runtime.autotuning.fast_path import TunedLaunches
from tile.runtime.callbacks import recorded_launches
from tile.runtime.fast_path import LaunchPlan
from tile.runtime.jit import JITFunction
from tile.runtime.kernel import CompiledKernel


class Noting:
    """A backend for CUDA devices that runs nothing."""

    name = "nvptx"
    devices = frozenset({"cuda"})

    specializes_noalias = False  # set by tests of kernels that rely on arrays not overlapping

    def __init__(self) -> None:
        self.launches: list[Any] = []  # ordinary ones: grid and arguments
        self.repeats: list[Any] = []  # grid and values
        self.bound: list[Any] = []
        self.ready = True  # whether repeats go well
        self.inline_cache: InlineCache | None = inline_cache
        self._interp = backends.get("interp")

    def resolve(self, target: Target, arrays: Any = ()) -> Target:
        return target

    def identity(self, target: Target) -> None:
        return None

    def compile(self, module: Module, target: Target, options: Options) -> Artifact:
        return self._interp.compile(module, Target("interp"), options)

    def load(self, artifact: Any) -> Noting:
        return self

    def launch(self, grid: Any, arguments: Any) -> None:
        self.launches.append((grid, list(arguments)))

    def bind(self, arguments: Any, fixed: Any) -> Any:
        self.bound.append(list(arguments))
        self.fixed = set(fixed)

        def repeat(x: int, y: int, z: int, *values: Any) -> bool:
            if self.ready:
                self.repeats.append(((x, y, z), values))
            return self.ready

        def with_fixed(grid: Any, values: Sequence[Any]) -> FastLaunch:
            tuples = len({v.of for v in values if isinstance(v, Item)})

            def launch(*passed: Any) -> bool:
                own = passed[tuples:]
                every = [own[v.at] if isinstance(v, Passed) else v for v in values]
                every = [passed[v.of][v.at] if isinstance(v, Item) else v for v in every]
                return repeat(*grid, *every)

            return launch

        return BoundLaunch(repeat, with_fixed, self.inline_cache)


def install_noting(monkeypatch: pytest.MonkeyPatch) -> Noting:
    """Let a new `Noting` run what is launched on the stand-in's tensors."""
    monkeypatch.delenv("TILE_BACKEND", raising=False)
    install(monkeypatch)
    backend, real = Noting(), backends.get
    monkeypatch.setattr(backends, "get", lambda name: backend if name == "nvptx" else real(name))
    return backend


@pytest.fixture(params=["inline caches", "Python alone"])
def noting(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Noting:
    noting = install_noting(monkeypatch)
    if request.param == "Python alone":
        noting.inline_cache = None
    return noting


def three(dtype: Any = np.float32, **where: Any) -> list[Tensor]:
    return [Tensor(aligned(64, dtype), **where) for _ in "xyz"]


def new_launcher(**options: Any) -> Any:
    return tile.jit(**options)(add.fn)


def addresses(tensors: list[Tensor]) -> tuple[int, ...]:
    return tuple(t.data_ptr() for t in tensors)


def test_the_second_launch_is_a_repeat(noting: Noting) -> None:
    kernel, first, second = new_launcher(), three(), three()
    compiled = kernel[4,](*first, 101, BLOCK=32)
    assert (len(noting.launches), noting.repeats) == (1, [])
    assert kernel[2, 3](*second, 99, BLOCK=32) is compiled
    assert kernel.run(*first, 7, grid=5, BLOCK=32) is compiled
    assert len(noting.launches) == 1
    assert noting.repeats == [
        ((2, 3, 1), (*addresses(second), 99)),
        ((5, 1, 1), (*addresses(first), 7)),
    ]


def test_repeats_tell_autograd_of_writes(noting: Noting) -> None:
    kernel, tensors = new_launcher(), three()
    x, y, out = tensors
    for count in (1, 2, 3):
        kernel[4,](*tensors, 100, BLOCK=32)
        kernel[4,](y_ptr=y, out_ptr=out, n=100, x_ptr=x, BLOCK=32)
        assert [tensor._version for tensor in tensors] == [0, 0, 2 * count]
    assert len(noting.repeats) == 4
    out.requires_grad = True
    with pytest.raises(ArgumentValueError, match="writes 'out_ptr', which requires a gradient"):
        kernel[4,](*tensors, 100, BLOCK=32)
    sys.modules["torch"].is_grad_enabled = lambda: False
    kernel[4,](*tensors, 100, BLOCK=32)
    assert len(noting.repeats) == 5


def test_what_selects_another_kernel_is_no_repeat(noting: Noting) -> None:
    kernel = new_launcher()
    x, y, out = three()
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((x, y, out, 100), {"BLOCK": 32}),
        ((x, y, out, 96), {"BLOCK": 32}),
        ((x, y, out, 1), {"BLOCK": 32}),
        ((x, y, out, 2**40 + 1), {"BLOCK": 32}),
        ((x, y, out, 2**40), {"BLOCK": 32}),
        ((x, y, out, 2**64 - 1), {"BLOCK": 32}),
        ((x, y, out, 2.0), {"BLOCK": 32}),
        ((x, y, out, True), {"BLOCK": 32}),
        ((x, y, out, 100), {"BLOCK": 64}),
        ((x, y, out, 100), {"BLOCK": 32, "num_warps": 8}),
        ((Tensor(aligned(64, shift=1)), y, out, 100), {"BLOCK": 32}),
        ((x, Tensor(aligned(64, shift=1)), out, 100), {"BLOCK": 32}),
        ((*three(np.int32), 100), {"BLOCK": 32}),
    ]
    kernels = [kernel[1,](*args, **options) for args, options in calls]
    assert noting.repeats == []
    assert len(set(map(id, kernels))) == len(kernel.cache) == len(calls)
    assert [kernel[1,](*args, **options) for args, options in calls] == kernels
    assert len(noting.repeats) == len(calls)


def test_constants_of_equal_value_and_other_type(noting: Noting) -> None:
    @tile.jit
    def fill(x, VALUE: tl.constexpr):
        tl.store(x, VALUE)

    x = Tensor(aligned(1))
    values = [1, 1.0, True, 0.0, -0.0]
    kernels = [fill[1,](x, value) for value in values]
    assert len(set(map(id, kernels))) == len(values)
    assert [fill[1,](x, value) for value in values] == kernels
    assert len(noting.repeats) == len(values)


def test_a_number_that_is_compiled_in_has_a_place_all_the_same(noting: Noting) -> None:
    kernel, arrays = new_launcher(), three()
    for _ in range(2):
        kernel[1,](*arrays, 1, BLOCK=32)
    assert noting.bound[0][3] is None
    assert noting.repeats == [((1, 1, 1), (*addresses(arrays), 1))]


def test_by_name_with_defaults_and_without(noting: Noting) -> None:
    @tile.jit
    def scale(x, n, factor=2.0, *, B: tl.constexpr = 16):
        i = tl.arange(0, B)
        tl.store(x + i, tl.load(x + i) * factor, mask=i < n)

    x = Tensor(aligned(16))
    seen = []

    def grid(meta: dict[str, Any]) -> tuple[int, ...]:
        seen.append(meta)
        return (meta["n"],)

    for n in (5, 7):
        scale[grid](n=n, x=x)
    for n in (5, 7):
        scale[grid](x, n, B=32, factor=3.0, num_warps=8)
    at = x.data_ptr()
    assert noting.repeats == [((7, 1, 1), (at, 7, 2.0)), ((7, 1, 1), (at, 7, 3.0))]
    assert seen[1] == {**seen[0], "n": 7} and seen[3] == {**seen[2], "n": 7}
    assert seen[3]["x"] is x and (seen[3]["B"], seen[3]["num_warps"]) == (32, 8)


def test_parameters_of_modules_and_no_other_subclasses(noting: Noting) -> None:
    class Wrapped(Tensor):
        pass

    Wrapped.__module__ = "torch"
    kernel = new_launcher()
    x, y, out = three()
    for kind, repeats in ((Parameter, 1), (Wrapped, 1)):
        for _ in range(2):
            kernel[1,](kind(x.array), y, out, 100, BLOCK=32)
        assert len(noting.repeats) == repeats


def test_tensors_without_memory_are_refused_as_ever(noting: Noting, monkeypatch) -> None:
    data_ptr = Tensor.data_ptr

    def with_memory(tensor: Tensor) -> int:
        if tensor.layout == "torch.sparse_coo":
            raise RuntimeError("no storage")
        return data_ptr(tensor)

    monkeypatch.setattr(Tensor, "data_ptr", with_memory)
    kernel, arrays = new_launcher(), three()
    kernel[1,](*arrays, 100, BLOCK=32)
    monkeypatch.setattr(Tensor, "layout", "torch.sparse_coo")
    with pytest.raises(ArgumentTypeError, match=r"torch\.sparse_coo"):
        kernel[1,](*arrays, 100, BLOCK=32)


@pytest.mark.parametrize("accelerator", ["cuda", "other"])
def test_another_device_is_no_repeat(noting: Noting, monkeypatch, accelerator: str) -> None:
    install(monkeypatch, accelerator)
    kernel = new_launcher()
    for device in (0, 1, 0, 1):
        kernel[1,](*three(device=device), 100, BLOCK=32)
    assert (len(noting.bound), len(noting.repeats)) == (2, 2)


def test_an_accelerator_of_another_kind_with_the_same_number(noting: Noting, monkeypatch) -> None:
    install(monkeypatch, "other")
    kernel = new_launcher()
    x, y, out = three()
    kernel[1,](x, y, out, 100, BLOCK=32)
    ((plan,),) = [kernel._plans.values()]
    before = plan.key(x, y, out, 100, BLOCK=32)
    assert before in plan.table
    y.device = Device("other", 0)
    assert plan.key(x, y, out, 100, BLOCK=32) not in plan.table


def test_what_the_backend_cannot_repeat_is_launched(noting: Noting, monkeypatch) -> None:
    kernel, arrays = new_launcher(), three()
    kernel[1,](*arrays, 100, BLOCK=32)
    noting.ready = False
    kernel[1,](*arrays, 100, BLOCK=32)
    assert (len(noting.launches), len(noting.bound), noting.repeats) == (2, 1, [])
    monkeypatch.setattr(noting, "bind", lambda arguments, fixed: None)
    for _ in range(2):
        kernel[1,](*arrays, 96, BLOCK=32)
    assert (len(noting.launches), noting.repeats) == (4, [])


def test_grids_are_checked(noting: Noting) -> None:
    kernel, arrays = new_launcher(), three()
    for _ in range(2):
        with pytest.raises(ArgumentValueError, match="at least 0"):
            kernel[-1,](*arrays, 100, BLOCK=32)
        kernel[1,](*arrays, 100, BLOCK=32)
    assert len(noting.repeats) == 1


@pytest.mark.parametrize("grid", [0, (0,), (2, 0), (1, 1, 0), lambda meta: (0 * meta["BLOCK"],)])
def test_grids_without_programs_launch_nothing(noting: Noting, grid: Any) -> None:
    kernel, arrays = new_launcher(), three()
    compiled = kernel[grid](*arrays, 100, BLOCK=32)
    assert (noting.launches, noting.bound, noting.repeats) == ([], [], [])
    for _ in range(2):
        assert kernel[1,](*arrays, 100, BLOCK=32) is compiled
        assert kernel[grid](*arrays, 100, BLOCK=32) is compiled
    assert (len(noting.launches), len(noting.repeats)) == (1, 1)


def test_hooks_are_called(noting: Noting) -> None:
    kernel, arrays, calls = new_launcher(), three(), []
    kernel[1,](*arrays, 100, BLOCK=32)
    kernel.add_pre_run_hook(lambda *args, **kwargs: calls.append((args, kwargs)))
    kernel[1,](*arrays, 100, BLOCK=32)
    assert calls == [((*arrays, 100), {"BLOCK": 32})]


def test_launches_that_are_watched_are_no_repeats(noting: Noting) -> None:
    kernel, arrays = new_launcher(), three()
    compiled = kernel[1,](*arrays, 100, BLOCK=32)
    held = kernel[1,]
    with recorded_launches() as launched:
        held(*arrays, 100, BLOCK=32)
        kernel[1,](*arrays, 100, BLOCK=32)
    assert launched == [compiled.executable] * 2 and noting.repeats == []
    held(*arrays, 100, BLOCK=32)
    assert len(noting.repeats) == 1


def test_settings_are_looked_at(noting: Noting, monkeypatch) -> None:
    kernel, arrays = new_launcher(), three()
    kernel[1,](*arrays, 100, BLOCK=32)
    monkeypatch.setenv("TILE_BACKEND", "nvptx:sm_80")
    kernel[1,](*arrays, 100, BLOCK=32)
    assert [str(key[0]) for key in kernel.cache] == ["nvptx", "nvptx:sm_80"]
    with tile.backend("nvptx"):
        kernel[1,](*arrays, 100, BLOCK=32)
    assert (len(noting.launches), len(noting.repeats)) == (3, 0)
    kernel[1,](*arrays, 100, BLOCK=32)
    monkeypatch.delenv("TILE_BACKEND")
    kernel[1,](*arrays, 100, BLOCK=32)
    assert (len(noting.launches), len(noting.repeats)) == (3, 2)


FACTOR = tl.constexpr(2)


@tile.jit
def factored(x):
    tl.store(x, FACTOR)


def test_a_global_that_changes(noting: Noting, monkeypatch) -> None:
    x = Tensor(aligned(1))
    first = factored[1,](x)
    assert factored[1,](x) is first
    monkeypatch.setitem(globals(), "FACTOR", tl.constexpr(3))
    second = factored[1,](x)
    assert second is not first
    assert factored[1,](x) is second
    assert len(noting.repeats) == 2


def test_an_emptied_cache_compiles_anew(noting: Noting) -> None:
    kernel, arrays = new_launcher(), three()
    first = kernel[1,](*arrays, 100, BLOCK=32)
    kernel.cache.clear()
    second = kernel[1,](*arrays, 100, BLOCK=32)
    assert second is not first
    assert kernel[1,](*arrays, 100, BLOCK=32) is second


def test_functions_taken_before_repeat_as_well_and_nothing_old(noting: Noting, monkeypatch) -> None:
    kernel, arrays = new_launcher(), three()
    before = kernel[1,]
    first = before(*arrays, 97, BLOCK=32)
    after = kernel[1,]
    assert before(*arrays, 99, BLOCK=32) is after(*arrays, 98, BLOCK=32) is first
    assert [values[3] for _, values in noting.repeats] == [99, 98]
    kernel.cache.clear()
    second = kernel[1,](*arrays, 97, BLOCK=32)
    assert before(*arrays, 97, BLOCK=32) is after(*arrays, 97, BLOCK=32) is second is not first

    x = arrays[0]
    taken = factored[1,]
    old = taken(x)
    held = factored[1,]
    assert held(x) is old
    for number in (3, 4, 3):
        monkeypatch.setitem(globals(), "FACTOR", tl.constexpr(number))
        new = factored[1,](x)
        assert held(x) is taken(x) is new is not old
        old = new


@pytest.mark.parametrize("tuned", [False, True])
def test_a_function_taken_before_the_first_call_is_as_fast(
    noting: Noting, monkeypatch: pytest.MonkeyPatch, tuned: bool
) -> None:
    """From its second call on it enters no other function than a new `kernel[grid]` does."""
    slow: list[Any] = []
    for owner in (JITFunction, TunedLaunches):
        ordinary = owner._slow_path
        monkeypatch.setattr(
            owner,
            "_slow_path",
            lambda *all, f=ordinary, **named: slow.append(f) or f(*all, **named),
        )
    kernel, arrays = new_launcher(), three()
    blocks = {} if tuned else {"BLOCK": 32}
    if tuned:
        kernel = tile.autotune([tile.Config({"BLOCK": 32})], key=[])(kernel)
    stored, another = kernel[1,], kernel[2,]
    first = stored(*arrays, 97, **blocks)
    slow.clear()
    assert stored(*arrays, 99, **blocks) is stored(*arrays, 98, **blocks) is first
    assert slow == []
    assert another(*arrays, 95, **blocks) is first and len(slow) == 1
    assert another(*arrays, 94, **blocks) is first and len(slow) == 1
    assert noting.repeats[-1][0] == (2, 1, 1)


def test_a_function_taken_before_a_change_repeats_afterwards(noting: Noting) -> None:
    kernel, arrays = new_launcher(), three()
    for _ in range(2):
        kernel[1,](*arrays, 97, BLOCK=32)
        stored = kernel[1,]
        kernel.cache.clear()
        stored(*arrays, 97, BLOCK=32)
        launched, repeated = len(noting.launches), len(noting.repeats)
        stored(*arrays, 99, BLOCK=32)
        assert (len(noting.launches), len(noting.repeats)) == (launched, repeated + 1)


def test_alternating_calls_of_several_shapes(noting: Noting) -> None:
    kernel = new_launcher()
    x, y, out = three()
    launches = [
        lambda n: kernel[1,](x, y, out, n, BLOCK=32),
        lambda n: kernel[1,](x, y, out, n, 32),
        lambda n: kernel[1,](x, y, out, BLOCK=32, n=n),
        lambda n: kernel[1,](BLOCK=32, n=n, out_ptr=out, y_ptr=y, x_ptr=x),
        lambda n: kernel[1,](x, y, out, n, num_warps=8, BLOCK=32),
        lambda n: kernel[1,](x, y, out, n, BLOCK=32, num_warps=8),
        lambda n: kernel.run(x, y, out, n, BLOCK=32, num_warps=8, grid=1, warmup=False),
    ]
    for n in (101, 99, 98):
        for at, launch in enumerate(launches):
            assert (launch(n).options.num_warps == 8) is (at > 3)
    # Names come in any order, so that there are five kinds.
    assert len(noting.launches) == 5
    assert [values[3] for _, values in noting.repeats] == [101] * 2 + [99] * 7 + [98] * 7


def test_calls_that_lack_something_are_refused_as_ever(noting: Noting) -> None:
    kernel, arrays = new_launcher(), three()
    for _ in range(2):
        kernel[1,](*arrays, 100, BLOCK=32)
        with pytest.raises(ArgumentTypeError, match="'n'"):
            kernel[1,](*arrays, BLOCK=32)
        with pytest.raises(ArgumentTypeError, match="'BLOCK'"):
            kernel[1,](*arrays, 100)
        with pytest.raises(ArgumentTypeError, match="x_ptr"):
            kernel[1,](*arrays, 100, BLOCK=32, x_ptr=arrays[0])
        with pytest.raises(ArgumentTypeError, match="takes"):
            kernel[1,](*arrays, 100, 32, 64)
    assert len(noting.repeats) == 1


def test_names_that_look_like_those_of_the_text(noting: Noting) -> None:
    @tile.jit
    def odd(_table, __x, table, again, _a0: tl.constexpr):
        tl.store(table, tl.load(_table) + __x * again + _a0)

    x, y = Tensor(aligned(4)), Tensor(aligned(4))
    for n in (5, 7):
        odd[1,](x, _a0=2, again=n, table=y, __x=3)
    assert noting.repeats == [((1, 1, 1), (x.data_ptr(), 3, y.data_ptr(), 7))]


def test_warmup_launches_nothing(noting: Noting) -> None:
    kernel, arrays = new_launcher(), three()
    compiled = kernel[1,](*arrays, 100, BLOCK=32)
    assert kernel[1,](*arrays, 100, BLOCK=32, warmup=True) is compiled
    assert kernel.warmup(*arrays, 100, BLOCK=32) is compiled
    assert (len(noting.launches), noting.repeats) == (1, [])


def test_no_tensor_is_retained(noting: Noting) -> None:
    kernel, arrays = new_launcher(), three()
    kernel[1,](*arrays, 100, BLOCK=32)
    kernel[1,](*arrays, 100, BLOCK=32)
    alive = weakref.ref(arrays[0])
    noting.launches.clear()
    noting.bound.clear()
    del arrays
    gc.collect()
    assert alive() is None


def test_threads(noting: Noting) -> None:
    kernel = new_launcher()

    def work(n: int) -> None:
        arrays = three()
        for _ in range(50):
            kernel[n,](*arrays, n, BLOCK=32)

    threads = [threading.Thread(target=work, args=(n,)) for n in (3, 5, 7)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(noting.launches) + len(noting.repeats) == 150
    assert all(grid[0] == values[3] for grid, values in noting.repeats)


def test_arrays_of_the_host_are_launched_as_ever() -> None:
    kernel = new_launcher()
    x, y, out = np.arange(8.0), np.ones(8), np.zeros(8)
    for _ in range(3):
        kernel[1,](x, y, out, 8, BLOCK=8)
    np.testing.assert_array_equal(out, x + 1)


@tile.jit
def load_block(x, y, n, BLOCK: tl.constexpr):
    y.store([0, 0], tl.max(tl.max(x.load([0, 0]), 0), 0) * n)


def descriptor_of(rows: int, columns: int, block: tuple[int, int] = (4, 8), **options: Any) -> Any:
    tensor = Tensor(aligned(256).reshape(8, 32), **options)
    return tile.TensorDescriptor(tensor, (rows, columns), (32, 1), block)


def test_descriptors_whose_base_alone_differs_are_repeats(noting: Noting) -> None:
    kernel = tile.jit(load_block.fn)
    x, y, other = descriptor_of(8, 31), descriptor_of(1, 16), descriptor_of(8, 31)
    compiled = kernel[1,](x, y, 3, BLOCK=32)
    assert kernel[2,](other, y, 5, BLOCK=32) is compiled
    bases = [other.base.data_ptr(), y.base.data_ptr()]
    assert noting.repeats == [((2, 1, 1), (*bases, 5))]
    assert noting.fixed == {1, 2, 3, 4, 6, 7, 8, 9}
    (places,) = noting.bound
    # An extent of 1, and the last stride, are compiled in.
    assert [at for at, place in enumerate(places) if place is None] == [4, 6, 9]
    assert [int(place) for place in places[1:4]] == [8, 31, 32]
    other.base = Tensor(aligned(256).reshape(8, 32))
    assert kernel[2,](other, y, 5, BLOCK=32) is compiled
    assert noting.repeats[-1][1][0] == other.base.data_ptr()


def test_descriptors_that_differ_otherwise_are_looked_at_again(noting: Noting) -> None:
    kernel = tile.jit(load_block.fn)
    y = descriptor_of(8, 32)
    descriptors = [
        descriptor_of(8, 31),
        descriptor_of(7, 31),
        descriptor_of(8, 31, (4, 16)),
        tile.TensorDescriptor(descriptor_of(8, 32).base, (8, 31), (32, 1), (4, 8), "nan"),
        tile.TensorDescriptor(descriptor_of(8, 32).base, (4, 31), (64, 1), (4, 8)),
        tile.TensorDescriptor(Tensor(aligned(256)), (8, 31), (32, 1), (4, 8)),
        descriptor_of(8, 31, device=1),
    ]
    for x in descriptors:
        kernel[1,](x, y, 3, BLOCK=32)
    assert noting.repeats == []
    for x in descriptors:
        kernel[1,](x, y, 3, BLOCK=32)
    assert len(noting.repeats) == len(descriptors)
    descriptors[0].shape = (9, 31)
    with pytest.raises(ArgumentValueError, match="reaches 287 elements from its base"):
        kernel[1,](descriptors[0], y, 3, BLOCK=32)
    descriptors[1].base = Tensor(aligned(256, shift=1).reshape(8, 32))
    with pytest.raises(ArgumentValueError, match="not a multiple of 16 bytes"):
        kernel[1,](descriptors[1], y, 3, BLOCK=32)
    assert len(noting.repeats) == len(descriptors)


@tile.jit
def ignoring(x, out_ptr, BLOCK: tl.constexpr):
    tl.store(out_ptr + tl.arange(0, BLOCK), 1.0)


def test_a_descriptor_of_another_rank_is_launched_as_ever(noting: Noting) -> None:
    kernel = tile.jit(ignoring.fn)
    flat = tile.TensorDescriptor(Tensor(aligned(64)), (64,), (1,), (16,))
    square, out = descriptor_of(8, 32), Tensor(aligned(64))
    for desc in (square, flat, square, flat, square):
        kernel[1,](desc, out, BLOCK=32)
    assert (len(noting.launches), len(noting.repeats)) == (3, 2)


def test_descriptors_of_other_arrays_are_no_repeats(noting: Noting) -> None:
    kernel = tile.jit(load_block.fn)
    array = np.zeros((8, 32), np.float32)
    for _ in range(2):
        kernel[1,](
            tile.TensorDescriptor.from_tensor(array, (4, 8)), descriptor_of(8, 32), 3, BLOCK=32
        )
    assert noting.repeats == []


@tile.jit
def strided(x, strides, out, n, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at * strides[1] + n * strides[0]))


def test_tuples_of_integers_are_values_of_a_repeat(noting: Noting) -> None:
    kernel, (x, out, _) = tile.jit(strided.fn), three()
    compiled = kernel[1,](x, (7, 1, 5), out, 3, BLOCK=8)
    assert kernel[2,](x, (9, 1, 3), out, 5, BLOCK=8) is compiled
    pointers = x.data_ptr(), out.data_ptr()
    assert noting.repeats == [((2, 1, 1), (pointers[0], 9, 1, 3, pointers[1], 5))]
    (places,) = noting.bound
    assert noting.fixed == set() and [place is None for place in places[1:4]] == [
        False,
        True,
        False,
    ]


def test_tuples_that_select_another_kernel_are_no_repeats(noting: Noting) -> None:
    kernel, (x, out, _) = tile.jit(strided.fn), three()
    tuples: list[Any] = [
        (7, 1),
        (7, 3),
        (16, 1),
        (2**40, 1),
        (7, True),
        (7, 1, 5),
        (7, np.int64(3)),
    ]
    for strides in tuples[:6]:
        kernel[1,](x, strides, out, 3, BLOCK=8)
    assert noting.repeats == [] and len(noting.launches) == 6
    for strides in tuples[:4]:
        kernel[1,](x, strides, out, 3, BLOCK=8)
    assert len(noting.repeats) == 4
    assert noting.repeats[-1][1][1:3] == (2**40, 1)
    for strides in tuples[4:7]:
        kernel[1,](x, strides, out, 3, BLOCK=8)
    assert len(noting.repeats) == 6, "all but the last, of a type without a fast path"
    assert [values[1:-2] for _, values in noting.repeats[4:]] == [(7, True), (7, 1, 5)]


class Pair(NamedTuple):
    x: Any
    scale: Any


@tile.jit
def twice(x):
    return 2 * x


@tile.jit
def listed(pairs, outs, more, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    for k in tl.static_range(len(outs)):
        value = tl.load(pairs[k].x + at) * pairs[k].scale
        tl.store(outs[k] + at, more[0](value) if more[1] is None else value)


def lists(count: int, scale: Any = 3, **where: Any) -> tuple[Any, ...]:
    """Return a tuple of named tuples, one of tensors, and one of constants."""
    pairs = tuple(Pair(Tensor(aligned(64), **where), scale) for _ in range(count))
    return pairs, tuple(Tensor(aligned(64), **where) for _ in pairs), (twice, None)


def test_items_of_tuples_are_values_of_a_repeat(noting: Noting) -> None:
    kernel = tile.jit(listed.fn)
    kernels = {count: kernel[1,](*lists(count), BLOCK=8) for count in (1, 2)}
    for count in (1, 2, 1):
        pairs, outs, more = lists(count, 5)
        assert kernel[1,](pairs, outs, more, BLOCK=8) is kernels[count]
        values = [number for pair in pairs for number in (pair.x.data_ptr(), 5)]
        assert noting.repeats.pop() == ((1, 1, 1), (*values, *addresses([*outs])))
        assert [out._version for out in outs] == [1] * count
        assert [pair.x._version for pair in pairs] == [0] * count
    assert len(noting.launches) == 2
    outs[0].requires_grad = True
    with pytest.raises(ArgumentValueError, match=r"writes 'outs\[0\]', which requires a gradient"):
        kernel[1,](pairs, outs, more, BLOCK=8)


def test_items_of_tuples_that_select_another_kernel_are_no_repeats(noting: Noting) -> None:
    kernel = tile.jit(listed.fn)
    pairs, outs, more = lists(2)
    shifted = Pair(Tensor(aligned(64, shift=1)), 3)
    whole = Pair(Tensor(aligned(64, np.int32)), 3)
    calls = [
        (pairs, outs, more),
        ((pairs[0], shifted), outs, more),
        ((whole, pairs[1]), outs, more),
        ((pairs[0], Pair(pairs[1].x, 1)), outs, more),
        ((pairs[0], Pair(pairs[1].x, 16)), outs, more),
        ((pairs[0], Pair(pairs[1].x, 2.0)), outs, more),
        (pairs, (outs[0], Tensor(aligned(64, shift=1))), more),
        (pairs, outs, (twice, 0)),
        (pairs, outs, (tile.jit(twice.fn), None)),
    ]
    kernels = [kernel[1,](*call, BLOCK=8) for call in calls]
    assert noting.repeats == [] and len({*map(id, kernels)}) == len(calls)
    assert [kernel[1,](*call, BLOCK=8) for call in calls] == kernels
    assert len(noting.repeats) == len(calls)
    plain = (tuple(map(tuple, pairs)), outs, more)
    with pytest.raises(TileError, match="x"):
        kernel[1,](*plain, BLOCK=8)  # items of these have no names
    assert kernel[1,](*lists(2), BLOCK=8) is kernels[0]


def test_a_tensor_in_a_tuple_is_on_another_device(noting: Noting) -> None:
    kernel = tile.jit(listed.fn)
    for device in (0, 1, 0, 1):
        kernel[1,](*lists(2, device=device), BLOCK=8)
    assert (len(noting.bound), len(noting.repeats)) == (2, 2)


def test_descriptors_in_a_tuple(noting: Noting) -> None:
    @tile.jit
    def copy(both, n, BLOCK: tl.constexpr):
        both[1].store([0, n], both[0].load([0, n]))

    made = [descriptor_of(8, 32) for _ in range(4)]
    for at in (0, 2, 0):
        copy[1,]((made[at], made[at + 1]), 3, BLOCK=32)
    bases = [one.base.data_ptr() for one in made]
    assert noting.repeats == [((1, 1, 1), (*bases[2:], 3)), ((1, 1, 1), (*bases[:2], 3))]
    assert noting.fixed == {1, 2, 3, 4, 6, 7, 8, 9}


@pytest.mark.parametrize("count", [1, 5])
def test_arrays_in_tuples_that_overlap_get_the_other_version(noting: Noting, count: int) -> None:
    noting.specializes_noalias = True
    kernel = tile.jit(listed.fn)
    pairs, outs, more = lists(count)
    shared = (*outs[:-1], Tensor(pairs[0].x.array[32:]))
    both = [(pairs, outs, more), (pairs, shared, more)]
    first, second = (kernel[1,](*call, BLOCK=8) for call in both)
    assert first is not second and noting.repeats == []
    for at in (1, 0, 1):
        assert kernel[1,](*both[at], BLOCK=8) is (first, second)[at]
    assert len(noting.repeats) == 3
    own = tuple(pair.x for pair in pairs)
    assert kernel[1,](pairs, own, more, BLOCK=8) is second


@tile.jit
def windowed(x, out, SHAPE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at, tl.load(x + at * SHAPE[0]) * SHAPE[1])


def test_constant_tuples_select_kernels(noting: Noting) -> None:
    """As the values of their items do, of which 1, True and 1.0 are equal."""
    kernel, (x, out, _) = tile.jit(windowed.fn), three()
    shapes: list[Any] = [(1, 2), (2, 2), (1, 2.0), (True, 2)]
    compiled = [kernel[1,](x, out, shape, BLOCK=8) for shape in shapes]
    assert noting.repeats == [] and len({*map(id, compiled)}) == len(shapes)
    assert [kernel[1,](x, out, shape, BLOCK=8) for shape in shapes] == compiled
    assert len(noting.repeats) == len(shapes)
    assert kernel[1,](x, out, (1, 2, (3, "x")), BLOCK=8) not in compiled


# -- kernels with two versions, for arrays that overlap and for those that do not


def overlapping(kind: str) -> list[Tensor]:
    """Return x, y and out of 64 floats, of which x or y overlaps out."""
    x, y, out = three()
    array = aligned(256)
    if kind == "same":
        return [out, y, out]
    if kind == "x ends in out":
        return [Tensor(array[:64]), y, Tensor(array[60:124])]
    if kind == "out ends in y":
        return [x, Tensor(array[60:124]), Tensor(array[:64])]
    assert kind == "out between the rows of x"
    return [Tensor(array.reshape(4, 64)[:, :16]), y, Tensor(array[64:128])]


@pytest.mark.parametrize(
    "kind", ["same", "x ends in out", "out ends in y", "out between the rows of x"]
)
def test_arrays_that_overlap_get_the_other_version(noting: Noting, kind: str) -> None:
    noting.specializes_noalias = True
    kernel, disjoint, sharing = new_launcher(), three(), overlapping(kind)
    first = kernel[1,](*disjoint, 100, BLOCK=32)
    second = kernel[1,](*sharing, 100, BLOCK=32)
    assert first is not second
    assert (len(noting.launches), noting.repeats) == (2, [])
    assert [first.signature[n] for n in ("x_ptr", "y_ptr", "out_ptr")] == ["*fp32:16:noalias"] * 3
    assert [second.signature[n] for n in ("x_ptr", "y_ptr", "out_ptr")] == ["*fp32:16:aliased"] * 3
    calls = [disjoint, sharing, sharing, disjoint]
    kernels = [kernel[1,](*arrays, 100, BLOCK=32) for arrays in calls]
    assert kernels == [first, second, second, first]
    assert len(noting.launches) == 2
    assert [values[:3] for _, values in noting.repeats] == [addresses(arrays) for arrays in calls]


@pytest.mark.parametrize(
    "arrays",
    [
        lambda x, y, out: (x, x, out),  # which the kernel only reads
        lambda x, y, out: (Tensor(out.array[:0]), y, Tensor(out.array[4:])),
        lambda x, y, out: (Tensor(x.array[:32]), y, Tensor(x.array[32:])),
    ],
)
def test_arrays_that_do_not_overlap(noting: Noting, arrays: Any) -> None:
    noting.specializes_noalias = True
    kernel = new_launcher()
    first = kernel[1,](*three(), 100, BLOCK=32)
    assert kernel[1,](*arrays(*three()), 100, BLOCK=32) is first
    assert len(noting.repeats) == 1


def test_an_overlapping_launch_first(noting: Noting) -> None:
    noting.specializes_noalias = True
    kernel, disjoint, sharing = new_launcher(), three(), overlapping("same")
    second = kernel[1,](*sharing, 100, BLOCK=32)
    first = kernel[1,](*disjoint, 100, BLOCK=32)
    assert first is not second
    assert len(noting.launches) == 2
    assert kernel[1,](*sharing, 100, BLOCK=32) is second
    assert kernel[1,](*disjoint, 100, BLOCK=32) is first
    assert len(noting.repeats) == 2


def test_a_backend_that_does_not_rely_on_it_has_one_version(noting: Noting) -> None:
    kernel = new_launcher()
    first = kernel[1,](*three(), 100, BLOCK=32)
    assert kernel[1,](*overlapping("same"), 100, BLOCK=32) is first
    assert (len(kernel.cache), len(noting.repeats)) == (1, 1)
    assert first.signature["x_ptr"] == "*fp32:16"


# -- launches of compiled kernels


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The launches of compiled kernels that were checked."""
    calls: list[Any] = []
    checked = CompiledKernel._checked

    def recording(kernel: CompiledKernel, values: Any) -> Any:
        calls.append(values)
        return checked(kernel, values)

    monkeypatch.setattr(CompiledKernel, "_checked", recording)
    return calls


@pytest.mark.parametrize("constants", [(), (32,)])
def test_compiled_kernels_have_it_too(
    noting: Noting, checked: list[Any], constants: tuple[int, ...]
) -> None:
    arrays, others = three(), three()
    kernel = new_launcher()[1,](*arrays, 100, BLOCK=32)
    kernel[2,](*arrays, 100, *constants)
    assert len(checked) == 1
    noting.repeats.clear()
    kernel[3, 2](*others, 96 + 4, *constants)
    kernel[lambda meta: (meta["n"] // meta["BLOCK"],)](*others, 100, *constants)
    assert len(checked) == 1 and [grid for grid, _ in noting.repeats] == [(3, 2, 1), (3, 1, 1)]
    assert [values[:3] for _, values in noting.repeats] == [addresses(others)] * 2


def test_compiled_kernels_choose_by_overlap(noting: Noting, checked: list[Any]) -> None:
    noting.specializes_noalias = True
    disjoint, sharing = three(), overlapping("same")
    kernel = new_launcher()[1,](*disjoint, 100, BLOCK=32)
    with pytest.raises(ArgumentValueError, match="overlap"):
        kernel[1,](*sharing, 100, 32)
    kernel[1,](*disjoint, 100, 32)
    checked.clear()
    kernel[1,](*disjoint, 100, 32)
    assert checked == []
    with pytest.raises(ArgumentValueError, match="overlap"):
        kernel[1,](*sharing, 100, 32)


def test_inline_caches_of_several_entries(noting: Noting) -> None:
    """Each call has the kernel of its own entry, whatever was launched before."""
    kernel, arrays = new_launcher(), three()
    calls = [(n, block) for block in (32, 64, 128) for n in (1, 5, 4, 8, 16, 2**40)]
    compiled = {call: kernel[1,](*arrays, call[0], BLOCK=call[1]) for call in calls}
    assert len(set(compiled.values())) == len(calls)
    noting.launches.clear()
    for call in [*calls, *reversed(calls)]:
        assert kernel[1,](*arrays, call[0], BLOCK=call[1]) is compiled[call]
    assert not noting.launches


def test_an_inline_cache_that_was_stored(noting: Noting, monkeypatch) -> None:
    """It notices hooks, callbacks, settings, and that the kernels were cleared."""
    kernel, arrays = new_launcher(), three()
    kernel[1,](*arrays, 100, BLOCK=32)
    stored = kernel[1,]
    assert stored(*arrays, 100, BLOCK=32) in kernel.cache.values()
    assert (len(noting.launches), len(noting.repeats)) == (1, 1)
    kernel.add_pre_run_hook(lambda *args, **kwargs: None)
    stored(*arrays, 100, BLOCK=32)
    assert len(noting.launches) == 2
    kernel.pre_run_hooks.clear()
    with tile.sanitize("bounds"), pytest.raises(tile.errors.UnsupportedError, match="bounds"):
        stored(*arrays, 100, BLOCK=32)
    monkeypatch.setenv("TILE_BACKEND", "unknown")
    with pytest.raises(tile.errors.BackendError, match="unknown"):
        stored(*arrays, 100, BLOCK=32)
    monkeypatch.delenv("TILE_BACKEND")
    stored(*arrays, 100, BLOCK=32)
    assert (len(noting.launches), len(noting.repeats)) == (2, 2)
    kernel.cache.clear()
    stored(*arrays, 100, BLOCK=32)
    assert (len(noting.launches), len(noting.repeats)) == (3, 2)


# -- objects with an address, which libraries pass in place of tensors


class Buffer:
    """A view of a tensor's memory with other strides; only an address, a dtype and extents."""

    def __init__(self, tensor: Tensor, step: int = 1, device: Any = None) -> None:
        self.tensor = tensor
        self.dtype = tensor.dtype
        self.shape = tensor.shape
        self.device = Device("cuda", 0) if device is None else device
        self.step = step

    def data_ptr(self) -> int:
        last = self.tensor.nbytes - self.tensor.itemsize
        return self.tensor.data_ptr() + (last if self.step < 0 else 0)

    def stride(self) -> tuple[int, ...]:
        return (self.step,)


def buffers(tensors: list[Tensor], **how: Any) -> list[Buffer]:
    return [Buffer(tensor, **how) for tensor in tensors]


def test_objects_with_an_address(noting: Noting) -> None:
    kernel, first, second = new_launcher(), three(), three()
    compiled = kernel[4,](*buffers(first), 101, BLOCK=32)
    assert kernel[2,](*buffers(second), 99, BLOCK=32) is compiled
    assert kernel[2,](*buffers(second, device=Device("cuda", 1)), 99, BLOCK=32) is compiled
    assert kernel[2,](*second[:2], Buffer(second[2]), 99, BLOCK=32) is compiled
    shifted = [Tensor(aligned(64, shift=1)) for _ in "xyz"]
    assert kernel[2,](*buffers(shifted), 99, BLOCK=32) is not compiled
    assert kernel[2,](*buffers(three(np.int32)), 99, BLOCK=32) is not compiled
    assert len(noting.launches) == 5
    assert noting.repeats == [((2, 1, 1), (*addresses(second), 99))]
    assert [tensor._version for tensor in second] == [0, 0, 0]


def test_objects_on_a_device_without_its_number_have_no_fast_path(noting: Noting) -> None:
    """The driver tells the device by their address, each time."""
    kernel, arrays = new_launcher(), three()
    for _ in range(3):
        kernel[1,](*buffers(arrays, device="cuda"), 100, BLOCK=32)
    assert (len(noting.launches), noting.repeats) == (3, [])


def test_tensors_among_objects_are_noted(noting: Noting) -> None:
    kernel, (x, y, out) = new_launcher(), three()
    for _ in range(2):
        kernel[1,](Buffer(x), Buffer(y), out, 100, BLOCK=32)
    assert len(noting.repeats) == 1 and (x._version, out._version) == (0, 2)


def test_objects_without_an_address_are_left_to_ordinary_launches(
    noting: Noting, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel, arrays = new_launcher(), three()
    kernel[1,](*buffers(arrays), 100, BLOCK=32)
    given = buffers(arrays)
    monkeypatch.setattr(given[0], "data_ptr", lambda: None)
    with pytest.raises(ArgumentTypeError, match="cannot be taken as an array"):
        kernel[1,](*given, 100, BLOCK=32)
    given[0].data_ptr = lambda: np.int64(arrays[0].data_ptr())
    kernel[1,](*given, 100, BLOCK=32)
    assert (len(noting.launches), noting.repeats) == (2, [])


def test_objects_that_overlap_get_the_other_version(noting: Noting) -> None:
    noting.specializes_noalias = True
    kernel, disjoint, sharing = new_launcher(), three(), overlapping("x ends in out")
    first = kernel[1,](*buffers(disjoint), 100, BLOCK=32)
    second = kernel[1,](*buffers(sharing), 100, BLOCK=32)
    assert kernel[1,](*buffers(disjoint), 100, BLOCK=32) is first is not second
    assert kernel[1,](*buffers(sharing), 100, BLOCK=32) is second
    assert (len(noting.launches), len(noting.repeats)) == (2, 2)


def test_objects_whose_elements_lie_before_their_address(noting: Noting) -> None:
    """The last one reaches into the memory in front of its address."""
    noting.specializes_noalias = True
    kernel, (x, y, out) = new_launcher(), three()
    first = kernel[1,](Buffer(x), Buffer(y), Buffer(out, -1), 100, BLOCK=32)
    second = kernel[1,](Buffer(x), Buffer(y), Buffer(x, -1), 100, BLOCK=32)
    assert first is not second
    assert kernel[1,](Buffer(x), Buffer(y), Buffer(x, -1), 100, BLOCK=32) is second


def test_inline_caches_compare_few_pairs(noting: Noting) -> None:
    noting.specializes_noalias = True
    kernel, disjoint, sharing = new_launcher(), three(), overlapping("out ends in y")
    first = kernel[1,](*disjoint, 100, BLOCK=32)
    (plan,) = kernel._plans.values()
    assert len(plan.caches) == (noting.inline_cache is not None)
    for _ in range(2):
        assert kernel[1,](*disjoint, 100, BLOCK=32) is first
        assert kernel[1,](*sharing, 100, BLOCK=32) is not first
    assert len(plan.caches) == (noting.inline_cache is not None)
    assert [tensor._version for tensor in sharing] == [0, 0, 2]


def test_tuned_launches_compare_pairs(noting: Noting) -> None:
    noting.specializes_noalias = True
    disjoint, sharing = three(), overlapping("same")
    tuner = tile.autotune([tile.Config({"BLOCK": 32})], key=["n"])(new_launcher())
    first, second = (tuner[1,](*arrays, 100) for arrays in (disjoint, sharing))
    assert first is not second
    for _ in range(2):
        assert tuner[1,](*disjoint, 100) is first
        assert tuner[1,](*sharing, 100) is second


def test_names_in_any_order_share_a_plan(noting: Noting) -> None:
    kernel, (x, y, out) = new_launcher(), three()
    compiled = kernel[1,](x_ptr=x, y_ptr=y, out_ptr=out, n=101, BLOCK=32)
    assert kernel[1,](BLOCK=32, out_ptr=out, n=99, y_ptr=y, x_ptr=x) is compiled
    assert kernel[1,](x, n=97, BLOCK=32, y_ptr=y, out_ptr=out) is compiled
    assert kernel[1,](x, BLOCK=32, n=97, y_ptr=y, out_ptr=out) is compiled
    assert kernel[1,](x, n=97, BLOCK=32, y_ptr=x, out_ptr=y) is compiled
    assert (len(kernel._plans), len(noting.launches)) == (2, 2)
    values = [values for _, values in noting.repeats]
    assert values[0] == (*addresses([x, y, out]), 99)
    assert values[1:] == [(*addresses([x, y, out]), 97), (*addresses([x, x, y]), 97)]


def test_a_tuner_of_named_arguments_has_a_plan_with_entries(noting: Noting) -> None:
    """Its kernel gets the names in another order than in an earlier call of that kernel."""
    kernel, (x, y, out) = new_launcher(), three()
    kernel[1,](BLOCK=32, n=100, x_ptr=x, y_ptr=y, out_ptr=out)
    tuner = tile.autotune([tile.Config({"BLOCK": 32})], key=["n"])(kernel)
    for _ in range(3):
        tuner[1,](x_ptr=x, y_ptr=y, out_ptr=out, n=100)
    (plan,) = tuner._launches._plans.values()
    assert isinstance(plan, LaunchPlan) and len(plan.table) == 1


def test_warmup_of_a_kernel_that_was_launched(noting: Noting, monkeypatch) -> None:
    kernel, arrays = new_launcher(), three()
    compiled = kernel[1,](*arrays, 100, BLOCK=32)
    with monkeypatch.context() as patched:
        patched.setattr(kernel, "_binder", None)
        assert kernel.warmup(*three(), 96 + 4, BLOCK=32) is compiled
    assert kernel.warmup(*arrays, 101, BLOCK=32) is not compiled
    assert kernel.warmup(*three(np.int32), 100, BLOCK=32) is not compiled
    monkeypatch.setenv("TILE_BACKEND", "nvptx:sm_80")
    assert kernel.warmup(*arrays, 100, BLOCK=32) is not compiled
    monkeypatch.delenv("TILE_BACKEND")
    kernel.cache.clear()
    assert kernel.warmup(*arrays, 100, BLOCK=32) is not compiled
    assert (len(noting.launches), noting.repeats) == (1, [])


def test_warmup_sees_changes_of_captured_variables(noting: Noting, monkeypatch) -> None:
    x = Tensor(aligned(1))
    compiled = factored[1,](x)
    assert factored.warmup(x) is compiled
    monkeypatch.setitem(globals(), "FACTOR", tl.constexpr(5))
    assert factored.warmup(x) is not compiled
