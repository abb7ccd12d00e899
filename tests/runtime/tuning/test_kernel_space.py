"""Spaces that are read from kernels, what cannot win in them, and estimates of times."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.simt.kernels import attention_blocks, matmul, softmax
from tile.errors import ArgumentError, ArgumentTypeError, AutotunerError, CompilationError
from tile.runtime.autotuning.configs import Call, Config
from tile.runtime.autotuning.cost_model import estimate, misfit
from tile.runtime.autotuning.kernel_space import Profile, profiled


def halves(*shape: int) -> Any:
    return np.zeros(shape, np.float16)


A, B, C = halves(128, 128), halves(128, 128), np.zeros((128, 128), np.float32)
SIZES = (128, 128, 128)
BLOCKS = {"BM": 64, "BN": 64, "BK": 32}


def space(machine: str, *args: Any, kernel: Any = matmul, **kwargs: Any) -> dict[str, Any]:
    with tile.backend(f"interp:{machine}" if machine else "interp"):
        found = kernel.space(*args, **kwargs)
    return {dimension.name: dimension.values for dimension in found.dimensions}


def test_dots_without_instructions_have_sizes_for_threads() -> None:
    assert space("generic", A, B, C, *SIZES, **BLOCKS) == {
        "num_warps": (1, 2, 4, 8, 16, 32),
        "thread_tile": (1, 2, 4, 8),
        "warp_rows": (0, 1, 2, 4, 8),
        "num_stages": (1, 2),
    }


def test_dots_by_mma_have_warps_along_rows_and_stages() -> None:
    dimensions = space("mma", A, B, C, *SIZES, **BLOCKS)
    assert list(dimensions) == ["num_warps", "warp_rows", "num_stages"]
    assert dimensions["num_stages"] == (1, 2, 3, 4, 5)


def test_kernels_without_dots_have_warps_alone() -> None:
    x = np.zeros((4, 256), np.float32)
    assert space("mma", x, x, 256, N=256, kernel=softmax) == {"num_warps": (1, 2, 4, 8)}


def test_the_interpreter_on_tiles_has_no_options() -> None:
    assert space("", A, B, C, *SIZES, **BLOCKS) == {}


def test_ranges_of_constants_are_dimensions() -> None:
    dimensions = space("mma", A, B, C, *SIZES, BM=(16, ..., 64), BN=[32, 64], BK=32)
    assert (dimensions["BM"], dimensions["BN"]) == ((16, 32, 64), (32, 64))
    assert list(dimensions)[:2] == ["BM", "BN"] and "BK" not in dimensions


@tile.jit
def annotated_copy(
    x_ptr,
    y_ptr,
    n,
    B: Annotated[tl.constexpr, (64, ..., 256)],
    TIMES: Annotated[tl.constexpr, [1, 2]] = 1,
):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n) * TIMES, mask=i < n)


def test_annotated_constants_are_dimensions() -> None:
    x = np.zeros(256, np.float32)
    warps = {"num_warps": (1, 2, 4, 8)}
    found = {"B": (64, 128, 256), "TIMES": (1, 2)}
    assert space("mma", x, x, 256, kernel=annotated_copy) == found | warps
    assert space("mma", x, x, 256, 64, kernel=annotated_copy) == {
        "TIMES": (1, 2), "num_warps": (1, 2)
    }  # fmt: skip
    assert space("mma", x, x, 256, B=256, TIMES=2, kernel=annotated_copy) == warps
    tuner = tile.autotune(space={"TIMES": (2,)}, key=["n"])(annotated_copy)
    tuner[lambda meta: (256 // meta["B"],)](np.ones(256, np.float32), x, 256)
    assert {dimension.name for dimension in tuner.space.dimensions} == {"B", "TIMES"}
    assert x.tolist() == [2.0] * 256 and tuner.best_config.kwargs["B"] in found["B"]


def test_annotations_that_are_no_values() -> None:
    @tile.jit
    def kernel(x_ptr, B: Annotated[tl.constexpr, (3, ..., 8)]):
        tl.store(x_ptr, B)

    with pytest.raises(ArgumentError, match="B"):
        tile.autotune(space={}, key=[])(kernel)


def test_loops_of_tma_loads_may_be_warp_specialized() -> None:
    a, c = halves(256, 256), halves(256, 256)
    args = (a, a, c, 256, 256, 256)
    found = space("wgmma", *args, BM=128, BK=64, kernel=block_matmul)
    assert found["warp_specialize"] == (False, True)
    assert "warp_specialize" not in space("mma", *args, BM=128, BK=64, kernel=block_matmul)
    with tile.backend("interp:wgmma"):
        points = [*block_matmul.space(*args, BM=128, BK=64).points()]
    assert {p["num_warps"] for p in points if p["warp_specialize"]} == {4, 8, 16, 32}


def test_pointer_loads_may_be_tma_loads() -> None:
    """Only on machines with TMA, and only if the pointers of one of the loads are proven."""
    dimensions = space("wgmma", A, B, C, *SIZES, **BLOCKS)
    assert dimensions["tma"] == ("", "pointers")
    assert dimensions["warp_specialize"] == (False, True)
    assert "tma" not in space("mma", A, B, C, *SIZES, **BLOCKS)
    odd = halves(128, 129)
    assert "tma" not in space("wgmma", odd, odd, C, 128, 129, 129, **BLOCKS)
    with tile.backend("interp:wgmma"):
        points = [*matmul.space(A, B, C, *SIZES, **BLOCKS).points()]
        text = str(matmul.space(A, B, C, *SIZES, **BLOCKS))
    assert {(p["tma"], p["warp_specialize"]) for p in points} == {
        ("", False), ("pointers", False), ("pointers", True)
    }  # fmt: skip
    assert "tma: '', pointers  (pointers of load0, load1 address blocks of arrays)" in text


@pytest.mark.parametrize("tma", ["", "pointers"])
def test_a_tuner_takes_either_form(tma: str) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((64, 64)).astype(np.float16) for _ in range(2))
    c = np.zeros((64, 64), np.float32)
    blocks = {"BM": (64,), "BN": (64,), "BK": (32,)}
    options = {
        "num_warps": (4,),
        "warp_rows": (0,),
        "num_stages": (2,),
        "warp_specialize": (False,),
    }
    tuner = tile.autotune(space={**blocks, **options, "tma": (tma,)}, key=["M"])
    with tile.backend("interp:wgmma"):
        tuner(matmul)[(1, 1)](a, b, c, 64, 64, 64)
    np.testing.assert_allclose(c, a.astype(np.float32) @ b.astype(np.float32), atol=1e-3)


@tile.jit
def block_matmul(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BK: tl.constexpr):
    a = tl.make_tensor_descriptor(a_ptr, [M, K], [K, 1], [BM, BK])
    b = tl.make_tensor_descriptor(b_ptr, [K, N], [N, 1], [BK, BM])
    c = tl.make_tensor_descriptor(c_ptr, [M, N], [N, 1], [BM, BM])
    row, column = tl.program_id(0) * BM, tl.program_id(1) * BM
    total = tl.zeros((BM, BM), dtype=tl.float32)
    for k in range(0, K, BK):
        total = tl.dot(a.load([row, k]), b.load([k, column]), total)
    c.store([row, column], total.to(c.dtype))


def test_each_dot_is_named_with_its_reason() -> None:
    q = halves(64, 16)
    with tile.backend("interp:generic"):
        found = attention_blocks.space(q, q, q, np.zeros((64, 16), np.float32), 64, N=64, D=16)
    texts = {dimension.name: dimension.reason for dimension in found.dimensions}
    assert texts["thread_tile"] == "dot0, dot1 by FMA"
    assert texts["num_stages"] == "a loop loads 4096 bytes in each iteration"


def test_each_tile_has_sizes_of_its_own() -> None:
    q, out = halves(64, 16), np.zeros((64, 16), np.float32)
    with tile.backend("interp:generic"):
        found = attention_blocks.space(q, q, q, out, 64, N=64, D=16, per_tile=True)
    values = {dimension.name: dimension.values for dimension in found.dimensions}
    parts = tuple(f"{rows}x{columns}" for rows in (1, 2, 4) for columns in (1, 2, 4))
    assert values["dot0_thread"] == values["dot1_thread"] == parts
    assert values["dot1_warps"] == (1, 2, 4, 8)
    assert values["load1_width"] == (1, 2, 4, 8) and values["store0_width"] == (1, 2, 4)
    assert not {"thread_tile", "warp_rows"} & {*values}
    assert {d.name: d.reason for d in found.dimensions}["dot1_thread"].endswith("of 64x16x64")
    with tile.backend("interp:mma"):
        mma = attention_blocks.space(q, q, q, out, 64, N=64, D=16, per_tile=True)
    assert "dot0_warps" in mma.names and "dot0_thread" not in mma.names


def test_no_more_warps_than_rules_permit() -> None:
    with tile.backend("interp:mma"):
        found = matmul.space(A, B, C, *SIZES, **BLOCKS)
    assert all(c.kwargs["warp_rows"] <= c.num_warps for c in found)


def test_a_first_point_that_does_not_compile() -> None:
    @tile.jit
    def picky(x, B: tl.constexpr):
        tl.static_assert(B >= 32, "too small")
        tl.store(x + tl.arange(0, B), 1.0)

    x = np.zeros(64, np.float32)
    assert space("generic", x, B=(16, ..., 64), kernel=picky)["num_warps"] == (1, 2)
    with pytest.raises(CompilationError, match="too small"):
        space("generic", x, B=[8, 16], kernel=picky)


def test_tuners_add_what_they_do_not_list() -> None:
    tuner = tile.autotune(space={"BM": (16, ..., 64), "num_warps": (2, 4)}, key=["M"])(matmul)
    with tile.backend("interp:mma"):
        found = tuner.search_space(A, B, C, *SIZES, BN=64, BK=32)
    values = {dimension.name: dimension.values for dimension in found.dimensions}
    assert (values["BM"], values["num_warps"]) == ((16, 32, 64), (2, 4))
    assert "num_stages" in values
    listed = tile.autotune([Config({"BM": 16})], key=[])(matmul)
    with pytest.raises(ArgumentTypeError, match="matmul is tuned among configs, not in a space"):
        listed.search_space(A, B, C, *SIZES)


def test_bad_spaces_are_refused_at_the_decorator() -> None:
    with pytest.raises(ArgumentTypeError, match="space names 'BLOCK', which is not a parameter"):
        tile.autotune(space={"BLOCK": (16, 32)}, key=[])(matmul)
    with pytest.raises(ArgumentTypeError, match="either configs, a list of Config, or space"):
        tile.autotune(key=[])
    with pytest.raises(ArgumentTypeError, match=r"a tile\.Space or a dict, not 3"):
        tile.autotune(space=3, key=[])  # type: ignore[arg-type]
    with pytest.raises(AutotunerError, match="no configuration satisfies"):
        tile.autotune(space=tile.Space(BM=(16,)).where(lambda BM: BM > 16), key=[])(matmul)
    with pytest.raises(tile.errors.ArgumentValueError, match="search is 'best' in autotune"):
        tile.autotune(space={"BM": (16,)}, key=[], search="best")


# -- misfits and estimates


def profile(machine: str, n: int = 1024, **blocks: int) -> Profile:
    a, c = halves(n, n), np.zeros((n, n), np.float32)
    names = dict(zip(matmul.arg_names, (a, a, c, n, n, n), strict=False))

    def grid(meta: Any) -> tuple[int, int]:
        return (tile.cdiv(n, meta["BM"]), tile.cdiv(n, meta["BN"]))

    call = Call((a, a, c, n, n, n), {}, grid, names)
    with tile.backend(f"interp:{machine}"):
        return profiled(matmul, call, Config({**BLOCKS, **blocks}))


def test_a_profile_counts_programs_and_iterations() -> None:
    found = profile("mma")
    assert found.programs == (1024 // 64) ** 2
    assert found.work.of_kind("dot")[0].count == 32


def test_misfits_have_reasons() -> None:
    small, large = profile("mma"), profile("mma", BM=512, BN=512)
    assert misfit(small, {"num_warps": 4}) is None
    assert "registers of a thread for one tile" in str(misfit(large, {"num_warps": 1}))
    machine = small.simt
    assert machine is not None
    most = 2 * machine.max_threads // machine.warp_size
    assert f"a program has at most {machine.max_threads}" in str(misfit(small, {"num_warps": most}))
    deep = profile("mma", BM=256, BN=256, BK=512)
    assert "bytes of operands in an iteration" in str(misfit(deep, {"num_warps": 8}))


def test_estimates_rank_what_is_clear() -> None:
    four = {"num_warps": 4, "num_stages": 3}
    good, tiny = profile("mma", BM=128, BN=128), profile("mma", BM=16, BN=16)
    assert estimate(good, four) < estimate(tiny, four)
    assert estimate(good, {**four, "num_warps": 4}) < estimate(good, {**four, "num_warps": 1})
    generic = profile("generic")
    assert estimate(generic, {**four, "thread_tile": 4}) < estimate(
        generic, {**four, "thread_tile": 1}
    )
    assert estimate(profile("mma", BM=1024, BN=512), {"num_warps": 1}) == float("inf")
