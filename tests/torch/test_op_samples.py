"""PyTorch's own test inputs, computed by `tile.ops` and by PyTorch: results and gradients."""

from __future__ import annotations

import random
import sys
import types
import unittest
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import tile.ops

if "expecttest" not in sys.modules:  # PyTorch's samples import it, and use nothing of it
    sys.modules["expecttest"] = types.ModuleType("expecttest")
    sys.modules["expecttest"].TestCase = unittest.TestCase

from torch.testing._internal.common_methods_invocations import op_db

# Functions of PyTorch, and an operator below each that this library must have computed.
FUNCTIONS = {
    "addmm": "addmm",
    "bmm": "bmm",
    "cummax": "cummax",
    "cummin": "cummin",
    "cumprod": "cumprod",
    "cumsum": "cumsum",
    "log_softmax": "_log_softmax",
    "logcumsumexp": "logcumsumexp",
    "matmul": "mm",
    "mm": "mm",
    "native_layer_norm": "native_layer_norm",
    "nn.functional.adaptive_avg_pool2d": "_adaptive_avg_pool2d",
    "nn.functional.adaptive_max_pool2d": "adaptive_max_pool2d",
    "nn.functional.avg_pool2d": "avg_pool2d",
    "nn.functional.batch_norm": "native_batch_norm",
    "nn.functional.binary_cross_entropy": "binary_cross_entropy",
    "nn.functional.binary_cross_entropy_with_logits": "binary_cross_entropy_with_logits",
    "nn.functional.conv1d": "convolution",
    "nn.functional.conv2d": "convolution",
    "nn.functional.conv_transpose1d": "convolution",
    "nn.functional.conv_transpose2d": "convolution",
    "nn.functional.cross_entropy": "nll_loss_forward",
    "nn.functional.embedding": "embedding",
    "nn.functional.gelu": "gelu",
    "nn.functional.group_norm": "native_group_norm",
    "nn.functional.huber_loss": "huber_loss",
    "nn.functional.instance_norm": "native_batch_norm",
    "nn.functional.interpolate": "upsample_bilinear2d",
    "nn.functional.layer_norm": "native_layer_norm",
    "nn.functional.linear": "addmm",
    "nn.functional.max_pool2d": "max_pool2d_with_indices",
    "nn.functional.mse_loss": "mse_loss",
    "nn.functional.nll_loss": "nll_loss_forward",
    "nn.functional.relu": "relu",
    "nn.functional.scaled_dot_product_attention": "_scaled_dot_product_flash_attention_for_cpu",
    "nn.functional.silu": "silu",
    "nn.functional.smooth_l1_loss": "smooth_l1_loss",
    "nn.functional.upsample_bilinear": "upsample_bilinear2d",
    "sigmoid": "sigmoid",
    "softmax": "_softmax",
    "sort": "sort.stable",
    "tanh": "tanh",
    "topk": "topk",
}
SCANS = ("cummax", "cummin", "cumprod", "cumsum", "logcumsumexp")
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
# Narrow types lose bits in each step, in PyTorch, too: see `permitted`. Scores of attention are up to
# some hundreds.
TOLERANCES = {
    2: {"rtol": 2e-2, "atol": 2e-2},
    4: {"rtol": 1e-5, "atol": 5e-5},
    8: {"rtol": 1e-7, "atol": 1e-7},
}
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
SAMPLES = 8  # of a function, in each run but the nightly one
MOST_ELEMENTS = 20_000  # of a sample's tensors; the interpreter is slow


def tensors_of(tree: Any) -> list[torch.Tensor]:
    leaves = torch.utils._pytree.tree_leaves(tree)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def samples_of(name: str, dtype: torch.dtype) -> Iterator[tuple[Any, Any]]:
    for op in op_db:
        if op.name == name and (name != "nn.functional.interpolate" or "bilinear" in op.full_name):
            if dtype not in op.supported_dtypes("cpu"):
                continue
            gradients = dtype in op.supported_backward_dtypes("cpu") and op.supports_autograd
            for sample in op.sample_inputs("cpu", dtype, requires_grad=gradients):
                if name in SCANS and sample.input.dim():
                    sample.args = (-1,)  # PyTorch computes other axes, and the samples have these
                if name == "sort":  # otherwise equal elements may be in any order
                    named = dict(zip(("dim", "descending"), sample.args, strict=False))
                    sample.args, sample.kwargs = (), {**named, **sample.kwargs, "stable": True}
                leaves = tensors_of((sample.input, sample.args, sample.kwargs))
                if sum(leaf.numel() for leaf in leaves) <= MOST_ELEMENTS:
                    yield op, sample


