"""`tile explain`: what a kernel costs on a SIMT machine, line by line, and who holds what."""

from __future__ import annotations

import argparse
import linecache
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tile.backends.base import Grid, Options
from tile.backends.interp.thread.counters import Counters, LineCounts, line_of
from tile.backends.interp.thread.registers import registers
from tile.backends.interp.thread.run import run_threads
from tile.config import config
from tile.errors import ArgumentTypeError, ArgumentValueError
from tile.ir.compilation import compilation
from tile.ir.core import Module
from tile.ir.levels import Level
from tile.ir.ops import memory
from tile.ir.passes import PassManager
from tile.ir.printer import print_module
from tile.ir.types import Shared, Tile
from tile.runtime.grid import normalise_grid
from tile.runtime.jit import JITFunction
from tile.simt.layouts.dims import LayoutError
from tile.simt.layouts.draw import draw, svg
from tile.simt.layouts.layout import LinearLayout
from tile.simt.pipeline import lowering
from tile.simt.target import TARGETS, SimtTarget
from tile.tools.command import Command
from tile.tools.kernel_arguments import load_kernel, parse_arguments, parse_grid
from tile.tools.table import table

DESCRIPTION = f"""\
Lower a kernel for a machine, run it on the thread machine, and say for each source line what it
costs. Arrays are made of random numbers.

  tile explain softmax.py:softmax_kernel x=fp32[8,1000] out=fp32[8,1000] n=1000 BLOCK=1024 --grid 8
  tile explain ... --target matrix --num-warps 8 --num-stages 4
  tile explain ... --draw layouts/       a picture of each layout: which thread holds which element
  tile explain ... --show q              the layout of the value `q` here, as text
  tile explain ... --ir                  the IR of threads as well

Arguments are name=value: a number, true, false, none, an array such as fp32[64,64] or i32[8]:0
(filled with 0), or a descriptor such as fp16[300,200]/64,32: an array in boxes of 64x32, outside of
which are zeros, or with /64,32,nan NaNs. The machines are {", ".join(TARGETS)}.

  executed    warps that executed an operation of the line
  registers   of 32 bits that are live in a thread there, at most
  sectors     of 32 bytes of global memory that warps touched; efficiency is the share that the
              bytes asked for would have needed
  wavefronts  of shared memory; conflicts are those that bank conflicts cost
"""


@dataclass
class Explanation:
    """A kernel lowered for a machine, and what a run of it cost."""

    laid_out: Module  # after layouts were chosen
    threads: Module
    target: SimtTarget
    options: Options
    counters: Counters = field(default_factory=Counters)

    @property
    def barriers(self) -> int:
        """How many barriers there are in the kernel's text."""
        return sum(op.defn is memory.barrier for op in self.threads.walk())


def explain(
    kernel: Any, arguments: dict[str, Any], grid: Grid, target: SimtTarget, options: Options
) -> Explanation:
    """Lower a kernel for arguments by name, and run it, counting.

    Raises what compiling and running raise: `CompilationError`, `OutOfResourcesError` or an
    `ExecutionError`.
    """
    while not isinstance(kernel, JITFunction):  # tuned ones are wrapped
        if not hasattr(kernel, "kernel"):
            raise ArgumentTypeError(f"tile explain takes a @tile.jit function, not {kernel!r}")
        kernel = kernel.kernel
    with config.scope(backend="interp", interp_level="tile"):
        compiled = kernel.warmup(grid=grid, **arguments)
    assert compiled.artifact.module is not None
    laid_out = compiled.artifact.module.clone()
    passes = lowering(target, **options.lowering)
    names = [item.defn.name for item in passes]
    chosen = names.index("remove-conversions") + 1
    description = f"tile explain, {target}, {options}\n\n{print_module(laid_out)}"
    with compilation(laid_out.kernel.name, lambda: description):
        level = PassManager(passes[:chosen]).run(laid_out, Level.TILE)
        threads = laid_out.clone()
        PassManager(passes[chosen:]).run(threads, level)
    result = Explanation(laid_out, threads, target, options)
    given = {n: value for n, value in arguments.items() if n not in compiled.constants}
    values = compiled.launch_arguments(**given)
    run_threads(threads, target, options.num_warps, grid, values, result.counters)
    return result


def cost_table(found: Explanation) -> str:
    """What each source line costs."""
    live: dict[tuple[str, int], int] = {}
    for function in found.threads:
        for op, count in registers(function).items():
            line = line_of(op.loc)
            live[line] = max(live.get(line, 0), count)
    counts = found.counters.by_line()
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


