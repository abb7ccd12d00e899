"""`tile explain`: report a kernel's cost by source line.

Lower a kernel for a machine, run it on the SIMT simulator, and report the cost of each source line.
Arrays are filled with random numbers.

  tile explain softmax.py:softmax_kernel x=fp32[8,1000] out=fp32[8,1000] n=1000 BLOCK=1024 --grid 8
  tile explain ... --target sm_90a --num-warps 8 --num-stages 4
  tile explain ... --draw layouts/       a picture of each layout: which thread holds which element
  tile explain ... --show q              print the layout of the value `q`
  tile explain ... --ir                  print the IR, laid out and of threads

The target is one of NVIDIA's architectures (sm_75, sm_80, sm_90a, sm_100, ...), an OpenCL device
(opencl:0, opencl:pocl) or a class of them (opencl:amd, opencl:intel, ...), or a machine that only
the simulator has (plain, generic, cp_async, mma, wgmma, warp64). The kernel is lowered as for that
target, and runs on the simulator: no such device is needed.

  executed    warps that executed an operation of the line
  registers   the most 32-bit registers that are live in a thread at the line
  sectors     32-byte sectors of global memory that warps accessed; efficiency is the least number
              of sectors that could hold the requested bytes, divided by this number
  wavefronts  wavefronts of shared memory; conflicts are the additional ones due to bank conflicts
"""

from __future__ import annotations

import argparse
import linecache
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tile import backends
from tile.backends.base import Grid, Options
from tile.backends.capabilities import ThreadLowering
from tile.backends.interp.simulator.counters import Counters, LineCounts, line_of, registers
from tile.backends.interp.simulator.thread_kernel import run_threads
from tile.config import config
from tile.errors import ArgumentTypeError, ArgumentValueError
from tile.ir.compilation_context import compilation
from tile.ir.module import Module
from tile.ir.op_definition import Level
from tile.ir.ops import memory
from tile.ir.passes import PassManager
from tile.ir.printer import print_module
from tile.ir.shared_type import Shared
from tile.ir.types import Tile
from tile.runtime.grid import normalize_grid
from tile.runtime.interface import KernelInterface
from tile.runtime.jit import JITFunction
from tile.simt.layouts.dims import LayoutError
from tile.simt.layouts.draw import draw, svg
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.pass_pipeline import lowering
from tile.simt.target import SimtTarget
from tile.tools.arguments import add_arguments, parse_arguments, parse_grid, parse_target
from tile.tools.command import load_kernel, table


@dataclass
class Explanation:
    """A kernel lowered for a machine, and the counters of a run of it."""

    laid_out: Module  # after layout assignment
    threads: Module
    target: SimtTarget
    options: Options
    counters: Counters = field(default_factory=Counters)

    @property
    def barriers(self) -> int:
        """Return the number of barrier operations in the kernel."""
        return sum(op.defn is memory.barrier for op in self.threads.walk())


def explain(
    kernel: Any, arguments: dict[str, Any], grid: Grid, target: SimtTarget, options: Options
) -> Explanation:
    """Lower a kernel for arguments by name, run it and count its operations and accesses.

    Raises the errors of compilation and execution: `CompilationError`, `OutOfResourcesError` or
    `ExecutionError`.
    """
    while not isinstance(kernel, JITFunction):  # the autotuner wraps its kernel
        if not isinstance(kernel, KernelInterface):
            raise ArgumentTypeError(f"tile explain takes a @tile.jit function, not {kernel!r}")
        kernel = getattr(kernel, "fn", None)
    with config.scope(backend="interp", interp_level="tile"):
        compiled = kernel.warmup(grid=grid, **arguments)
    assert compiled.artifact.module is not None
    laid_out = compiled.artifact.module.clone()
    passes = lowering(target, **options.lowering)
    names = [item.defn.name for item in passes]
    assigned = names.index("remove-conversions") + 1  # layouts are final after this pass
    description = f"tile explain, {target}, {options}\n\n{print_module(laid_out)}"
    with compilation(laid_out.kernel.name, lambda: description):
        level = PassManager(passes[:assigned]).run(laid_out, Level.TILE)
        threads = laid_out.clone()
        PassManager(passes[assigned:]).run(threads, level)
    result = Explanation(laid_out, threads, target, options)
    non_constants = {n: value for n, value in arguments.items() if n not in compiled.constants}
    values = compiled.launch_arguments(**non_constants)
    run_threads(threads, target, options.num_warps, grid, values, result.counters)
    return result


def cost_table(explanation: Explanation) -> str:
    """Return a table of the cost of each source line."""
    live: dict[tuple[str, int], int] = {}
    for function in explanation.threads:
        for op, count in registers(function).items():
            line = line_of(op.loc)
            live[line] = max(live.get(line, 0), count)
    counts = explanation.counters.by_line()
    header = (
        "line",
        "source",
        "executed",
        "registers",
        "sectors",
        "efficiency",
        "wavefronts",
        "conflicts",
    )
    rows = [
        _row(line, counts.get(line, LineCounts()), live.get(line, 0))
        for line in sorted({*counts, *live})
    ]
    return table(header, rows, left=(1,))


def _row(line: tuple[str, int], counts: LineCounts, live: int) -> list[str]:
    file, number = line
    of_global, of_shared = counts.global_accesses, counts.shared_accesses
    source = linecache.getline(file, number).strip()
    return [
        str(number) if number else "",
        source if len(source) <= 60 else source[:57] + "...",
        f"{counts.executed:,}",
        f"{live}" if live else "",
        f"{of_global.sectors:,}" if of_global.sectors else "",
        f"{of_global.efficiency:.0%}" if of_global.sectors else "",
        f"{of_shared.wavefronts:,}" if of_shared.wavefronts else "",
        f"{of_shared.conflicts:,}" if of_shared.wavefronts else "",
    ]


