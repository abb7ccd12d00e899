"""Kernels all the way from Python to code that ptxas assembles, without spills."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.backends.nvptx.assembling import ARCHITECTURES, assemble
from tests.sampling import sample
from tests.simt.kernels import KERNELS
from tile.backends.base import Options
from tile.backends.nvptx.compiler import to_ptx
from tile.backends.nvptx.emit import lowering_target
from tile.backends.nvptx.emit.functions import emit_module
from tile.backends.nvptx.target import architecture
from tile.simt.pass_pipeline import lower


@pytest.mark.parametrize(("name", "arch"), sample(KERNELS, ARCHITECTURES))
def test_kernels(name: str, arch: str) -> None:
    check(assemble(KERNELS[name].compile(f"nvptx:{arch}").asm["ptx"], arch))


def check(said: str) -> None:
    """No spills, and no serialized wgmma (C7510 to C7519)."""
    assert "0 bytes spill stores, 0 bytes spill loads" in said
    assert "C75" not in said


@pytest.mark.parametrize("rows", [64, 128])
def test_dots_deferred_by_an_iteration_are_not_serialized(rows: int) -> None:
    target, ordered = lowering_target(architecture("sm_90a")), rows > 64
    tuning = replace(target.tuning, ordered_warpgroups=ordered)
    kernel = replace(KERNELS["attention_blocks"], constants={"N": rows, "D": 128})
    module = kernel.compile("interp").artifact.module.clone()
    options = Options(num_warps=rows // 16, num_stages=2)
    lower(module, replace(target, tuning=tuning), **options.lowering, warp_specialize=True)
    ptx = to_ptx(emit_module(module, architecture("sm_90a"), options), architecture("sm_90a"))
    assert ptx.count("wgmma.wait_group") == 4
    assert ptx.count("setmaxnreg") == 2
    assert ptx.count("barrier.cta.sync") == ptx.count("barrier.cta.arrive") == 3 * ordered
    check(assemble(ptx, "sm_90a"))


@pytest.mark.parametrize(("rows", "warps"), [(64, 4), (128, 8), (256, 16)])
def test_a_program_has_the_registers_that_setmaxnreg_moves(rows: int, warps: int) -> None:
    """Its warps would wait forever for more than all have at entry; a GPU hung with 16 warps."""
    kernel = replace(KERNELS["matmul_blocks"], constants={"BM": rows, "BN": 64, "BK": 32})
    ptx = kernel.compile("nvptx:sm_90a", num_warps=warps, warp_specialize=True).asm["ptx"]
    said = assemble(ptx, "sm_90a")
    check(said)
    (at_entry,) = re.findall(r"Used (\d+) registers", said)
    producer, program = map(int, re.findall(r"setmaxnreg\S+\s+(\d+)", ptx))
    assert 4 * producer + warps * program <= (warps + 4) * int(at_entry)


@pytest.mark.parametrize("depth", [16, 64])
def test_large_fma_dots_fit_in_registers(depth: int) -> None:
    large = replace(KERNELS["matmul_f32"], constants={"BM": 128, "BN": 128, "BK": depth})
    said = assemble(large.compile("nvptx:sm_75", num_warps=8).asm["ptx"], "sm_75")
    assert "0 bytes spill stores, 0 bytes spill loads" in said


def test_f16_dots_are_mma_fed_by_cp_async() -> None:
    ptx = KERNELS["matmul_f16"].compile("nvptx:sm_80").asm["ptx"]
    assert "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32" in ptx
    assert "cp.async.cg.shared.global" in ptx
    assert "ldmatrix.sync.aligned.m8n8.x4.shared.b16" in ptx
    assert "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16" in ptx


@pytest.mark.parametrize("arch", ["sm_75", "sm_80"])
def test_matrices_that_come_together_are_of_one_step(arch: str) -> None:
    """The `b` operands of attention, transposed keys and values, are loaded in a loop.

    Four matrices are of the columns of a step of k; were they of four steps, those of all columns
    would be there at once. A step is told by the part of the left operand that it takes.
    """
    ptx = KERNELS["attention"].compile(f"nvptx:{arch}").asm["ptx"]
    multiplied = re.findall(r"mma\.sync\S+ \{.*?\}, \{(.*?)\}, \{(.*?)\}", ptx)
    lefts: dict[str, set[str]] = {}
    for left, right in multiplied:
        for register in right.split(", "):
            lefts.setdefault(register, set()).add(left)
    loads = re.findall(r"ldmatrix\.sync\S+\.x4\S* \{(.*?)\}", ptx)
    steps = []
    for registers in (load.split(", ") for load in loads):
        if all(register in lefts for register in registers):
            together = set.union(*(lefts[register] for register in registers))
            steps.append(len(together) / max(len(lefts[register]) for register in registers))
    assert steps and max(steps) == 1


def test_sums_in_memory_are_added_in_vectors() -> None:
    """One instruction a thread for relaxed f32, and for f16 with acquire and release."""
    ptx = KERNELS["adding"].compile("nvptx:sm_90a").asm["ptx"]
    assert ptx.count("red.relaxed.gpu.global.add.v4.f32") == 2
    assert ptx.count("red.release.gpu.global.add.noftz.v4.f16x2") == 1
    assert "fence." not in ptx and "atom." not in ptx


def test_integers_of_a_warp_are_combined_at_once() -> None:
    ptx = KERNELS["combining"].compile("nvptx:sm_80").asm["ptx"]
    assert ptx.count("redux.sync.") == 4
    assert "shfl" not in ptx


def test_accumulators_are_stored_as_matrices() -> None:
    assert "stmatrix" in KERNELS["matmul_into_f16"].compile("nvptx:sm_90").asm["ptx"]
    assert "stmatrix" not in KERNELS["matmul_into_f16"].compile("nvptx:sm_80").asm["ptx"]


@pytest.mark.parametrize(("warps", "stages"), [(4, 1), (4, 3), (8, 4)])
@pytest.mark.parametrize("name", ["matmul_f16", "attention"])
def test_groups_multiply_what_copies_put_in_shared_memory(
    name: str, warps: int, stages: int
) -> None:
    options = {"num_warps": warps, "num_stages": stages, "tma": ""}
    ptx = KERNELS[name].compile("nvptx:sm_90a", **options).asm["ptx"]
    assert "wgmma.mma_async.sync.aligned.m64n" in ptx
    assert ("cp.async.cg.shared.global" in ptx) == (stages > 1)
    assert "mma.sync" not in ptx
    check(assemble(ptx, "sm_90a"))


@pytest.mark.parametrize("stages", [2, 3])
@pytest.mark.parametrize(
    ("warps", "rows", "columns"),
    [(4, 64, 32), (4, 64, 64), (4, 64, 128), (8, 128, 32), (8, 128, 64)],
)
def test_wgmma_in_flight_is_not_serialized(
    warps: int, stages: int, rows: int, columns: int
) -> None:
    constants = {"N": rows, "D": columns}
    gradient = replace(KERNELS["gradient"], constants=constants)
    options = {"num_warps": warps, "num_stages": stages}
    ptx = gradient.compile("nvptx:sm_90a", **options).asm["ptx"]
    check(assemble(ptx, "sm_90a"))


@pytest.mark.parametrize("arch", ["sm_90", "sm_100a"])
def test_only_one_architecture_has_wgmma(arch: str) -> None:
    ptx = KERNELS["matmul_f16"].compile(f"nvptx:{arch}").asm["ptx"]
    assert "wgmma" not in ptx


@pytest.mark.parametrize("columns", [128, 256])
def test_a_wgmma_has_its_registers_at_entry(columns: int) -> None:
    """Ptxas refuses it otherwise (C7602), whatever setmaxnreg adds."""
    kernel = KERNELS["matmul_f16"]
    kernel = replace(kernel, constants={**kernel.constants, "BN": columns})
    ptx = kernel.compile("nvptx:sm_90a", num_stages=2, warp_specialize=True).asm["ptx"]
    assert "setmaxnreg.inc" in ptx
    check(assemble(ptx, "sm_90a"))


def loop_of_dots(name: str, stages: int, tma: str) -> str:
    """Return the PTX of a kernel's loop, for an architecture with wgmma."""
    ptx = KERNELS[name].compile("nvptx:sm_90a", num_stages=stages, tma=tma).asm["ptx"]
    start = ptx.index('.pragma "nounroll"')
    loop = re.split(r"\bbra \t\$L__", ptx[start:])[0]
    assert "wgmma.mma_async" in loop
    return loop


