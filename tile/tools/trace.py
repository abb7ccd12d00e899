"""`tile trace`: record a program's memory accesses.

Run a program on the interpreter, without a GPU, and record its launches' memory accesses.

  tile trace program.py                        a table: bytes, sectors, masked lanes by source line
  tile trace program.py -o trace.html          a page: the table, a heatmap of the accesses to each
                                               array, and how programs share its cache lines
  tile trace program.py --perfetto trace.json  a timeline of the programs; open it at
                                               ui.perfetto.dev or chrome://tracing
  tile trace program.py -o trace.html -- --size 300
                                               arguments after -- are passed to the program
  tile trace -o trace.html -m package.module   a module, as with python -m

  bytes       requested by active lanes
  sectors     32-byte sectors that an execution of the line in one program accesses, each counted
              once; efficiency is the share of their bytes that was requested. A cache line has four
  masked off  lanes whose mask is false
  executions  of the line, in all programs

Counts are of tiles, not of warps (`tile explain` counts warps), and do not depend on a machine.
Allocations are assumed to begin at a multiple of 256 bytes. If the program fails, its traceback is
printed and the trace until then is still written. The exit status is that of the program, or 1 if a
page could not be written.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from tile.diagnostics.trace import Trace
from tile.diagnostics.trace import trace as tracing
from tile.errors import ArgumentValueError
from tile.tools.command import PrintedErrors, run_program

EVERY = 2.0  # seconds between two lines of progress


def _outputs(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("-o", "--output", metavar="FILE", help="write an HTML page")
    add("--perfetto", metavar="FILE", help="write a timeline for Perfetto")
    add("--json", metavar="FILE", help="write the counts as JSON")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command to a parser."""
    _outputs(parser)
    add = parser.add_argument
    add("-m", dest="module", action="store_true", help="the program is a module")
    add("program", help="program.py")
    add("arguments", nargs=argparse.REMAINDER, help="output options, then the program's arguments")


def _program_arguments(options: argparse.Namespace) -> list[str]:
    """Parse output options that follow the program's name; return the program's arguments."""
    arguments: list[str] = options.arguments
    parser = argparse.ArgumentParser(prog="tile trace", add_help=False, allow_abbrev=False)
    _outputs(parser)
    names = set(parser._option_string_actions)
    count = 0
    while count < len(arguments) and arguments[count].partition("=")[0] in names:
        count += 1 if "=" in arguments[count] else 2
    parser.parse_args(arguments[:count], options)
    return arguments[count + 1 :] if arguments[count : count + 1] == ["--"] else arguments[count:]


def run(options: argparse.Namespace) -> int:
    """Run the command, and return its exit status."""
    arguments = _program_arguments(options)
    writes = list(_writes(options))
    for path, _ in writes:
        _refuse_unwritable(Path(path))
    if not options.module and not Path(options.program).is_file():
        raise ArgumentValueError(f"there is no program {options.program}")
    errors = PrintedErrors()
    with tracing() as trace, _progress(trace, sys.stderr), errors:
        errors.status = run_program(options.program, arguments, module=options.module)
    print(trace)
    written = [_write(trace, path, write) for path, write in writes]
    return errors.status or int(not all(written))


Write = Callable[[Trace, str], Path]


def _writes(options: argparse.Namespace) -> Iterator[tuple[str, Write]]:
    for path, write in (
        (options.output, Trace.html),
        (options.perfetto, Trace.perfetto),
        (options.json, Trace.json),
    ):
        if path:
            yield path, write


def _refuse_unwritable(path: Path) -> None:
    """Raise `ArgumentValueError` for a path that cannot be written, before a long run."""
    folder = path.parent
    if path.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        why = "it is a folder" if path.is_dir() else f"{folder} is not a writable folder"
        raise ArgumentValueError(f"cannot write {str(path)!r}: {why}")


def _write(trace: Trace, path: str, write: Write) -> bool:
    """Write a trace; if the path cannot be written after all, write a temporary file instead.

    Return False in the latter case.
    """
    try:
        print(f"wrote {write(trace, path)}")
        return True
    except ArgumentValueError as error:
        number, other = tempfile.mkstemp(suffix=Path(path).suffix)
        os.close(number)
        print(f"error: {error.message}; wrote {write(trace, other)} instead", file=sys.stderr)
        return False


@contextmanager
def _progress(trace: Trace, stream: TextIO) -> Iterator[None]:
    """Print the progress every `EVERY` seconds if the stream is a terminal."""
    if not stream.isatty():
        yield
        return
    done = threading.Event()

    def report() -> None:
        while not done.wait(EVERY):
            name = trace.kernels[-1].kernel if trace else "no kernel yet"
            text = f"launch {trace.launches:,} ({name}), {trace.timeline.now:,} instructions"
            print(f"tile trace: {text}", file=stream, flush=True)

    thread = threading.Thread(target=report, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
