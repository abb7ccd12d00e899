"""`tile.torch.op`: operators with gradients, shapes, batches, and checks of PyTorch."""

import sys
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import tile
import tile.language as tl
import tile.ops
import tile.torch
from tests.torch.kernels import add, cosine_times, scale, sine
from tile.errors import ArgumentError, ArgumentTypeError

BLOCK = 32


def grid(x):
    return lambda meta: (tile.cdiv(x.numel(), meta["BLOCK"]),)


@tile.torch.op("tile_tests::sin_backward", elementwise=True)
def sin_backward(x: Tensor, grad: Tensor) -> Tensor:
    out = torch.empty_like(x)
    cosine_times[grid(x)](x, grad.contiguous(), out, x.numel(), BLOCK=BLOCK)
    return out


@tile.torch.op(
    "tile_tests::sin",
    backward=lambda ctx, grad: sin_backward(*ctx.saved_tensors, grad),
    elementwise=True,
)
def sin(x: Tensor) -> Tensor:
    assert x.is_contiguous()
    out = torch.empty_like(x)
    sine[grid(x)](x, out, x.numel(), BLOCK=BLOCK)
    return out


def test_results_and_gradients() -> None:
    x = torch.randn(5, 20, requires_grad=True)
    y = sin(x)
    torch.testing.assert_close(y, x.sin())
    y.sum().backward()
    torch.testing.assert_close(x.grad, x.cos())
    assert sin is torch.ops.tile_tests.sin.default


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("shape", [(50,), (3, 7), ()])
def test_opcheck(shape, requires_grad) -> None:
    torch.library.opcheck(sin, (torch.randn(shape, requires_grad=requires_grad),))


def test_fullgraph_with_dynamic_shapes_and_gradients() -> None:
    def function(x):
        return (sin(x * 2) ** 2).sum()

    compiled = torch.compile(function, fullgraph=True, dynamic=True, backend="aot_eager")
    for n in (30, 70):
        x = torch.randn(n, requires_grad=True)
        compiled(x).backward()
        torch.testing.assert_close(x.grad, 2 * torch.sin(4 * x))


@pytest.mark.parametrize("dim", [0, 1])
def test_vmap_of_an_elementwise_operator_is_one_call(dim) -> None:
    x = torch.randn(6, 40)
    torch.testing.assert_close(torch.vmap(sin, dim, dim)(x), x.sin())


def test_a_batch_of_gradients() -> None:
    x, grads = torch.randn(40, requires_grad=True), torch.randn(3, 40)
    (batch,) = torch.autograd.grad(sin(x), x, grads, is_grads_batched=True)
    torch.testing.assert_close(batch, grads * x.cos())


def test_vmap_broadcasts_arguments_without_a_batch() -> None:
    x, grad = torch.randn(6, 40), torch.randn(40)
    torch.testing.assert_close(torch.vmap(sin_backward, (0, None))(x, grad), x.cos() * grad)


def test_numbers_defaults_and_several_results() -> None:
    @tile.torch.op("tile_tests::both")
    def both(x: Tensor, factor: float = 2.0, *, negate: bool = False) -> tuple[Tensor, Tensor]:
        outs = torch.empty_like(x), torch.empty_like(x)
        for out, k in zip(outs, (1.0, factor), strict=True):
            scale[grid(x)](x, out, x.numel(), k, negate, BLOCK=BLOCK)
        return outs

    x = torch.randn(40)
    assert both(x)[1].equal(x * 2)
    assert both(x, 3.0, negate=True)[1].equal(x * -3)
    torch.library.opcheck(both, (x, 1.5), {"negate": True})


@tile.torch.op("tile_tests::add_", mutates_args=["x"])
def add_(x: Tensor, y: Tensor) -> None:
    add[grid(x)](x, y, x, x.numel(), BLOCK=BLOCK)


def test_an_operator_that_writes_an_argument() -> None:
    x, y = torch.randn(2, 40)
    expected, version = x + y, x._version
    add_(x, y)
    torch.testing.assert_close(x, expected)
    assert x._version > version
    torch.library.opcheck(add_, (x, y))
    compiled = torch.compile(lambda x, y: add_(x, y) or x * 2, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(x.clone(), y), (x + y) * 2)


def test_autograd_notices_a_value_that_it_needs_and_that_is_overwritten() -> None:
    w, y = torch.ones(40, requires_grad=True), torch.ones(40)
    x = torch.randn(40)
    loss = (w * x).sum()
    add_(x, y)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_writing_what_requires_a_gradient_is_an_error() -> None:
    x = torch.ones(40, requires_grad=True)
    with pytest.raises(ArgumentError, match=r"add_ writes x, so it has no gradient"):
        add_(x, x)
    with torch.no_grad():
        add_(x, torch.ones(40))
    assert x[0] == 2


def test_the_first_call_compares_what_is_written_with_what_is_declared() -> None:
    @tile.torch.op("tile_tests::undeclared")
    def undeclared(x: Tensor, y: Tensor) -> Tensor:
        add[grid(x)](x, y, y[:], x.numel(), BLOCK=BLOCK)
        return torch.empty_like(x)

    x, y = torch.randn(2, 1, 40)
    with pytest.raises(ArgumentError, match=r"writes y; declare it: mutates_args=\['y'\]"):
        undeclared(x[0], y[0].clone())


