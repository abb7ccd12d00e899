"""The sizes of a dot below its tile, as options that a launch or a tuner chooses."""

from __future__ import annotations

import pytest

from tests.simt.kernels import KERNELS
from tests.simt.test_lowering import agree, run
from tile.errors import ArgumentTypeError, ArgumentValueError, OutOfResourcesError
from tile.ir.module import Module
from tile.ir.op_definition import Level
from tile.ir.ops import dot as dot_ops
from tile.ir.ops import memory
from tile.ir.passes import PassManager, run_pipeline
from tile.simt import ops
from tile.simt.ops.layout_inference import layout_of
from tile.simt.pass_pipeline import lower, lowering
from tile.simt.target import GENERIC, MMA, WARP64, SimtTarget
from tile.simt.tile_sizes import TileSize, TileSizes


def laid_out(name: str, target: SimtTarget, **options: int | str) -> Module:
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


@pytest.mark.parametrize("size", ["1x4", "4x1", "2x4@1", "@2"])
def test_a_dot_has_sizes_of_its_own(size: str) -> None:
    """That need not be square, and are not those of other dots."""
    name, sizes = "attention_blocks", f"dot1:{size}"
    module = laid_out(name, GENERIC, num_warps=2, thread_tile=2, tile_sizes=sizes)
    first, second = (op for op in module.walk() if op.defn is dot_ops.dot)
    usual, _ = (
        op
        for op in laid_out(name, GENERIC, num_warps=2, thread_tile=2).walk()
        if op.defn is dot_ops.dot
    )
    assert layout_of(first.result) == layout_of(usual.result)
    rows, columns = (
        [int(n) for n in size.partition("@")[0].split("x")] if size[0] != "@" else (2, 2)
    )
    bases = layout_of(second.result).bases("register")
    own = {(1 << bit, 0) for bit in range(rows.bit_length() - 1)}
    own |= {(0, 1 << bit) for bit in range(columns.bit_length() - 1)}
    assert own <= set(bases)
    kernel = KERNELS[name]
    actual = run(kernel, "interp:generic", num_warps=2, tile_sizes=sizes)
    agree(kernel, actual, run(kernel, "interp"))


def test_warps_along_the_rows_of_one_dot() -> None:
    module = laid_out("matmul_f16", MMA, num_warps=8, tile_sizes="dot0:@2")
    (dot,) = (op for op in module.walk() if op.defn is ops.mma.mma_dot)
    assert dot["warps"] == (2, 4)


@pytest.mark.parametrize(("sizes", "width"), [("load0:1", 1), ("load0:2", 2), ("load0:16", 4)])
def test_accesses_have_at_most_so_many_elements(sizes: str, width: int) -> None:
    module = laid_out("row_sums", GENERIC, num_warps=4, tile_sizes=sizes)
    (load,) = (op for op in module.walk() if op.defn is memory.load)
    bases = layout_of(load.result).bases("register")
    contiguous = {basis for basis in bases if basis[0] == 0 and basis[1] < 8}
    assert contiguous == {(0, 1 << bit) for bit in range(width.bit_length() - 1)}
    kernel = KERNELS["row_sums"]
    agree(kernel, run(kernel, "interp:generic", tile_sizes=sizes), run(kernel, "interp"))


def test_sizes_as_text() -> None:
    text = "dot0:2x8@4+dot1:4x4+dot2:@2+load2:4"
    sizes = TileSizes.parse(text)
    assert str(sizes) == text and sizes.of("dot0") == TileSize(2, 8, 4)
    assert sizes.of("load2") == TileSize(columns=4) and sizes.of("dot9") is None
    module = KERNELS["matmul_f32"].compile("interp").artifact.module.clone()
    run_pipeline(module, "assign-layouts{tile_sizes=dot0:1x2}")
    (dot,) = (op for op in module.walk() if op.defn is dot_ops.dot)
    assert (0, 1) in layout_of(dot.result).bases("register")


@pytest.mark.parametrize(
    "text", ["dot0", "dot0:", "dot0:3x4", "dot0:2x32", "load0:2x2", "tile0:4", "dot0:2x2+dot0:@2"]
)
def test_sizes_that_are_refused(text: str) -> None:
    with pytest.raises(ArgumentValueError, match=r"tile_sizes (has|names)"):
        KERNELS["matmul_f32"].compile("interp:generic", tile_sizes=text)
    with pytest.raises(ArgumentTypeError, match="tile_sizes is a text"):
        KERNELS["matmul_f32"].compile("interp:generic", tile_sizes={"dot0": 2})


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
