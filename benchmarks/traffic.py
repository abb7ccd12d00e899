"""Count the examples' traffic in global and shared memory on the SIMT simulator.

    python benchmarks/traffic.py                      every example with its defaults
    python benchmarks/traffic.py --target generic     on another machine of tile/simt/target.py
    python benchmarks/traffic.py --by-line matmul_nt  a table by source line
    python benchmarks/traffic.py --small              sizes that take seconds, as in the tests
    python benchmarks/traffic.py --markdown           the table as Markdown

Each example runs as a user would run it, with its own checks, and every launch is counted,
including those of the autotuner. Sectors are 32 bytes of global memory; efficiency is the least
number of sectors that could hold the bytes that warps requested, divided by the number of sectors
accessed. Wavefronts are those of shared memory; conflicts are the additional ones due to bank
conflicts.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import linecache
import runpy
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from unittest import mock

from tile.backends.base import Grid, LaunchArgument
from tile.backends.interp.simulator.counters import Counters, LineCounts
from tile.backends.interp.simulator.thread_kernel import ThreadKernel
from tile.config import config
from tile.simt.target import TARGETS
from tile.tools.command import table

EXAMPLES = Path(__file__).parent.parent / "examples"

# The examples that launch kernels, with sizes small enough for a test: several programs each, and
# rows with an alignment that allows vector accesses.
SMALL: dict[str, list[str]] = {
    "vector_add": [],
    "sin": ["--rows", "8", "--columns", "64", "256"],
    "softmax": ["--rows", "16", "--columns", "768"],
    "layer_norm": ["--rows", "64", "--columns", "256"],
    "dropout": ["--elements", "4096"],
    "matmul": ["--sizes", "128", "128", "64"],
    "matmul_descriptor": ["--sizes", "128", "128", "64"],
    "matmul_nt": ["--sizes", "128", "128", "64"],
    "triton_c": ["--sizes", "128", "128", "64"],
    "attention": ["--context", "128", "--heads", "1", "--head", "64"],
    "shift_conv": ["--batch", "1", "--channels", "64", "--filters", "64", "--size", "8"],
    "convolution": ["--batch", "1", "--channels", "64", "--filters", "64", "--size", "8"],
}


class Traffic:
    """The counts of each kernel's launches, by its name, in order.

    A launch that repeats an earlier one, of the same compiled kernel over the same grid, runs but
    is not counted again: the counts must not depend on how often a tuner measures.
    """

    def __init__(self) -> None:
        self.kernels: dict[str, Counters] = {}
        self.seen: set[tuple[int, Grid]] = set()
        self.kernels_seen: list[ThreadKernel] = []  # keeps them alive, so that ids stay unique

    def launch(self, kernel: ThreadKernel, grid: Grid, arguments: Sequence[LaunchArgument]) -> None:
        """Replace `ThreadKernel.launch`."""
        if (id(kernel), grid) in self.seen:
            UNCOUNTED(kernel, grid, arguments)
            return
        self.seen.add((id(kernel), grid))
        self.kernels_seen.append(kernel)
        counters = self.kernels.setdefault(kernel.code.code.module.kernel.name, Counters())
        kernel.count(grid, arguments, counters)


UNCOUNTED = ThreadKernel.launch


@contextlib.contextmanager
def counting(target: str) -> Iterator[Traffic]:
    """Run kernels on a machine of the SIMT simulator, and count their traffic."""
    traffic = Traffic()

    def launch(kernel: ThreadKernel, grid: Grid, arguments: Sequence[LaunchArgument]) -> None:
        traffic.launch(kernel, grid, arguments)

    machine = config.scope(backend="interp", interp_level="thread", interp_target=target)
    with machine, mock.patch.object(ThreadKernel, "launch", launch):
        yield traffic


def measure(example: str, arguments: Sequence[str], target: str) -> dict[str, Counters]:
    """Return the counts of an example's kernels. Raises `SystemExit` if its checks fail."""
    path = str(EXAMPLES / f"{example}.py")
    printed = io.StringIO()
    with (
        counting(target) as traffic,
        mock.patch.object(sys, "argv", [path, *arguments]),
        mock.patch.object(sys, "path", [str(EXAMPLES), *sys.path]),
        contextlib.redirect_stdout(printed),
    ):
        try:
            runpy.run_path(path, run_name="__main__")
        except SystemExit as exit_:
            if exit_.code:
                raise SystemExit(f"{example}: {exit_.code}\n{printed.getvalue()}") from exit_
    return traffic.kernels


HEADER = (
    "example", "kernel", "sectors", "efficiency", "wavefronts", "conflicts", "shared bytes",
)  # fmt: skip


def row(example: str, kernel: str, counters: Counters) -> list[str]:
    of_global, of_shared = counters.global_total(), counters.shared_total()
    return [
        example,
        kernel,
        f"{of_global.sectors:,}",
        f"{of_global.efficiency:.1%}",
        f"{of_shared.wavefronts:,}",
        f"{of_shared.conflicts:,}",
        f"{counters.shared_bytes:,}",
    ]


LINES = ("line", "source", "sectors", "efficiency", "wavefronts", "conflicts")


def line_row(line: tuple[str, int], counts: LineCounts) -> list[str]:
    file, number = line
    of_global, of_shared = counts.global_accesses, counts.shared_accesses
    return [
        str(number),
        linecache.getline(file, number).strip(),
        f"{of_global.sectors:,}",
        f"{of_global.efficiency:.1%}",
        f"{of_shared.wavefronts:,}",
        f"{of_shared.conflicts:,}",
    ]


def as_markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("examples", nargs="*", metavar="EXAMPLE", help=f"of {', '.join(SMALL)}")
    parser.add_argument("--target", default="mma", choices=list(TARGETS), help="the machine")
    parser.add_argument("--by-line", action="store_true", help="a table for each kernel, by line")
    parser.add_argument("--small", action="store_true", help="sizes that take seconds")
    parser.add_argument("--markdown", action="store_true", help="tables as Markdown")
    options = parser.parse_args()
    unknown = sorted({*options.examples} - {*SMALL})
    if unknown:
        parser.error(f"there is no example {unknown[0]!r}; there are {', '.join(SMALL)}")
    rows = []
    for example in options.examples or SMALL:
        arguments = SMALL[example] if options.small else []
        for kernel, counters in measure(example, arguments, options.target).items():
            rows.append(row(example, kernel, counters))
            if options.by_line:
                lines = [line_row(*line) for line in counters.by_line().items()]
                print(f"{example}: {kernel}", table(LINES, lines, left=(1,)), "", sep="\n\n")
    if options.markdown:
        print(as_markdown(HEADER, rows))
    else:
        print(table(HEADER, rows, left=(0, 1)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
