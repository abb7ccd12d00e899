"""All that the other tests run elsewhere is code that ptxas assembles, for each generation of chips.

Each operation of the table in one kernel, the programs of the conformance tests, all kernels of the
examples, and the benchmarks' kernels, which must not spill registers.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest

import tests.conformance.test_atomic_access as atomics
import tests.conformance.test_dots as dots
import tests.conformance.test_effects as effects
import tests.conformance.test_extents as extents
import tests.conformance.test_inline_asm as inline_asm
import tile.language as tl
from benchmarks import gpu_kernels
from tests.backends.nvptx.assembling import ARCHITECTURES, accept, assemble
from tests.conformance.kernels import Step, around_all
from tests.conformance.running import Device
from tests.conformance.test_pure import BATCH, CASES, Case
from tests.sampling import sample
from tile import backends
from tile.backends.base import Options, Target
from tile.config import config
from tile.errors import OutOfResourcesError
from tile.ir.module import Module
from tile.ir.ops.memory import RMWKind
from tile.ir.parser import parse_module
from tile.ir.types import BF16, F16, F32, I8, I32
from tile.runtime import compile as building
from tile.runtime import jit

EXAMPLES = Path(__file__).parents[3] / "examples"


def assembled(module: Module, arch: str, **options: Any) -> None:
    """Compile a TILE module's kernel to PTX that ptxas accepts."""
    backend = backends.get("nvptx")
    artifact = backend.compile(module, Target("nvptx", arch), Options.of(options))
    ptx = artifact.stages["ptx"]
    assert isinstance(ptx, str)
    accept(ptx, arch)


# -- the table


