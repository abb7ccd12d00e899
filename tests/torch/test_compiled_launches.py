"""Launches of kernels in functions that `torch.compile` compiles, into one graph each."""

import subprocess
import sys
from typing import NamedTuple

import pytest
import torch
from torch._dynamo.exc import Unsupported
from torch._dynamo.testing import CompileCounterWithBackend

import tile
import tile.language as tl
from tests.torch.kernels import add, scale
from tile.errors import DeviceAssertionError


def blocks(n, block=32):
    return (tile.cdiv(n, block),)


def added(x, y):
    out = torch.empty_like(x)
    add[blocks(x.numel())](x.sin(), y, out, x.numel(), BLOCK=32)
    return out * 2


def compiled(function, backend="aot_eager", **options):
    return torch.compile(function, fullgraph=True, backend=backend, **options)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_a_launch_is_part_of_the_graph(backend) -> None:
    x, y = torch.randn(2, 100)
    expected = (x.sin() + y) * 2
    torch.testing.assert_close(compiled(added, backend)(x, y), expected)


def test_sizes_that_change_compile_nothing() -> None:
    counter = CompileCounterWithBackend("aot_eager")
    function = compiled(added, counter, dynamic=True)
    for n in (100, 64, 33, 16, 2):
        x, y = torch.randn(2, n)
        torch.testing.assert_close(function(x, y), (x.sin() + y) * 2)
    assert counter.frame_count == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_an_argument_that_is_written_has_the_result(backend) -> None:
    """The kernel reads and writes `x`; no list of written arguments is given."""

    def in_place(x, y):
        add[lambda meta: blocks(x.numel(), meta["BLOCK"])](x, y, x, x.numel(), BLOCK=32)
        return x + y

    function = compiled(in_place, backend)
    for n in (100, 50):
        x, y = torch.randn(2, n)
        a = x.clone()
        torch.testing.assert_close(function(a, y), x + 2 * y)
        torch.testing.assert_close(a, x + y)


def test_only_written_arguments_are_in_the_schema_as_written() -> None:
    graphs = []

    def keep(graph, inputs):
        graphs.append(graph)
        return graph

    torch.compile(added, fullgraph=True, backend=keep)(*torch.randn(2, 40))
    (node,) = [n for n in graphs[0].graph.nodes if "tile" in str(n.target)]
    written = [a.alias_info is not None for a in node.target._schema.arguments]
    assert written == [False, False, True, False, *[False] * 3]


def test_a_view_is_written_through() -> None:
    def tail(x, y):
        rest = x[10:]
        add[blocks(rest.numel())](rest, y, rest, rest.numel(), 32)
        return x.sum()

    x, y = torch.randn(40), torch.randn(30)
    expected = torch.cat((x[:10], x[10:] + y))
    torch.testing.assert_close(compiled(tail)(x, y), expected.sum())
    torch.testing.assert_close(x, expected)


@pytest.mark.parametrize("dynamic", [False, True])
def test_numbers_of_every_kind(dynamic) -> None:
    def function(x, factor, negate):
        out = torch.empty_like(x)
        n = x.numel()
        scale[blocks(n)](x, out, n, factor, negate, BLOCK=32, num_warps=2)
        return out

    function = compiled(function, dynamic=dynamic)
    x = torch.randn(70)
    torch.testing.assert_close(function(x, 1.5, True), x * -1.5)
    torch.testing.assert_close(function(x, 2.5, False), x * 2.5)


def test_an_autotuner_and_heuristics_choose_at_run_time() -> None:
    tuned = tile.autotune([tile.Config({"BLOCK": 32}), tile.Config({"BLOCK": 64})], key=["n"])(add)
    ruled = tile.heuristics({"BLOCK": lambda args: 16 if args["n"] < 50 else 64})(add)

    def function(kernel, x, y):
        out = torch.empty_like(x)
        n = x.numel()
        kernel[lambda meta: blocks(n, meta["BLOCK"])](x, y, out, n)
        return out

    for kernel in (tuned, ruled):
        for n in (40, 100):
            x, y = torch.randn(2, n)
            torch.testing.assert_close(compiled(function)(kernel, x, y), x + y)
    assert tuned.best_config is not None


class Pair(NamedTuple):
    left: object
    right: object


@tile.jit
def add_pair(pair, out_ptr, n: tl.constexpr):
    i = tl.arange(0, n)
    tl.store(out_ptr + i, tl.load(pair.left + i) + tl.load(pair.right + i))


@tile.jit
def negate_blocks(source, target, N: tl.constexpr):
    target.store([tl.program_id(0) * N], -source.load([tl.program_id(0) * N]))


def test_tuples_and_tensor_descriptors() -> None:
    def function(x, y, target):
        out = torch.empty_like(x)
        add_pair[1,](Pair(x, y), out, 16)
        negate_blocks[2,](tile.TensorDescriptor(out, [16], [1], [8]), target, 8)
        other = tile.TensorDescriptor.from_tensor(out, [8])
        negate_blocks[2,](other, other, 8)
        return out

    x, y = torch.randn(2, 16)
    result = torch.zeros(16)
    target = tile.TensorDescriptor.from_tensor(result, [8])
    torch.testing.assert_close(compiled(function)(x, y, target), -(x + y))
    torch.testing.assert_close(result, -(x + y))


def test_kernels_of_equal_text_in_closures_stay_apart() -> None:
    def make(constant):
        @tile.jit
        def shifted(x_ptr, out_ptr, n: tl.constexpr):
            i = tl.arange(0, n)
            tl.store(out_ptr + i, tl.load(x_ptr + i) + constant)

        def function(x):
            out = torch.empty_like(x)
            shifted[1,](x, out, 8)
            return out

        return compiled(function)

    x = torch.randn(8)
    torch.testing.assert_close(make(tl.constexpr(1.0))(x), x + 1)
    torch.testing.assert_close(make(tl.constexpr(2.0))(x), x + 2)


