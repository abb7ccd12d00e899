"""Run the commands of the pages next to this file, and replace the tables that they print.

    python docs/results/update.py                  list pages and commands
    python docs/results/update.py interpreter      run all commands of interpreter.md
    python docs/results/update.py interpreter 1    run its second command only
    python docs/results/update.py libraries 0 --printed output.md --machine "H200, Python 3.12"
                                                   take what it has printed on another machine

A command and its tables stand between two comments:

    <!-- begin: python benchmarks/interp.py --grid --markdown -->
    _2026-11-21: AMD EPYC, 2 cores, Python 3.11.7_

    | programs | seconds | ...
    <!-- end -->

The headline figures of `README.md` and `docs/performance.md` follow those of `gpu.md`. Only the
tables of the output are copied, below the date and the machine, which `--machine` names
(for example "H200, driver 580"; the default is the processor). If a command fails, the page does
not change and the exit status is 1. Text outside the comments is written by hand: reread it after
an update.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
HEADLINES = (ROOT / "README.md", ROOT / "docs" / "performance.md")
BLOCK = re.compile(r"<!-- begin: (?P<command>[^\n]+) -->\n(?P<body>.*?)<!-- end -->\n", re.S)


def commands(page: str) -> list[str]:
    """Return the commands of a page's text, in order."""
    return [match["command"] for match in BLOCK.finditer(page)]


def tables(output: str) -> str:
    """Return the Markdown tables of a command's output, separated by blank lines."""
    return "\n\n".join(re.findall(r"(?:^\|[^\n]*\n?)+", output, re.M)).replace("\n\n\n", "\n\n")


def machine() -> str:
    """Return the processor of this machine."""
    return platform.processor() or platform.machine()


def run(command: str) -> str:
    """Run a command in the repository's root, and return its standard output.

    `python` is this interpreter. Raises `subprocess.CalledProcessError` if the command fails.
    """
    program, *arguments = shlex.split(command)
    words = [sys.executable if program == "python" else program, *arguments]
    return subprocess.run(words, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def updated(page: str, numbers: Sequence[int], name: str, printed: str | None = None) -> str:
    """Return a page's text with the tables of the commands `numbers` (or of all) measured anew.

    name: the machine.
    printed: what the commands have printed on that machine, instead of running them here.
    """
    matches = list(BLOCK.finditer(page))
    for number, match in reversed(list(enumerate(matches))):
        if numbers and number not in numbers:
            continue
        here = f", {os.cpu_count()} cores, Python {platform.python_version()}"
        head = f"_{datetime.date.today()}: {name}{here if printed is None else ''}_"
        output = run(match["command"]) if printed is None else printed
        body = f"{head}\n\n{tables(output).rstrip()}\n"
        page = page[: match.start("body")] + body + page[match.end("body") :]
    return page


def with_headlines(page: str, results: str) -> str:
    """Return a page whose rows of cases have the figures that the results have for these.

    A row has the case, the unit, three rates without decimals and up to two ratios, as in `gpu.md`.
    """
    figures = {cells[0]: cells[1:] for cells in map(cells_of, results.splitlines()) if cells[1:]}
    lines = page.splitlines(keepends=True)
    for number, line in enumerate(lines):
        case, *old = cells_of(line) or [""]
        new = figures.get(case, [])
        if old and len(new) >= 6 and old[0] == new[0] and all(map(is_number, new[1:4])):
            rates = [f"{float(rate):.0f}" for rate in new[1:4]]
            cells = [case, new[0], *rates, *new[4:6]][: len(old) + 1]
            lines[number] = f"| {' | '.join(cells)} |\n"
    return "".join(lines)


def cells_of(line: str) -> list[str]:
    """Return the cells of a line of a Markdown table; none of another line."""
    return [cell.strip() for cell in line.strip().strip("|").split("|")] if line[:1] == "|" else []


def is_number(cell: str) -> bool:
    return re.fullmatch(r"\d+(\.\d+)?", cell) is not None


def main() -> int:
    """List the commands, or run those that the arguments select."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("page", nargs="?", choices=sorted(path.stem for path in HERE.glob("*.md")))
    parser.add_argument("number", nargs="*", type=int, help="of the page's commands, from 0")
    parser.add_argument("--machine", default=machine(), help="its name (default: %(default)s)")
    parser.add_argument("--printed", type=Path, help="the output of the one command that is named")
    options = parser.parse_args()
    if options.printed is not None and len(options.number) != 1:
        parser.error("--printed is the output of one command: name its page and its number")
    if options.page is None:
        for path in sorted(HERE.glob("*.md")):
            for number, command in enumerate(commands(path.read_text("utf-8"))):
                print(f"{path.stem} {number}: {command}")
        return 0
    path = HERE / f"{options.page}.md"
    printed = None if options.printed is None else options.printed.read_text("utf-8")
    try:
        text = updated(path.read_text("utf-8"), options.number, options.machine, printed)
    except subprocess.CalledProcessError as error:
        print(f"{error.cmd} failed with status {error.returncode}", file=sys.stderr)
        return 1
    path.write_text(text, "utf-8")
    if options.page == "gpu":
        for page in HEADLINES:
            page.write_text(with_headlines(page.read_text("utf-8"), text), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