def summary(explanation: Explanation) -> str:
    """Return a few lines about the kernel as a whole."""
    options, counters = explanation.options, explanation.counters
    target, threads = explanation.target, explanation.threads
    of_global, of_shared = counters.global_total(), counters.shared_total()
    live = max((n for function in threads for n in registers(function).values()), default=0)
    return "\n".join(
        [
            f"{threads.kernel.name} on the {target} machine: {options.num_warps} warps "
            f"of {target.warp_size}, {options.num_stages} stages",
            f"{counters.shared_bytes:,} bytes of shared memory and {explanation.barriers} barriers "
            f"in a program; at most {live} registers live in a thread",
            f"global memory: {of_global.sectors:,} sectors, efficiency {of_global.efficiency:.1%}",
            f"shared memory: {of_shared.wavefronts:,} wavefronts, {of_shared.conflicts:,} of them "
            "due to bank conflicts",
        ]
    )


# -- layouts


@dataclass(frozen=True)
class LayoutUse:
    """A layout and the first value of the program that has it."""

    layout: LinearLayout
    name: str
    line: int
    type: str
    bits: int


def distinct_layouts(modules: Sequence[Module]) -> list[LayoutUse]:
    """Return each layout of tiles and buffers once, in the program's order."""
    uses: dict[LinearLayout, LayoutUse] = {}
    for module in modules:
        for op in module.walk():
            for value in op.results:
                ty = value.type
                if isinstance(ty, Tile | Shared) and isinstance(ty.layout, LinearLayout):
                    _, line = line_of(op.loc)
                    extents = "x".join(map(str, ty.shape))
                    use = LayoutUse(ty.layout, value.name, line, f"{extents} {ty.of}", ty.of.bits)
                    first = uses.get(ty.layout)
                    if first is None or (not first.name and value.name):
                        uses[ty.layout] = use
    return list(uses.values())


def layout_table(layouts: Sequence[LayoutUse]) -> str:
    """Return a table of the layouts with their numbers."""
    rows = [
        [str(number), use.name, str(use.line or ""), use.type, str(use.layout)]
        for number, use in enumerate(layouts)
    ]
    return table(("number", "value", "line", "tile", "layout"), rows, left=(1, 3, 4))


def draw_layouts(layouts: Sequence[LayoutUse], folder: Path) -> list[str]:
    """Write a picture of each layout to a folder; return a message about each."""
    folder.mkdir(parents=True, exist_ok=True)
    messages = []
    for number, use in enumerate(layouts):
        path = folder / f"{number:02}-{use.name or 'value'}.svg"
        try:
            picture = svg(use.layout, max(8, use.bits))
        except LayoutError as error:
            messages.append(f"{path.name}: not drawn: {error.message}")
            continue
        path.write_text(picture, encoding="utf-8")
        messages.append(f"{path.name}: {use.type}, line {use.line}")
    return messages


def _drawing(layouts: Sequence[LayoutUse], name: str) -> str:
    for number, use in enumerate(layouts):
        if name in (use.name, str(number)):
            return draw(use.layout)
    names = ", ".join(sorted({use.name for use in layouts if use.name}))
    raise ArgumentValueError(f"no value {name!r} has a layout; there are {names}")


# -- the command


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command to a parser."""
    add = parser.add_argument
    add_arguments(parser)
    add("--grid", default="1", help="as in 8, 4,2 or cdiv(n, BLOCK)")
    add("-t", "--target", default="generic", help="such as sm_90a or opencl:amd (generic)")
    add("--num-warps", type=int, default=Options.num_warps, help="warps of a program")
    add("--num-stages", type=int, default=Options.num_stages, help="stages of pipelined loops")
    add("--thread-tile", type=int, default=Options.thread_tile, help="edge of a thread's sub-tile")
    add("--warp-rows", type=int, default=0, help="warps along the rows of a dot; 0: automatic")
    add("--layouts", action="store_true", help="list the layouts")
    add("--draw", metavar="FOLDER", help="draw the layouts as SVG")
    add("--show", metavar="VALUE", help="draw the layout of a value, or of a number, as text")
    add("--ir", action="store_true", help="print the IR, laid out and of threads")


def lowering_target(text: str) -> SimtTarget:
    """Return the description by which passes lower kernels for a target."""
    target = parse_target(text)
    backend = backends.get(target.backend)
    if isinstance(backend, ThreadLowering):
        return backend.lowering_target(target)
    raise ArgumentValueError(f"the backend {target.backend} does not lower kernels to threads")


def run(options: argparse.Namespace) -> int:
    """Run the command, and return its exit status."""
    names = ("num_warps", "num_stages", "thread_tile", "warp_rows")
    compile_options = Options.of({name: getattr(options, name) for name in names})
    kernel = load_kernel(options.kernel, parse_arguments(options.define))
    arguments = getattr(kernel, "constants", {}) | parse_arguments(options.arguments)
    grid = parse_grid(options.grid)
    if callable(grid):
        grid = grid(arguments)
    target = lowering_target(options.target)
    explanation = explain(kernel, arguments, normalize_grid(grid), target, compile_options)
    layouts = distinct_layouts([explanation.laid_out, explanation.threads])
    if options.ir:
        print(print_module(explanation.laid_out), print_module(explanation.threads), sep="\n")
    print(summary(explanation), cost_table(explanation), sep="\n\n")
    if options.layouts:
        print(f"\n{layout_table(layouts)}")
    if options.show:
        print(f"\n{_drawing(layouts, options.show)}")
    if options.draw:
        print("", *draw_layouts(layouts, Path(options.draw)), sep="\n")
    return 0