def test_a_launch_outside_of_graphs_runs_as_it_is() -> None:
    """Its grid depends on data; without `fullgraph` the rest is compiled around it."""

    def function(x, y):
        out = torch.empty_like(x)
        n = x.numel()
        add[(y.sum() * 0 + blocks(n)[0]).int().item(),](x.sin(), y, out, n, BLOCK=32)
        return out * 2

    x, y = torch.randn(2, 100)
    got = torch.compile(function, backend="aot_eager")(x, y)
    torch.testing.assert_close(got, (x.sin() + y) * 2)


def test_a_grid_of_a_number_in_a_tensor() -> None:
    """PyTorch reads the number in the graph, if it is asked to."""

    def function(x, y, count):
        out = torch.zeros_like(x)
        add[count.item(),](x, y, out, x.numel(), BLOCK=32)
        return out

    x, y = torch.randn(2, 64)
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        whole = compiled(function)
        torch.testing.assert_close(whole(x, y, torch.tensor(2)), x + y)
        half = whole(x, y, torch.tensor(1))
    torch.testing.assert_close(half, torch.cat(((x + y)[:32], torch.zeros(32))))


@tile.jit(debug=True)
def pick(x_ptr, index_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    index = tl.load(index_ptr + i)
    tl.device_assert(index < n, "index out of range")
    tl.store(out_ptr + i, tl.load(x_ptr + index))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_a_false_assertion_raises(backend) -> None:
    def function(x, index):
        out = torch.empty(4)
        pick[1,](x, index, out, 10, BLOCK=4)
        return out * 2

    function, x = compiled(function, backend), torch.randn(10)
    torch.testing.assert_close(function(x, torch.tensor([0, 3, 9, 9])), x[[0, 3, 9, 9]] * 2)
    with pytest.raises(DeviceAssertionError, match="index out of range"):
        function(x, torch.tensor([0, 3, 99, 9]))


# -- refused


def refused(function, *args) -> str:
    with pytest.raises(Unsupported) as error:
        compiled(function)(*args)
    return str(error.value)


def test_a_grid_that_depends_on_data_is_refused() -> None:
    def function(x):
        add[(x.sum(),)](x, x, x, 3, BLOCK=32)

    text = refused(function, torch.ones(3))
    assert "axis 0 of its grid is a tensor" in text
    assert "not from the data of tensors" in text


def test_writing_a_tensor_that_requires_a_gradient_is_refused() -> None:
    def function(x, y):
        add[1,](y, y, x, 3, BLOCK=32)
        return x * 2

    x, y = torch.ones(3, requires_grad=True), torch.ones(3)
    text = refused(function, x, y)
    assert "writes 'out_ptr', which requires a gradient" in text
    assert "x.detach()" in text
    with torch.no_grad():
        torch.testing.assert_close(compiled(function)(x, y), torch.full((3,), 4.0))


def test_an_error_of_the_compiler_names_the_line_of_the_kernel() -> None:
    @tile.jit
    def wrong(x_ptr):
        tl.store(x_ptr, tl.arange(0, 3))

    def function(x):
        wrong[1,](x)
        return x + 1

    assert "tl.arange(0, 3)" in refused(function, torch.ones(3))


class Thing:
    """No argument of a kernel."""


THING = Thing()
CONFIGS = [tile.Config({"BLOCK": 32})]
tuned_twice = tile.autotune(CONFIGS, key=[])(tile.autotune(CONFIGS, key=[])(add))


@pytest.mark.parametrize(
    ("launch", "message"),
    [
        (lambda x: add(x, x, x, 3, 32), "it has no grid: add[grid](...)"),
        (lambda x: add[1, 1, 1, 1](x, x, x, 3, 32), "one to three axes, and this one 4"),
        (lambda x: add[1,](x, x, x, 3, 32, 5, 6), "it has 7 arguments"),
        (lambda x: add[1.5,](x, x, x, 3, 32), "axis 0 of its grid is a float"),
        (lambda x: add[1,](x, {}, x, 3, 32), "argument 'y_ptr' of add()"),
        (lambda x: add[1,](x, x, x, 3), "is missing 'BLOCK'"),
        (lambda x: add[1,](x, x, x, x_=3), "has no parameter 'x_'"),
        (lambda x: add[1,](x, THING, x, 3, 32), "argument 'y_ptr' is a Thing, which is no tensor"),
        (lambda x: tuned_twice[1,](x, x, x, 3), "it has two autotuners"),
    ],
)
def test_wrong_calls_are_refused(launch, message) -> None:
    assert message in refused(lambda x: launch(x), torch.ones(3))


def test_another_version_of_the_kernel_may_not_write_more() -> None:
    @tile.jit
    def maybe(x_ptr, y_ptr, n):
        tl.store(y_ptr, 2.0)
        if n == 7:
            tl.store(x_ptr, 1.0)

    @tile.jit
    def only_one(x_ptr, y_ptr, n):
        tl.store(y_ptr, 2.0)
        if tl.constexpr(n.type == tl.int64):
            tl.store(x_ptr, 1.0)

    def function(kernel, x, n):
        y = torch.zeros(1)
        kernel[1,](x, y, n)
        return y

    assert compiled(function)(maybe, torch.zeros(1), 3).item() == 2


def test_nothing_of_torch_is_loaded_by_tile() -> None:
    text = "import sys, tile; assert not [m for m in sys.modules if m.partition('.')[0] == 'torch']"
    subprocess.run([sys.executable, "-c", text], check=True)