def spread(cases: Sequence[Case]) -> list[Case]:
    """A kernel's worth of cases, from all over the list."""
    return list(cases[:: -(-len(cases) // BATCH)])


@pytest.mark.parametrize(("name", "arch"), sample(CASES, ARCHITECTURES))
def test_every_operation(name: str, arch: str) -> None:
    steps = [Step(c.defn, c.operands, c.attributes, c.regions()) for c in spread(CASES[name])]
    assembled(around_all(steps, masked=True), arch, num_warps=2)


class Assembled(Exception):
    """A program has been assembled, which is all that is asked of it here."""


class Assembling(Device):
    """Replaces a device: assembles kernels instead of running them."""

    def run(
        self, module: Module | str, grid: tuple[int, int, int], arguments: Sequence[Any]
    ) -> None:
        parsed = parse_module(module) if isinstance(module, str) else module
        assembled(parsed, self.target)
        raise Assembled


PROGRAMS: dict[str, Callable[[Device], None]] = {
    "place": effects.test_programs_know_their_place,
    "moves": partial(effects.test_load_and_store, element=BF16),
    "for": effects.test_for_counts_up_and_down_with_bounds_that_differ,
    "while": effects.test_while_with_a_test_that_each_program_answers_for_itself,
    "calls": partial(effects.test_calls_under_a_condition, noinline=""),
    "kept calls": partial(effects.test_calls_under_a_condition, noinline="noinline "),
    "inline PTX: statements": inline_asm.test_statements,
    "inline PTX: bytes": partial(inline_asm.test_narrow_elements, count=1024, pack=4),
    "inline PTX: operands": inline_asm.test_operands_are_broadcast,
    "inline PTX: accesses": inline_asm.test_accesses_through_pointers,
    "inline PTX: special registers": inline_asm.test_special_registers,
    "inline PTX: combine function": inline_asm.test_combine_functions,
    **{
        f"cas {element}": partial(effects.test_atomic_cas, element=element)
        for element in (I8, BF16, F32)
    },
    "poll": partial(atomics.test_a_poll_waits_for_every_element, element=I8),
    "poll with a timeout": partial(atomics.test_a_poll_ends_when_its_time_is_over, budget=0),
    "padded dots": extents.test_dots_in_a_loop,
    "padded parts": extents.test_all_elements_and_parts,
    "padded atomics": extents.test_atomics_skip_padding,
    "padded prints": partial(extents.test_padding_is_not_printed, capfd=None),
    "padded calls": partial(extents.test_tiles_that_loops_branches_and_calls_carry, noinline=True),
    **{
        f"padded {group}": partial(extents.test_operations, group=group, other=extents.greatest)
        for group in extents.GROUPS
    },
    "dots of a batch": partial(dots.test_two_batch_axes, element=F16, accumulator=F32),
    **{
        f"dots of {precision}": partial(
            dots.test_the_error_of_terms, precision=precision, by_default=False
        )
        for precision in dots.BOUNDS
    },
    **{
        f"{kind} {element}": partial(
            effects.test_atomic_rmw,
            kind=kind,
            element=element,
            used=element is I32 and kind is not RMWKind.STORE,
        )
        for kind, elements in effects.RMW_ELEMENTS.items()
        for element in elements
    },
}


@pytest.mark.parametrize(("name", "arch"), sample(PROGRAMS, ARCHITECTURES))
def test_programs(name: str, arch: str) -> None:
    with pytest.raises(Assembled):
        PROGRAMS[name](Assembling(arch))


# -- the examples

Build = tuple[Any, Any, Options]

# Small sizes: what is compiled is the same.
SIZES = {
    "attention": ["--context", "128", "--heads", "1"],
    "convolution": ["--batch", "1", "--channels", "16", "--filters", "16"],
    "dropout": ["--elements", "4096"],
    "layer_norm": ["--rows", "64", "--columns", "256"],
    "matmul": ["--sizes", "64", "64", "64"],
    "matmul_descriptor": ["--sizes", "64", "64", "64"],
    "matmul_nt": ["--sizes", "64", "64", "64"],
    "shift_conv": ["--batch", "1", "--channels", "16", "--filters", "16"],
    "sin": ["--rows", "8", "--columns", "256"],
    "softmax": ["--rows", "16"],
    "triton_c": ["--sizes", "64", "64", "64"],
    "vector_add": [],
}


@cache
def built_by(name: str) -> list[Build]:
    """The kernels that an example compiles when it runs, each with its arguments' types."""
    builds: list[Build] = []

    def build(function: Any, leaves: Any, target: Target, options: Options, **more: Any) -> Any:
        builds.append((function, leaves, options))
        return building.build(function, leaves, target, options, **more)

    path = EXAMPLES / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"example_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch, config.scope(backend="interp"):
        patch.syspath_prepend(str(EXAMPLES))
        patch.setattr(sys, "argv", [str(path), *SIZES[name]])
        patch.setattr(jit, "build", build)
        spec.loader.exec_module(module)
        assert module.main() == 0
    return builds


def test_all_examples_are_here() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} - {"report"} == set(SIZES)


@pytest.mark.parametrize(("name", "arch"), sample(SIZES, ARCHITECTURES, 2))
def test_examples(name: str, arch: str) -> None:
    """Each function as it was compiled last, for f16, in tiles that fit the chip's memory."""
    waiting = {function for function, _, _ in built_by(name)}
    assert waiting
    for function, leaves, options in reversed(built_by(name)):
        if function in waiting:
            try:
                compiled = building.build(function, leaves, Target("nvptx", arch), options)
            except OutOfResourcesError:
                continue
            accept(compiled.asm["ptx"], arch)
            waiting.remove(function)
    assert not waiting


# -- the benchmarks

ROWS = {1024: 4, 4096: 8, 8192: 16}  # columns, and warps for them
TILES = [(128, 128, 4), (128, 128, 8), (128, 256, 8)]


# A kernel with its types, constants and options, by name.
Benchmark = tuple[str, Any, dict[str, str], dict[str, Any], dict[str, int]]


def benchmarks() -> Iterator[Benchmark]:
    """The kernels of `benchmarks/gpu.py` as it launches them: types, constants, options."""
    kernels = gpu_kernels
    for block in (1024, 4096):
        types = {"x_ptr": "*fp32:16", "y_ptr": "*fp32:16", "out_ptr": "*fp32:16", "n": "i32:16"}
        yield f"add {block}", kernels.add_kernel, types, {"BLOCK": block}, {"num_warps": 4}
    for columns, warps in ROWS.items():
        constants, options = {"BLOCK": columns}, {"num_warps": warps}
        types = {"out_ptr": "*fp32:16", "x_ptr": "*fp32:16"}
        types |= {"row_step": "i32:16", "columns": "i32:16"}
        yield f"softmax {columns}", kernels.softmax_kernel, types, constants, options
        types = dict.fromkeys(("x_ptr", "out_ptr", "weight_ptr", "bias_ptr"), "*fp16:16")
        types |= {"columns": "i32:16", "eps": "fp32"}
        yield f"layer norm {columns}", kernels.layer_norm_kernel, types, constants, options
    for (bm, bn, warps), (bk, stages) in ((tile, deep) for tile in TILES for deep in DEPTHS):
        types = dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*fp16:16")
        types |= dict.fromkeys("MNK", "i32:16")
        constants = {"BM": bm, "BN": bn, "BK": bk, "GROUP": 8}
        options = {"num_warps": warps, "num_stages": stages}
        yield f"matmul {bm} {bn} {bk} {warps}", kernels.matmul_kernel, types, constants, options
    for bm, warps, stages in ((64, 4, 3), (128, 4, 3), (128, 8, 3), (128, 8, 2)):
        types = dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "out_ptr"), "*fp16:16")
        types |= {"log_sum_ptr": "*fp32:16", "scale": "fp32", "context": "i32:16"}
        constants = {"BM": bm, "BN": 64, "HEAD": 64, "CAUSAL": False}
        options = {"num_warps": warps, "num_stages": stages}
        name = f"attention {bm} {warps} {stages}"
        yield name, kernels.attention_kernel, types, constants, options
    yield from backwards()
    yield from other_dots()


