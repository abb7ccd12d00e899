"""`tile.torch.override`, and an override by PyTorch's own `Library`, as the blog has it."""

import subprocess
import sys
import warnings

import pytest
import torch

import tile
import tile.torch
from tests.torch.kernels import scale, sine
from tile.errors import ArgumentError


@pytest.fixture
def calls():
    return []


@pytest.fixture
def kernel_sin(calls):
    def sin(x):
        calls.append(x.shape)
        out = torch.empty_like(x)
        sine[tile.cdiv(x.numel(), 64),](x, out, x.numel(), BLOCK=64)
        return out

    return sin


def test_a_with_block_with_gradients(calls, kernel_sin) -> None:
    x = torch.randn(30, requires_grad=True)
    with tile.torch.override("aten::sin", kernel_sin, device="cpu") as override:
        y = x.sin()
        assert calls == [(30,)] and "aten::sin on cpu" in repr(override)
        torch.cos(torch.randn(3))
    torch.testing.assert_close(y, x.sin())
    assert calls == [(30,)] and "removed" in repr(override)
    y.sum().backward()
    torch.testing.assert_close(x.grad, x.cos())


def test_a_call_lasts_until_it_is_removed(calls, kernel_sin) -> None:
    override = tile.torch.override("aten::sin", kernel_sin, device="cpu")
    torch.sin(torch.randn(3))
    assert len(calls) == 1
    override.remove()
    override.remove()
    torch.sin(torch.randn(3))
    assert len(calls) == 1


def test_the_latest_override_is_called(kernel_sin, calls) -> None:
    x = torch.ones(3)
    with tile.torch.override("aten::sin", kernel_sin, device="cpu"):
        with tile.torch.override("aten::sin", lambda x: x * 2, device="cpu"):
            assert x.sin()[0] == 2
        x.sin()
        assert len(calls) == 1


def test_a_module_calls_an_override_with_options() -> None:
    def gelu(x, *, approximate="none"):
        assert approximate == "tanh"
        out = torch.empty_like(x)
        scale[1,](x, out, x.numel(), 3.0, False, BLOCK=64)
        return out

    x = torch.randn(30, requires_grad=True)
    with tile.torch.override("aten::gelu", gelu, device="cpu"):
        y = torch.nn.GELU("tanh")(x)
        y.sum().backward()
    torch.testing.assert_close(y, x * 3)
    twin = x.detach().requires_grad_()
    torch.nn.functional.gelu(twin, approximate="tanh").sum().backward()
    torch.testing.assert_close(x.grad, twin.grad)  # PyTorch's formula


def test_an_overload_and_other_devices() -> None:
    with tile.torch.override("aten::add.Tensor", lambda x, y, *, alpha=1: x * 5, device="cpu"):
        assert (torch.ones(2) + torch.ones(2)).tolist() == [5, 5]
        assert (torch.ones(2, device="meta") + torch.ones(2, device="meta")).shape == (2,)


@pytest.mark.parametrize(
    ("name", "function", "device", "message"),
    [
        ("sin", torch.cos, "cpu", "named as \"aten::gelu\", not 'sin'"),
        ("aten::sine", torch.cos, "cpu", "no operator aten::sine; did you mean aten::"),
        ("aten::add.Tensors", torch.cos, "cpu", "is not one of aten::add.Tensor, "),
        ("aten::softmax.int", torch.cos, "cpu", "override these instead, such as aten::_softmax"),
        ("aten::gelu", lambda x: x, "cpu", "got an unexpected keyword argument 'approximate'"),
        ("aten::gelu", torch.cos, "xpu", "'cpu' or 'cuda', not 'xpu'"),
    ],
)
def test_wrong_overrides_are_refused(name, function, device, message) -> None:
    with pytest.raises(ArgumentError) as error:
        tile.torch.override(name, function, device)
    assert message in str(error.value)


def test_a_result_of_another_shape_or_type_is_refused() -> None:
    x = torch.ones(3)
    for function in (lambda x: x.new_empty(4), lambda x: x.double()):
        with tile.torch.override("aten::sin", function, device="cpu"):
            with pytest.raises(ArgumentError, match=r"returns torch.float32 of shape \[3\]"):
                x.sin()


BLOG = """
import torch
import triton
import triton.language as tl

# `sin` CUDA kernel
@triton.jit
def _sin(x_ptr, output_ptr,
        BLOCK_SIZE: tl.constexpr,
):
    pid = tl.program_id(axis=0)
    block_start = pid * BLOCK_SIZE
    offsets = block_start + tl.arange(0, BLOCK_SIZE)
    # Load data
    x = tl.load(x_ptr + offsets)
    output = tl.sin(x)
    # Write-back output
    tl.store(output_ptr + offsets, output)


def triton_sin(x):
    output = torch.empty_like(x)
    assert x.is_contiguous()
    n_elements = x.numel()
    grid = lambda meta: (triton.cdiv(n_elements, meta['BLOCK_SIZE']),)
    # Launch `sin` kernel
    _sin[grid](x, output, BLOCK_SIZE=256)
    return output

x = torch.randn(size=(64, 64))
torch.testing.assert_close(triton_sin(x), torch.sin(x))

lib = torch.library.Library("aten", "IMPL", "CPU")
lib.impl('sin', triton_sin)

x = torch.randn(256, requires_grad=True)
y = x.sin()
y.sum().backward()

with torch.no_grad():
    torch.testing.assert_close(x.grad, x.cos())
assert _sin.cache
print("the blog's program ran")
"""


def test_the_blogs_own_library(tmp_path) -> None:
    """With a CPU for CUDA, and 256 elements for 10, which its kernel would exceed."""
    program = tmp_path / "blog.py"
    program.write_text(BLOG)
    command = [sys.executable, "-m", "tile", "triton", str(program)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout == "the blog's program ran\n", done.stderr


def test_no_warning_is_left(kernel_sin) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with tile.torch.override("aten::sin", kernel_sin, device="cpu"):
            torch.ones(2).sin()
