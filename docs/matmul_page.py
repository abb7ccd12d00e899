"""Generate `matmul.md`: two kernels after each stage of their compilation.

python docs/matmul_page.py > docs/matmul.md

The prose is in `matmul_page.txt`, in which `$name` stands for an excerpt of a dump. Excerpts are
chosen by the structure of the text, such as "the loop and what it uses", so they follow the
compiler.
"""

from __future__ import annotations

import itertools
import os
import re
import string
import sys
import tempfile
import textwrap
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import matmul_kernels as kernels

import tile
from tile.ir.parser import parse_module
from tile.ir.printer import print_module
from tile.simt.layouts.draw import draw
from tile.simt.layouts.linear_layout import parse_layout

# Types of the parameters: addresses and sizes are multiples of 16.
SIGNATURE = dict.fromkeys(("a_ptr", "b_ptr", "c_ptr"), "*fp16:16") | dict.fromkeys("MNK", "i32:16")
OPTIONS = {"num_warps": 4, "num_stages": 3}
# Operations that access shared memory or order such accesses; and dots.
SHARED = r"local_\w+|\w*barrier\w*|cp_async_\w+|fence_\w+|tma_\w+|mma_dot|wgmma\w*|store"
SETUP = r"local_alloc|mbarrier_init|fence_\w+|barrier"
# The other instructions of a loop compute addresses and stages.
INSTRUCTION = re.compile(
    r"(again: |@\S+ )?"
    r"(cp\.async|bar\.|ldmatrix|mma\.|wgmma\.|mbarrier\.|elect\.|bra |add\.s64 d[ab])"
)
VALUE = re.compile(r"%[\w.]+")
ALIAS = re.compile(r"#[a-z]+\b")
NO_LAYOUTS = "^$"


class Stage:
    """The IR at one stage: its lines without locations, and its layouts by alias."""

    def __init__(self, text: str) -> None:
        head, _, body = print_module(parse_module(text)).rpartition("kernel ")
        self.layouts = dict(line.split(" = ", 1) for line in head.splitlines() if line)
        self.lines = body.splitlines()[1:-1]
        self.start = next(n for n, line in enumerate(self.lines) if re.match(r" +%.* = for ", line))
        indented = len(self.lines[self.start]) - len(self.lines[self.start].lstrip())
        end = " " * indented + "}"
        self.end = next(
            n for n, line in enumerate(self.lines) if n > self.start and line.startswith(end)
        )

    @property
    def before(self) -> list[str]:
        return self.lines[: self.start]

    @property
    def loop(self) -> list[str]:
        return self.lines[self.start : self.end + 1]

    @property
    def after(self) -> list[str]:
        return self.lines[self.end + 1 :]

    def loop_with_inputs(self) -> list[str]:
        """Return the loop, after the definitions of what its bounds and its body use."""
        head, *body = self.loop
        used = set(VALUE.findall("\n".join([head.partition(" iter(")[0], *body])))
        return [*(line for line in self.before if defined(line) & used), *self.loop]

    def origin(self, value: str) -> list[str]:
        """Return the operations before the loop of which a value is made."""
        used, lines = {value}, []
        for line in reversed(self.before):
            if defined(line) & used:
                used.update(VALUE.findall(line))
                lines.append(line)
        return lines[::-1]

    def excerpt(self, lines: Iterable[str], layouts: str = "") -> str:
        """Return lines as a block of code, after the layouts that they name.

        layouts: a pattern of the layouts to list.
        """
        text = textwrap.dedent("\n".join(lines))
        named = {alias: self.layouts[alias] for alias in sorted(set(ALIAS.findall(text)))}
        heads = [f"{alias} = {text}" for alias, text in named.items() if re.search(layouts, text)]
        return fence("\n".join([*heads, text]))

    def figure(self, line: str, rows: Iterable[int], columns: Iterable[int]) -> str:
        """Return some rows and columns of the picture of the layout of an operation's result."""
        [alias] = ALIAS.findall(line)
        heading, *table = draw(parse_layout(self.layouts[alias])).splitlines()
        cells = [line.split() for line in table]
        cells[0].insert(0, "")
        chosen = [
            [cells[row][column] for column in (0, *(column + 1 for column in columns))]
            for row in (0, *(row + 1 for row in rows))
        ]
        width = max(len(cell) for row in chosen for cell in row)
        body = ["".join(f"{cell:>{width + 1}}" for cell in row) for row in chosen]
        return fence("\n".join([heading, *body]))


def defined(line: str) -> set[str]:
    """Return the values that a line defines."""
    results, equals, _ = line.partition(" = ")
    return set(VALUE.findall(results)) if equals else set()


def named(lines: Iterable[str], names: str) -> list[str]:
    """Return the lines of operations with certain names."""
    operation = re.compile(rf" *(?:%[\w., %]+ = )?(?:{names})\b")
    return [line for line in lines if operation.match(line)]


def fence(text: str, language: str = "text") -> str:
    return f"```{language}\n{text.strip()}\n```"