def test_views_side_by_side_are_no_undeclared_writes() -> None:
    @tile.torch.op("tile_tests::left_", mutates_args=["x"])
    def left_(x: Tensor, y: Tensor) -> None:
        add[1,](x.t(), x.t(), x.t(), 1, BLOCK=BLOCK)

    x = torch.ones(4, 4)
    left_(x[:, :1], x[:, 1:])
    assert x.sum() == 17


def test_an_operator_without_backward_says_so() -> None:
    x, y = torch.randn(2, 40, requires_grad=True)
    loss = sin_backward(x, y).sum()
    with pytest.raises(ArgumentError, match=r"sin_backward has no gradient: pass backward="):
        loss.backward()


def test_fake_results_of_ones_own() -> None:
    calls = []

    def shapes(x):
        calls.append(x.shape)
        return x.new_empty(x.numel())

    @tile.torch.op("tile_tests::flat", fake=shapes)
    def flat(x: Tensor) -> Tensor:
        out = torch.empty(x.numel())
        sine[grid(x)](x, out, x.numel(), BLOCK=BLOCK)
        return out

    assert flat(torch.empty(3, 4, device="meta")).shape == (12,)
    assert calls


def test_shapes_of_an_autotuned_kernel_need_no_launch() -> None:
    tuned = tile.autotune([tile.Config({"BLOCK": 16}), tile.Config({"BLOCK": 32})], key=["n"])(sine)

    @tile.torch.op("tile_tests::tuned")
    def tuned_sin(x: Tensor) -> Tensor:
        out = torch.empty_like(x)
        tuned[grid(x)](x, out, x.numel())
        return out

    assert tuned_sin(torch.empty(3, device="meta")).shape == (3,)
    x = torch.randn(20)
    torch.testing.assert_close(tuned_sin(x), x.sin())


@tile.jit
def copy_block(source, target, B: tl.constexpr):
    target.store([tl.program_id(0) * B], source.load([tl.program_id(0) * B]))


def test_shapes_of_an_operator_with_tensor_descriptors() -> None:
    @tile.torch.op("tile_tests::copy")
    def copy(x: Tensor) -> Tensor:
        out = torch.empty_like(x)
        blocks = (tile.TensorDescriptor.from_tensor(t, [8]) for t in (x, out))
        copy_block[tile.cdiv(x.numel(), 8),](*blocks, 8)
        return out

    compiled = torch.compile(lambda x: copy(x) + 1, fullgraph=True, backend="aot_eager")
    for n in (16, 24, 40):
        x = torch.randn(n)
        torch.testing.assert_close(compiled(x), x + 1)


def test_an_operator_of_the_library_of_kernels() -> None:
    @tile.torch.op("tile_tests::softmax")
    def softmax(x: Tensor) -> Tensor:
        return tile.ops.softmax(x)

    compiled = torch.compile(lambda x: softmax(x) * 2, fullgraph=True, backend="aot_eager")
    for rows in (3, 5):
        x = torch.randn(rows, 20)
        torch.testing.assert_close(compiled(x), x.softmax(1) * 2)


def test_a_second_definition_replaces_the_first() -> None:
    for k in (2.0, 3.0):

        @tile.torch.op("tile_tests::again")
        def again(x: Tensor) -> Tensor:
            return x * k  # noqa: B023 - called in this iteration

        assert again(torch.ones(1)).item() == k


def test_dispatch_takes_half_the_calls_of_custom_op() -> None:
    """Calls of functions, unlike times, do not depend on what else the machine does."""
    x = torch.empty(1)

    def nothing(x: Tensor) -> Tensor:
        return torch.empty(1)

    def calls(operator: Callable[[Tensor], Tensor]) -> int:
        events: list[str] = []
        operator(x)
        sys.setprofile(lambda frame, event, argument: events.append(event))
        try:
            operator(x)
        finally:
            sys.setprofile(None)
        return events.count("call") + events.count("c_call")

    ours = tile.torch.op("tile_tests::nothing", backward=lambda ctx, grad: grad)(nothing)
    theirs = torch.library.custom_op("tile_tests::slow", nothing, mutates_args=())
    assert 2 * calls(ours) <= calls(theirs)


def test_a_launch_on_a_fake_tensor_says_what_to_do() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        x = torch.empty(3)
        with pytest.raises(
            ArgumentTypeError, match=r"(?s)FakeTensor, .*no memory.*tile\.torch\.op"
        ):
            sine[1,](x, x, 3, BLOCK=32)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("sin", {}, "\"namespace::name\", not 'sin'"),
        ("aten::sin", {}, "use one of your own, or tile.torch.override"),
        ("tile_tests::f", {"mutates_args": "x"}, "is a list of names"),
        ("tile_tests::f", {"mutates_args": ["z"]}, "cannot be an operator"),
        ("tile_tests::f", {"mutates_args": ["x"], "elementwise": True}, "writes x; only"),
    ],
)
def test_wrong_definitions_are_refused(name, options, message) -> None:
    with pytest.raises(ArgumentError, match=message.replace("(", r"\(")):

        @tile.torch.op(name, **options)
        def f(x: Tensor) -> None: ...


def test_a_function_without_annotations_is_refused() -> None:
    with pytest.raises(ArgumentTypeError, match="Parameter x must have a type annotation"):

        @tile.torch.op("tile_tests::untyped")
        def untyped(x):
            return x
