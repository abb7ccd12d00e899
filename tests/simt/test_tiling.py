"""The sizes of a dot below its tile, as options that a launch or a tuner chooses."""

from __future__ import annotations

import pytest

from tests.simt.kernels import KERNELS
from tests.simt.test_lowering import agree, run
from tile.errors import ArgumentTypeError, ArgumentValueError, OutOfResourcesError
from tile.ir.core import Level, Module
from tile.ir.ops import dot as dot_ops
from tile.ir.passes import PassManager
from tile.simt import ops
from tile.simt.ops.layout_inference import layout_of
from tile.simt.pass_pipeline import lower, lowering
from tile.simt.target import GENERIC, MMA, WARP64, SimtTarget


def laid_out(name: str, target: SimtTarget, **options: int) -> Module:
    """A kernel's module with layouts."""
    module = KERNELS[name].compile("interp").artifact.module.clone()
    passes = lowering(target, **options)
    layouts = [item.defn.name for item in passes].index("assign-layouts") + 1
    PassManager(passes[:layouts]).run(module, Level.TILE)
    return module


@pytest.mark.parametrize("rows", [1, 2, 4, 8])
def test_warps_share_rows_and_columns(rows: int) -> None:
    module = laid_out("matmul_f16", MMA, num_warps=8, warp_rows=rows)
    (dot,) = (op for op in module.walk() if op.defn is ops.mma.mma_dot)
    assert dot["warps"] == (rows, 8 // rows)
    kernel = KERNELS["matmul_f16"]
    for machine in ("mma", "generic"):
        actual = run(kernel, f"interp:{machine}", num_warps=8, warp_rows=rows)
        agree(kernel, actual, run(kernel, "interp"))


@pytest.mark.parametrize("size", [1, 2, 4])
def test_a_thread_has_squares(size: int) -> None:
    module = laid_out("matmul_f32", GENERIC, num_warps=1, thread_tile=size)
    (dot,) = (op for op in module.walk() if op.defn is dot_ops.dot)
    bases = layout_of(dot.result).bases("register")
    assert {basis for basis in bases if max(basis) < size} >= {
        step for bit in range(size.bit_length() - 1) for step in ((1 << bit, 0), (0, 1 << bit))
    }
    kernel = KERNELS["matmul_f32"]
    actual = run(kernel, "interp:generic", num_warps=1, thread_tile=size)
    agree(kernel, actual, run(kernel, "interp"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"thread_tile": 3}, "thread_tile must be a power of two up to 16, not 3"),
        ({"thread_tile": 32}, "thread_tile must be a power of two up to 16, not 32"),
        ({"warp_rows": 8}, "warp_rows must be a power of two up to 4, not 8"),
        ({"warp_rows": -1}, "warp_rows must be a power of two up to 4, not -1"),
    ],
)
def test_sizes_that_there_are_not(options: dict[str, int], message: str) -> None:
    with pytest.raises(ArgumentValueError, match=message):
        KERNELS["matmul_f32"].compile("interp", **options)


def test_an_option_that_no_pass_has() -> None:
    with pytest.raises(ArgumentTypeError, match="the lowering has no option 'warp_size'"):
        lowering(GENERIC, warp_size=3)


def test_more_threads_than_the_machine_has() -> None:
    module = KERNELS["softmax"].compile("interp").artifact.module.clone()
    with pytest.raises(OutOfResourcesError, match=r"2048 threads.*num_warps = 16 fits") as refused:
        lower(module, WARP64, num_warps=32)
    assert refused.value.loc is not None
