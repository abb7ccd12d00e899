"""Autograd raises where a launch has changed what it saved, and no gradient passes a launch."""

from __future__ import annotations

import pytest

import tile
import tile.language as tl
from tests.runtime.kernels import add
from tile.errors import ArgumentValueError
from tile.runtime.jit import JITFunction

torch = pytest.importorskip("torch")
SAVED = "modified by an inplace operation"


@tile.jit
def negate_blocks(source, target, N: tl.constexpr):
    target.store([tl.program_id(0) * N], -source.load([tl.program_id(0) * N]))


@tile.jit
def add_pair(pair, out_ptr, n: tl.constexpr):
    i = tl.arange(0, n)
    tl.store(out_ptr + i, tl.load(pair[0] + i) + tl.load(pair[1] + i))


def by_descriptor(x, y):
    other = tile.TensorDescriptor.from_tensor(y, [8])
    negate_blocks[4,](other, tile.TensorDescriptor.from_tensor(x, [8]), 8)


def tuned(x, y):
    configs = [tile.Config({"BLOCK": 8}), tile.Config({"BLOCK": 16})]
    kernel = tile.autotune(configs, key=["n"], restore_value=["out_ptr"])(add)
    kernel[lambda meta: (tile.cdiv(32, meta["BLOCK"]),)](y, y, x, 32)


def compiled(x, y):
    kernel = add.warmup(y, y, x, 32, BLOCK=32)
    kernel[1,](y, y, x, 32)


LAUNCHES = {
    "launch": lambda x, y: add[1,](y, y, x, 32, BLOCK=32),
    "by name": lambda x, y: add[1,](out_ptr=x, x_ptr=y, y_ptr=y, n=32, BLOCK=32),
    "of a view": lambda x, y: add[1,](y, y, x[8:], 8, BLOCK=32),
    "of a tuple": lambda x, y: add_pair[1,]((y, y), x, 32),
    "by descriptor": by_descriptor,
    "tuned": tuned,
    "compiled": compiled,
}


@pytest.mark.parametrize("launch", LAUNCHES.values(), ids=LAUNCHES)
@pytest.mark.parametrize("grad_mode", [True, False])
def test_the_gradient_of_what_a_launch_has_changed_raises(launch, grad_mode) -> None:
    x, y = torch.randn(32), torch.randn(32)
    weight = torch.randn(32, requires_grad=True)
    product = weight * x
    with torch.set_grad_enabled(grad_mode):
        launch(x, y)
    with pytest.raises(RuntimeError, match=SAVED):
        product.sum().backward()


@pytest.mark.parametrize("launch", LAUNCHES.values(), ids=LAUNCHES)
def test_what_a_launch_reads_is_unchanged(launch) -> None:
    x, y = torch.randn(32), torch.randn(32)
    weight = torch.randn(32, requires_grad=True)
    product = weight * y
    launch(x, y)
    product.sum().backward()
    torch.testing.assert_close(weight.grad, y)


def test_a_function_of_autograd_saves_what_its_kernel_writes() -> None:
    """PyTorch saves when `forward` has returned, so the launch is no later change."""

    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            out = torch.empty_like(x)
            ctx.save_for_backward(x, out)
            add[1,](x, x, out, 32, BLOCK=32)
            return out

        @staticmethod
        def backward(ctx, grad):
            x, out = ctx.saved_tensors
            torch.testing.assert_close(out, 2 * x)
            result = torch.empty_like(grad)
            add[1,](grad.contiguous(), grad.contiguous(), result, 32, BLOCK=32)
            return result

    x = torch.randn(32, requires_grad=True)
    Doubled.apply(x).sum().backward()
    torch.testing.assert_close(x.grad, torch.full((32,), 2.0))


@pytest.mark.parametrize("launch", LAUNCHES.values(), ids=LAUNCHES)
@pytest.mark.parametrize("leaf", [True, False])
def test_writing_what_requires_a_gradient_is_refused(launch, leaf) -> None:
    x, y = torch.randn(32, requires_grad=True), torch.randn(32)
    written = x if leaf else x * 1
    before = written.detach().clone()
    with pytest.raises(ArgumentValueError) as raised:
        launch(written, y)
    assert "which requires a gradient, and autograd does not see it" in raised.value.message
    torch.testing.assert_close(written.detach(), before)
    with torch.no_grad():
        launch(written, y)
    assert not torch.equal(written.detach(), before)


def test_the_error_names_the_argument_and_what_to_do() -> None:
    x, y = torch.randn(32, requires_grad=True), torch.randn(32)
    with pytest.raises(ArgumentValueError) as raised:
        add[1,](y, y, x, 32, BLOCK=32)
    assert raised.value.message.startswith("add() writes 'out_ptr', which requires a gradient")
    assert "x.detach()" in raised.value.message
    add[1,](y, y, x.detach(), 32, BLOCK=32)
    torch.testing.assert_close(x.detach(), 2 * y)


def test_kernels_of_triton_write_what_they_like() -> None:
    """Programs written for Triton do, as its optimizers; the change is counted as well."""
    kernel = JITFunction(add.fn, whole_storage=True)
    x, y = torch.randn(32, requires_grad=True), torch.randn(32)
    version = x._version
    kernel[1,](y, y, x, 32, BLOCK=32)
    assert x._version > version


def test_tensors_of_inference_mode() -> None:
    with torch.inference_mode():
        x, y = torch.randn(32), torch.randn(32)
        add[1,](y, y, x, 32, BLOCK=32)
    torch.testing.assert_close(x, 2 * y)