def summary(found: Explanation) -> str:
    """The kernel as a whole, in a few lines."""
    options, counters = found.options, found.counters
    of_global, of_shared = counters.global_total(), counters.shared_total()
    live = max((n for f in found.threads for n in registers(f).values()), default=0)
    return "\n".join(
        [
            f"{found.threads.kernel.name} on the {found.target} machine: {options.num_warps} warps "
            f"of {found.target.warp_size}, {options.num_stages} stages",
            f"{counters.shared_bytes:,} bytes of shared memory and {found.barriers} barriers in a "
            f"program; at most {live} registers live in a thread",
            f"global memory: {of_global.sectors:,} sectors, efficiency {of_global.efficiency:.1%}",
            f"shared memory: {of_shared.wavefronts:,} wavefronts, {of_shared.conflicts:,} of them "
            "for bank conflicts",
        ]
    )


# -- layouts


@dataclass(frozen=True)
class Held:
    """A layout, with the first value of the program that has it."""

    layout: LinearLayout
    name: str
    line: int
    type: str
    bits: int


def held_layouts(modules: Sequence[Module]) -> list[Held]:
    """Each layout of tiles and buffers once, in the program's order."""
    found: dict[LinearLayout, Held] = {}
    for module in modules:
        for op in module.walk():
            for value in op.results:
                ty = value.type
                if isinstance(ty, Tile | Shared) and isinstance(ty.layout, LinearLayout):
                    _, line = line_of(op.loc)
                    extents = "x".join(map(str, ty.shape))
                    held = Held(ty.layout, value.name, line, f"{extents} {ty.of}", ty.of.bits)
                    known = found.get(ty.layout)
                    if known is None or (not known.name and value.name):
                        found[ty.layout] = held
    return list(found.values())


def layout_table(layouts: Sequence[Held]) -> str:
    """The layouts by number."""
    rows = [
        [str(number), held.name, str(held.line or ""), held.type, str(held.layout)]
        for number, held in enumerate(layouts)
    ]
    return table(("number", "value", "line", "tile", "layout"), rows, left=(1, 3, 4))


def draw_layouts(layouts: Sequence[Held], folder: Path) -> list[str]:
    """Write a picture of each layout to a folder; what to say of them."""
    folder.mkdir(parents=True, exist_ok=True)
    said = []
    for number, held in enumerate(layouts):
        path = folder / f"{number:02}-{held.name or 'value'}.svg"
        try:
            picture = svg(held.layout, max(8, held.bits))
        except LayoutError as error:
            said.append(f"{path.name}: not drawn: {error.message}")
            continue
        path.write_text(picture, encoding="utf-8")
        said.append(f"{path.name}: {held.type}, line {held.line}")
    return said


def _shown(layouts: Sequence[Held], wanted: str) -> str:
    for number, held in enumerate(layouts):
        if wanted in (held.name, str(number)):
            return draw(held.layout)
    names = ", ".join(sorted({held.name for held in layouts if held.name}))
    raise ArgumentValueError(f"no layout is of a value {wanted!r}; there are {names}")


# -- the command


def _configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("kernel", help="as in kernel.py:function")
    add("arguments", nargs="*", metavar="NAME=VALUE", help="the kernel's arguments")
    add("--grid", default="1", help="as in 8, 4,2 or cdiv(n, BLOCK)")
    add("--target", default="generic", choices=list(TARGETS), help="the machine")
    add("--num-warps", type=int, default=Options.num_warps, help="warps of a program")
    add("--num-stages", type=int, default=Options.num_stages, help="stages of pipelined loops")
    add("--thread-tile", type=int, default=Options.thread_tile, help="edge of a thread's squares")
    add("--warp-rows", type=int, default=0, help="warps that share the rows of a product; 0: any")
    add("--layouts", action="store_true", help="list the layouts")
    add("--draw", metavar="FOLDER", help="draw the layouts as SVG")
    add("--show", metavar="VALUE", help="draw the layout of a value, or of a number, as text")
    add("--ir", action="store_true", help="print the IR, laid out and of threads")


def _run(options: argparse.Namespace) -> int:
    names = ("num_warps", "num_stages", "thread_tile", "warp_rows")
    chosen = Options.of({name: getattr(options, name) for name in names})
    kernel = load_kernel(options.kernel)
    arguments = parse_arguments(options.arguments)
    grid = parse_grid(options.grid)
    if callable(grid):
        grid = grid(arguments)
    found = explain(
        kernel, arguments, normalise_grid(grid), SimtTarget.parse(options.target), chosen
    )
    layouts = held_layouts([found.laid_out, found.threads])
    if options.ir:
        print(print_module(found.laid_out), print_module(found.threads), sep="\n")
    print(summary(found), cost_table(found), sep="\n\n")
    if options.layouts:
        print(f"\n{layout_table(layouts)}")
    if options.show:
        print(f"\n{_shown(layouts, options.show)}")
    if options.draw:
        print("", *draw_layouts(layouts, Path(options.draw)), sep="\n")
    return 0


COMMAND = Command("explain", "what a kernel costs, line by line", DESCRIPTION, _configure, _run)