def wide(tensor: torch.Tensor, widen: torch.dtype | None) -> torch.Tensor:
    return tensor.to(widen) if widen and tensor.is_floating_point() else tensor


def wide_type(name: str, dtype: torch.dtype) -> torch.dtype | None:
    """Return the type in which PyTorch's results are exact enough to compare with; None for its own.

    PyTorch's layer norm of one element, which is 0, is off by some hundred units in the last place
    of the element.
    """
    if dtype.itemsize == 2:
        return torch.float32
    return torch.float64 if dtype == torch.float32 and "layer_norm" in name else None


def results_of(op: Any, sample: Any, widen: torch.dtype | None = None) -> list[torch.Tensor]:
    """Return the results for a sample and the gradients of its tensors.

    `widen` computes in this type what is given in narrower ones. PyTorch changes running statistics:
    each computation has its own tensors.
    """
    inputs = (sample.input, sample.args, sample.kwargs)
    tensors = tensors_of(inputs)
    copies = {
        id(t): wide(t.detach().clone(memory_format=torch.preserve_format), widen) for t in tensors
    }
    for t in tensors:
        copies[id(t)].requires_grad_(t.requires_grad)
    first, args, kwargs = torch.utils._pytree.tree_map(
        lambda leaf: copies.get(id(leaf), leaf) if isinstance(leaf, torch.Tensor) else leaf, inputs
    )
    results = tensors_of(op.op(first, *args, **kwargs))
    needed = [copies[id(t)] for t in tensors if t.requires_grad]
    recorded = [result for result in results if result.requires_grad]
    everything = [*results, *(copy for copy in copies.values() if not copy.requires_grad)]
    if needed and recorded:
        torch.manual_seed(1)
        narrow = sample.input.dtype
        weights = [torch.rand(r.shape).to(narrow).to(r.dtype) for r in recorded]
        gradients = torch.autograd.grad(recorded, needed, weights, allow_unused=True)
        everything += [gradient for gradient in gradients if gradient is not None]
    return [result.detach() for result in everything]


def permitted(dtype: torch.dtype, own: torch.Tensor, exact: torch.Tensor) -> dict[str, float]:
    """Return the tolerances of a result: of narrow types, beyond the greatest error of PyTorch itself.

    Both differ from the result of float32 by the rounding of sums and intermediate results.
    """
    tolerances = TOLERANCES[dtype.itemsize]
    if exact.dtype == own.dtype or not own.numel():
        return tolerances
    errors = (own.to(exact.dtype) - exact).abs().nan_to_num(0, 0)
    return {**tolerances, "atol": tolerances["atol"] + errors.max().item()}


def compare(name: str, dtype: torch.dtype, most: int | None, ours: int = 0) -> int:
    """Compare results of samples; return how many calls of the function's operator are ours.

    most: samples, and more until so many calls are ours.
    """
    torch.manual_seed(0)
    random.seed(0)
    samples = list(samples_of(name, dtype))
    step = -(-len(samples) // most) if most else 1
    samples = [sample for first in range(step) for sample in samples[first::step]]
    computed = 0
    for count, (op, sample) in enumerate(samples):
        if most is not None and count >= most and computed >= ours:
            break
        try:
            expected = results_of(op, sample)
        except RuntimeError:  # PyTorch does not hold it on a CPU
            continue
        with tile.ops.use("cpu") as replaced:
            results = results_of(op, sample)
        computed += replaced.computed[f"aten::{FUNCTIONS[name]}"]
        widen = wide_type(name, dtype)
        wide = expected if widen is None else results_of(op, sample, widen)
        assert len(results) == len(expected) == len(wide)
        for result, own, exact in zip(results, expected, wide, strict=True):
            assert result.dtype == own.dtype
            torch.testing.assert_close(
                result.to(exact.dtype),
                exact,
                equal_nan=True,
                msg=lambda text, call=(sample, replaced): f"{text}\n{call[0]}\n{call[1]}",
                **permitted(dtype, own, exact),
            )
    return computed


@pytest.mark.parametrize("name", FUNCTIONS)
def test_samples(name: str) -> None:
    assert compare(name, torch.float32, SAMPLES, ours=1)
    compare(name, torch.float64, SAMPLES // 4)


@pytest.mark.nightly
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_all_samples(name: str, dtype: torch.dtype) -> None:
    compare(name, dtype, None)