def backwards() -> Iterator[Benchmark]:
    """Those of attention's gradients."""
    arrays = dict.fromkeys(("q_ptr", "k_ptr", "v_ptr", "dout_ptr"), "*fp16:16")
    arrays |= dict.fromkeys(("log_sum_ptr", "delta_ptr"), "*fp32:16")
    numbers = {"scale": "fp32", "log2_scale": "fp32", "context": "i32:16"}
    for queries, keys, warps, head in BACKWARDS:
        tiles = {"HEAD": head, "CAUSAL": False}
        options = {"num_warps": warps, "num_stages": 2}
        what = f"{queries} {keys} {head} {warps}"
        types = {**arrays, "dq_ptr": "*fp16:16", **numbers}
        constants = {"BM": queries, "BN": keys, **tiles}
        yield f"backward q {what}", gpu_kernels.backward_q_kernel, types, constants, options
        types = {**arrays, "dk_ptr": "*fp16:16", "dv_ptr": "*fp16:16", **numbers}
        constants = {"BM": keys, "BN": queries, **tiles}
        yield f"backward kv {what}", gpu_kernels.backward_kv_kernel, types, constants, options


def other_dots() -> Iterator[Benchmark]:
    """Those of other elements than f16."""
    for name, (element, out, bn, how) in KINDS.items():
        types = {"a_ptr": f"*{element}:16", "b_ptr": f"*{element}:16", "c_ptr": f"*{out}:16"}
        types |= dict.fromkeys("MNK", "i32:16")
        depth = 32 if element == "fp32" else 64
        constants = {"BM": 128, "BN": bn, "BK": depth, "GROUP": 8, **how}
        options = {"num_warps": 8, "num_stages": 3}
        yield f"matmul {name} {bn}", gpu_kernels.matmul_kernel, types, constants, options


BACKWARDS = ((64, 64, 4, 64), (128, 64, 8, 64), (128, 64, 8, 128))
COLUMNS = {"B_BY_COLUMNS": True}
KINDS: dict[str, tuple[str, str, int, dict[str, Any]]] = {
    "tf32": ("fp32", "fp32", 256, {"PRECISION": "tf32"}),
    "tf32, B by columns": ("fp32", "fp32", 256, {"PRECISION": "tf32", **COLUMNS}),
    "int8": ("i8", "i32", 256, {"SUMS": tl.int32}),
    "int8, B by columns": ("i8", "i32", 256, {"SUMS": tl.int32, **COLUMNS}),
    "fp8, imprecise sums": ("fp8e4nv", "bf16", 256, {"IMPRECISE": 1 << 30, **COLUMNS}),
    "fp8, imprecise sums of 64": ("fp8e4nv", "bf16", 128, {"IMPRECISE": 64, **COLUMNS}),
    "fp8": ("fp8e4nv", "bf16", 128, {"IMPRECISE": 0, **COLUMNS}),
}


DEPTHS = ((32, 4), (64, 3))
OTHERS = [arch for arch in ARCHITECTURES if arch != "sm_90a"]
BENCHMARKS = {name: rest for name, *rest in benchmarks()}


@pytest.mark.parametrize(
    ("name", "arch"),
    sample(BENCHMARKS, ["sm_90a"]) + sample(BENCHMARKS, OTHERS),
)
def test_benchmarks_do_not_spill(name: str, arch: str) -> None:
    function, types, constants, options = BENCHMARKS[name]
    compiled = building.compile(function, types, constants, options, f"nvptx:{arch}")
    said = assemble(compiled.asm["ptx"], arch)
    assert {*re.findall(r"(\d+) bytes spill stores", said)} == {"0"}, said


@pytest.mark.parametrize(
    ("columns", "warps", "registers"), [(4096, 4, 64), (8192, 8, 64), (16384, 16, 64)]
)
def test_rows_leave_registers_for_other_programs(columns: int, warps: int, registers: int) -> None:
    """A multiprocessor has 65536 of them: so many that two to eight rows are under way at once."""
    name, function, types, _, _ = next(b for b in benchmarks() if b[0].startswith("layer norm"))
    options = {"num_warps": warps}
    compiled = building.compile(function, types, {"BLOCK": columns}, options, "nvptx:sm_90a")
    (used,) = re.findall(r"Used (\d+) registers", assemble(compiled.asm["ptx"], "sm_90a"))
    assert int(used) <= registers, name