def test_pointers_advance_by_additions_in_loops_with_wgmma() -> None:
    """Each pointer of a copy is its start plus the advance; see `PointerInduction`."""
    loop = loop_of_dots("matmul_f16", 4, tma="")
    assert loop.count("cp.async.cg.shared.global") == 4
    assert loop.count("add.s64") >= 4


@pytest.mark.parametrize("stages", [2, 3, 4, 5])
@pytest.mark.parametrize("tma", ["", "pointers"])
@pytest.mark.parametrize(
    "name", ["matmul_f16", "matmul_i8", "matmul_tf32", "matmul_blocks", "attention"]
)
def test_loops_with_wgmma_multiply_no_integers(name: str, tma: str, stages: int) -> None:
    """Multiplications would delay wgmma; see `strength-reduce-pointers` and `StageCounter`."""
    loop = loop_of_dots(name, stages, tma=tma)
    assert not re.findall(r"\b(?:mul|mad|rem|div)\.(?:lo|hi|wide|[su]\d+)\S*", loop)


def test_steps_of_pointers_are_scaled_before_a_loop_with_wgmma() -> None:
    """Given a 64-bit product, ptxas would recompute it in every iteration."""
    ptx = KERNELS["matmul_f16"].compile("nvptx:sm_90a", num_stages=4, tma="").asm["ptx"]
    before, _, loop = ptx.partition('.pragma "nounroll"')
    steps = re.findall(r"shl\.b64\s+(%rd\d+), %rd\d+, 1;", before)
    assert len(steps) == 1
    assert re.search(rf"add\.s64 \t(%rd\d+), \1, {steps[0]};", loop)
