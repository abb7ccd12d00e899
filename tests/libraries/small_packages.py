"""Functions of small packages that are written in Triton, against formulas in PyTorch.

    tile triton -m pytest -p tests.libraries.plugin --cpu-seconds 100 tests/libraries/small_packages.py

They were written for GPUs, by many hands: kernels of inference, of losses, of clustering, of images.
On a CPU their tensors say that they are on a GPU.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from unittest import mock

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from tests.libraries.flag_gems_on_cpu import answering_for_the_cpu

HALF, FLOAT = torch.float16, torch.float32


@pytest.fixture(autouse=True)
def on_gpu() -> Iterator[None]:
    """Let tensors on the CPU say that they are on a GPU, and torch.cuda answer for it."""
    torch.manual_seed(1)
    with contextlib.ExitStack() as stack:
        if torch.get_default_device().type == "cpu":
            stack.enter_context(answering_for_the_cpu())
            is_cuda = property(lambda tensor: True)
            stack.enter_context(mock.patch.object(torch.Tensor, "is_cuda", is_cuda))
        yield


def random(*shape: int, dtype: torch.dtype = HALF, scale: float = 1.0) -> Tensor:
    """Return normally distributed numbers."""
    return (torch.randn(*shape) * scale).to(dtype)


def integers(low: int, high: int, *shape: int, dtype: torch.dtype = torch.int64) -> Tensor:
    """Return integers from `low` on and below `high`."""
    return torch.randint(low, high, shape).to(dtype)


def assert_near(actual: Tensor, wanted: Tensor, tolerance: float) -> None:
    """Compare relative to the greatest element."""
    difference = (actual.float() - wanted.float()).abs().max().item()
    assert difference <= tolerance * max(1.0, wanted.float().abs().max().item())


def assert_gradients(
    function: Callable[..., Tensor],
    formula: Callable[..., Tensor],
    operands: Sequence[Tensor],
    tolerance: float,
) -> None:
    """Compare results, and the gradients of their sums."""
    ours = [x.detach().clone().requires_grad_() for x in operands]
    theirs = [x.detach().float().requires_grad_() for x in operands]
    result, wanted = function(*ours), formula(*theirs)
    result.float().sum().backward()
    wanted.sum().backward()
    assert_near(result, wanted, tolerance)
    for x, y in zip(ours, theirs, strict=True):
        assert x.grad is not None and y.grad is not None
        assert_near(x.grad, y.grad, tolerance)


# -- conch-triton-kernels


def test_activation() -> None:
    from conch.ops.activation.silu_and_mul import silu_and_mul

    x = random(7, 2 * 96)
    assert_near(silu_and_mul(x), functional.silu(x[:, :96].float()) * x[:, 96:], 2e-3)


def test_norms() -> None:
    from conch.ops.normalization.gemma_rms_norm import gemma_rms_norm
    from conch.ops.normalization.rms_norm import fused_add_rms_norm, rms_norm

    x, residual, weight = random(5, 100), random(5, 100), random(100)
    wanted = functional.rms_norm(x.float(), (100,), weight.float(), 1e-5)
    assert_near(rms_norm(x, weight, 1e-5), wanted, 2e-3)
    wanted = functional.rms_norm(x.float(), (100,), 1 + weight.float(), 1e-5)
    assert_near(gemma_rms_norm(x.clone(), weight, 1e-5), wanted, 4e-3)
    total = x + residual
    fused_add_rms_norm(x, residual, weight, 1e-5)
    assert torch.equal(residual, total)
    assert_near(x, functional.rms_norm(total.float(), (100,), weight.float(), 1e-5), 4e-3)


def paged(batch: int, heads: int, size: int, longest: int) -> tuple[Tensor, ...]:
    """Return caches of keys and values in blocks of 16, the table of blocks, and the lengths."""
    each = -(-longest // 16)
    keys, values = (random(batch * each + 3, 16, heads, size) for _ in range(2))
    table = torch.randperm(len(keys))[: batch * each].view(batch, each).to(torch.int32)
    lengths = integers(1, longest + 1, batch, dtype=torch.int32)
    lengths[0] = longest
    return keys, values, table, lengths


def gathered(cache: Tensor, blocks: Tensor, length: int, heads: int) -> Tensor:
    """Return the cached vectors of a sequence, (heads, length, size)."""
    rows = cache[blocks.long()].flatten(0, 1)[:length].float()
    return rows.repeat_interleave(heads // rows.shape[1], 1).transpose(0, 1)


def test_paged_attention() -> None:
    from conch.ops.attention.paged_attention import paged_attention

    keys, values, table, lengths = paged(3, 2, 32, 50)
    q = random(3, 4, 32)
    result = paged_attention(q, keys, values, table, lengths, scale=32**-0.5)
    for one, blocks, length, row in zip(q, table, lengths.tolist(), result, strict=True):
        k, v = (gathered(cache, blocks, length, 4) for cache in (keys, values))
        wanted = functional.scaled_dot_product_attention(one.float()[:, None], k, v)[:, 0]
        assert_near(row, wanted, 5e-3)


def test_attention_of_sequences_in_a_row() -> None:
    from conch.ops.attention.varlen_attention import varlen_attention

    keys, values, table, lengths = paged(3, 2, 32, 50)
    ends = functional.pad(lengths.cumsum(0), (1, 0)).to(torch.int32)
    q = random(int(ends[-1]), 4, 32)
    result = varlen_attention(
        q, keys, values, ends, 50, lengths, 50, table, causal=True, scale=32**-0.5
    )
    for at, length in enumerate(lengths.tolist()):
        k, v = (gathered(cache, table[at], length, 4) for cache in (keys, values))
        own = slice(int(ends[at]), int(ends[at + 1]))
        own_q = q[own].float().transpose(0, 1)
        wanted = functional.scaled_dot_product_attention(own_q, k, v, is_causal=True).transpose(
            0, 1
        )
        assert_near(result[own], wanted, 5e-3)


def test_matmuls_of_integers() -> None:
    from conch.ops.quantization.gemm import mixed_precision_gemm, scaled_gemm

    a, b = (
        integers(-127, 128, 64, 64, dtype=torch.int8),
        integers(-127, 128, 128, 64).to(torch.int8),
    )
    scale_a, scale_b = torch.rand(64, 1) * 0.01, torch.rand(128, 1) * 0.01
    wanted = (a.double() @ b.double().t()).float() * scale_a * scale_b.t()
    assert_near(scaled_gemm(a, b.t(), scale_a, scale_b, HALF), wanted, 4e-3)
    x, weights, scales = random(20, 256, scale=0.1), integers(0, 16, 256, 64), random(2, 64)
    packed = sum(weights[at::8] << 4 * at for at in range(8))
    assert isinstance(packed, Tensor)
    signed = torch.where(packed >= 1 << 31, packed - (1 << 32), packed).to(torch.int32)
    wanted = x.float() @ ((weights - 8) * scales.float().repeat_interleave(128, 0))
    assert_near(mixed_precision_gemm(x, signed, scales, None, 4, 8, 128), wanted, 1e-2)


@pytest.mark.parametrize("kind", ["nf4", "fp4"])
def test_four_bits(kind: str) -> None:
    from conch.ops.quantization.bitsandbytes.functional import dequantize_4bit, quantize_4bit

    x = random(4096)
    packed, state = quantize_4bit(x, quant_type=kind)
    error = dequantize_4bit(packed, state, quant_type=kind).float() - x
    assert error.abs().mean() < 0.1 and packed.numel() == 2048


def test_boxes_that_overlap() -> None:
    from conch.ops.vision.nms import nms

    low, scores = torch.rand(40, 2) * 100, torch.rand(40)
    boxes = torch.cat([low, low + torch.rand(40, 2) * 40], 1)
    areas = (boxes[:, 2:] - boxes[:, :2]).prod(1)
    kept: list[int] = []
    for at in scores.argsort(descending=True).tolist():
        corners = torch.minimum(boxes[kept, 2:], boxes[at, 2:])
        sides = (corners - torch.maximum(boxes[kept, :2], boxes[at, :2])).clamp(min=0)
        both = sides.prod(1)
        if not (both / (areas[kept] + areas[at] - both) > 0.4).any():
            kept.append(at)
    assert nms(boxes, scores, 0.4).tolist() == kept


def test_caches() -> None:
    from conch.ops.vllm.reshape_and_cache import reshape_and_cache

    keys, values = random(9, 2, 16), random(9, 2, 16)
    caches = [torch.zeros(3, 16, 2, 16, dtype=HALF) for _ in range(2)]
    slots = torch.randperm(48)[:9]
    reshape_and_cache(keys, values, *caches, slots)
    for rows, cache in zip((keys, values), caches, strict=True):
        assert torch.equal(cache.flatten(0, 1)[slots], rows)


# -- attention and losses


def test_entmax() -> None:
    from adasplash import triton_entmax_v1, triton_entmax_v2

    x = random(9, 200, dtype=FLOAT)
    result = triton_entmax_v2(x)
    assert_near(result.sum(-1), torch.ones(9), 1e-3)
    assert_near(triton_entmax_v1(x), result, 1e-3)
    support = result > 1e-6  # entmax of alpha 1.5: (x / 2 - threshold) squared
    thresholds = torch.where(support, x / 2 - result.sqrt(), torch.nan)
    spread = thresholds.nan_to_num(-torch.inf).amax(1) - thresholds.nan_to_num(torch.inf).amin(1)
    assert_near(spread, torch.zeros(9), 5e-3)


def test_attention_of_two_packages() -> None:
    from fskernels.triton.triton_fa2 import flash_attention_2_fwd
    from jvp_flash_attention.jvp_attention import attention

    q, k, v = (random(1, 2, 128, 64) for _ in range(3))
    wanted = functional.scaled_dot_product_attention(q.float(), k.float(), v.float())
    assert_near(flash_attention_2_fwd(q, k, v), wanted, 1e-2)
    assert_gradients(attention, functional.scaled_dot_product_attention, [q, k, v], 1e-2)


def test_late_interaction() -> None:
    from late_interaction_kernels import maxsim

    def formula(q: Tensor, d: Tensor) -> Tensor:
        return torch.einsum("qld,nkd->qnlk", q, d).amax(-1).sum(-1)

    shapes = ((3, 8, 32), (4, 20, 32))
    operands = [functional.normalize(random(*shape, dtype=FLOAT), dim=-1) for shape in shapes]
    assert_gradients(maxsim, formula, operands, 5e-3)


def test_gated_layer() -> None:
    from flash_swiglu_mlp.ops import flash_swiglu

    def formula(x: Tensor, gate: Tensor, up: Tensor, down: Tensor) -> Tensor:
        return functional.linear(
            functional.silu(functional.linear(x, gate)) * functional.linear(x, up), down
        )

    weights = [random(128, 64, scale=0.1), random(128, 64, scale=0.1), random(64, 128, scale=0.1)]
    assert_gradients(flash_swiglu, formula, [random(1, 64, 64), *weights], 1e-2)


def test_matmuls_of_groups() -> None:
    from grouped_mm_bf16.api import grouped_mm

    offsets = torch.tensor([16, 20, 48], dtype=torch.int32)

    def formula(a: Tensor, b: Tensor) -> Tensor:
        parts = a.tensor_split(offsets.tolist()[:-1])
        return torch.cat([x @ y for x, y in zip(parts, b, strict=True)])

    operands = [random(48, 32, dtype=torch.bfloat16), random(3, 32, 48, dtype=torch.bfloat16)]
    assert_gradients(lambda a, b: grouped_mm(a, b, offs=offsets), formula, operands, 1e-2)


# -- clustering, images, formats


def test_neighbors() -> None:
    from flashlib import flash_knn, flash_standard_scaler

    x, y = random(1, 60, 16, dtype=FLOAT), random(1, 90, 16, dtype=FLOAT)
    distances, indices = flash_knn(x, y, 5)
    wanted = torch.cdist(x, y).square().topk(5, largest=False)
    assert_near(distances, wanted.values, 1e-2)
    found = torch.cdist(x, y).square().gather(2, indices.long())
    assert_near(found, wanted.values, 1e-2)
    scaled = flash_standard_scaler(x[0])
    scaled = scaled[0] if isinstance(scaled, tuple) else scaled
    assert_near(scaled, (x[0] - x[0].mean(0)) / x[0].std(0, correction=0), 1e-3)


@pytest.mark.parametrize("name", ["gemm_3xtf32", "gemm_fp16_x9", "gemm_tf32_x6"])
def test_matmuls_of_several_parts(name: str) -> None:
    import flashlib

    a, b = random(70, 80, dtype=FLOAT), random(80, 90, dtype=FLOAT)
    wanted = (a.double() @ b.double()).float()
    assert_near(getattr(flashlib, name)(a, b), wanted, 1e-5)


def test_correlation_at_warped_places() -> None:
    from local_corr.kernel import local_corr

    a, b = random(1, 20, 16, dtype=FLOAT), random(1, 8, 9, 16, dtype=FLOAT)
    places = torch.rand(1, 20, 4, 2) * 2.2 - 1.1
    sampled = functional.grid_sample(b.permute(0, 3, 1, 2), places, align_corners=False)
    assert_near(local_corr(a, b, places), torch.einsum("bnc,bcnk->bnk", a, sampled), 1e-4)


def test_floats_of_few_bits() -> None:
    """A fraction that rounds to one loses its carry, in the package's formulas as well."""
    from mase_triton.minifloat import fake
    from mase_triton.minifloat.functional import quantize_dequantize
    from mase_triton.minifloat.meta import FP8_E4M3_fn

    x = random(9, 128, dtype=torch.bfloat16)
    codes = fake.extract_minifloat_component(x, FP8_E4M3_fn)
    wanted = fake.compose_minifloat_component(codes, FP8_E4M3_fn, x.dtype)
    # Logarithms of powers of two are not always integers on a GPU, with Triton neither.
    assert (quantize_dequantize(x, FP8_E4M3_fn) == wanted).float().mean() > 0.95