def compile_stages(kernel: Any, target: str, **sizes: int) -> dict[str, str]:
    """Return the texts of all stages of a kernel: IR by pass, `source`, `tile`, `ptx` and so on."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TILE_DUMP"] = folder
        try:
            compiled = tile.compile(kernel, SIGNATURE, sizes, OPTIONS, target)
        finally:
            del os.environ["TILE_DUMP"]
        texts = {name: text for name, text in compiled.asm.items() if isinstance(text, str)}
        for path in sorted(Path(folder).glob("*/*.tile")):
            texts[path.stem.partition("-")[2]] = path.read_text("utf-8")
    return texts


def ptx_loop(text: str) -> str:
    """Return the loop's synchronization, copies and mma, with its registers numbered anew.

    Lists of many registers and runs of one instruction are shortened.
    """
    label = re.findall(r"@%p\d+ bra\s+(\$L__BB\w+);", text)[-1]
    body = text.partition(f"\n{label}:")[2].partition(f"{label};")[0] + label
    parts = (" ".join(part.split()) for part in re.split("[;\n]", body))
    instructions = (part.removeprefix("{ ") for part in parts)
    lines = [f"{label}:"]
    for _, run in itertools.groupby(filter(INSTRUCTION.match, instructions), opcode):
        first, *rest = run
        lines.append(f"  {first};")
        lines += [f"  {line};" for line in rest] if len(rest) < 2 else [f"  // {len(rest)} more"]
    loop, kinds = "\n".join(lines), Counter[str]()
    numbers: dict[str, str] = {}
    for name, kind in re.findall(r"((%[a-z]+)\d+)", loop):
        if name not in numbers:
            kinds[kind] += 1
            numbers[name] = f"{kind}{kinds[kind]}"
    loop = re.sub(r"%[a-z]+\d+", lambda match: numbers[match[0]], loop)
    return fence(re.sub(r"\{(%r\d+), [^{}]{40,}, (%r\d+)\}", r"{\1, ..., \2}", loop), "asm")


def opcode(instruction: str) -> str:
    return instruction.split()[0]


def excerpts() -> dict[str, str]:
    """Return the excerpts of the page by name."""
    sm80 = compile_stages(kernels.matmul, "nvptx:sm_80", BM=64, BN=64, BK=32)
    sm90 = compile_stages(kernels.matmul_tma, "nvptx:sm_90a", BM=64, BN=64, BK=64)
    names = ("tile", "tile-optimized", "remove-conversions", "pipeline-loops", "expand-schedules")
    tiles, optimized, laid_out, scheduled, pipelined = (Stage(sm80[name]) for name in names)
    allocated, barriers = Stage(sm80["allocate-shared"]), Stage(sm80["insert-barriers"])
    [load_a, _] = named(laid_out.loop, "load")
    [dot] = named(laid_out.loop, "mma_dot")
    buffers = named(allocated.before, "local_alloc")
    names = ("tile", "remove-conversions", "insert-barriers")
    h_tiles, h_laid_out, h_lowered = (Stage(sm90[name]) for name in names)
    setup = named(h_lowered.before, SETUP)
    return {
        "source": fence(sm80["source"], "python"),
        "tile": tiles.excerpt([*tiles.origin("%a"), *tiles.loop]),
        "optimized": optimized.excerpt(optimized.loop_with_inputs()),
        "laid_out": laid_out.excerpt(laid_out.loop),
        "load_figure": laid_out.figure(load_a, range(4), (0, 1, 7, 8, 15, 16, 24, 31)),
        "dot_figure": laid_out.figure(dot, (0, 1, 2, 7, 8, 9), (0, 1, 2, 3, 6, 7, 8, 9)),
        "scheduled": scheduled.excerpt(scheduled.loop, NO_LAYOUTS),
        "pipelined": pipelined.excerpt(pipelined.loop_with_inputs(), "offset"),
        "swizzle_figure": allocated.figure(buffers[0], range(8), range(0, 32, 8)),
        "buffers": allocated.excerpt(buffers),
        "barriers": barriers.excerpt(named(barriers.loop, SHARED), NO_LAYOUTS),
        "epilogue": barriers.excerpt(named(barriers.after, SHARED)),
        "thread": (thread := Stage(sm80["thread"])).excerpt(thread.loop, NO_LAYOUTS),
        "ptx": ptx_loop(sm80["ptx"]),
        "h_source": fence(sm90["source"], "python"),
        "h_tile": h_tiles.excerpt(h_tiles.loop),
        "h_laid_out": h_laid_out.excerpt(named(h_laid_out.loop, r"load|wgmma\w*")),
        "h_pipelined": h_lowered.excerpt([*setup, *h_lowered.loop], "offset"),
        "h_epilogue": h_lowered.excerpt(named(h_lowered.after, SHARED), NO_LAYOUTS),
        "h_ptx": ptx_loop(sm90["ptx"]),
    }


def page() -> str:
    """Return the page as Markdown."""
    text = Path(__file__).with_suffix(".txt").read_text("utf-8")
    return string.Template(text).substitute(excerpts())


if __name__ == "__main__":
    sys.stdout.write(page())
