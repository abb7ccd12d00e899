"""`tile trace`: what the launches of a program do with memory."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TextIO

from tile.accesses import Trace
from tile.errors import ArgumentValueError
from tile.runtime.tracing import trace as tracing
from tile.tools.command import Command
from tile.tools.program import run_program
from tile.tools.streams import output_failed

DESCRIPTION = """\
Run a program on the interpreter, without a GPU, and record what its launches read and write.

  tile trace program.py                        a table: bytes, sectors, masked lanes by source line
  tile trace program.py -o trace.html          a page: the same, and each array drawn with the heat
                                               of accesses, and how programs share its lines
  tile trace program.py --perfetto trace.json  what programs did one after the other; open it at
                                               ui.perfetto.dev or chrome://tracing
  tile trace program.py -o trace.html -- --size 300
                                               what follows -- is for the program
  tile trace -o trace.html -m package.module   a module, as with python -m

  bytes       asked for by active lanes
  sectors     of 32 bytes that an execution of the line in one program touches, each counted once;
              what was asked for of them is their efficiency. Lines are four of them
  masked off  lanes that a mask left out
  executions  of the line, in all programs

Counts are those of tiles, not of warps (`tile explain` has those), and do not depend on a machine.
Allocations are taken to begin at a multiple of 256 bytes. A program that fails shows its own
traceback, and what was recorded until then is written all the same; the exit status is its own, or
1 where a page could not be written.
"""

# Seconds between two lines of progress.
EVERY = 2.0


def _outputs(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("-o", "--output", metavar="FILE", help="write a page of HTML there")
    add("--perfetto", metavar="FILE", help="write a timeline for Perfetto there")
    add("--json", metavar="FILE", help="write the counts there")


def _configure(parser: argparse.ArgumentParser) -> None:
    _outputs(parser)
    add = parser.add_argument
    add("-m", dest="module", action="store_true", help="the program is a module")
    add("program", help="program.py")
    add("arguments", nargs=argparse.REMAINDER, help="options of these, then the program's own")


def _own(options: argparse.Namespace) -> list[str]:
    """Take outputs that stand behind the program's name; the program's arguments are left."""
    rest: list[str] = options.arguments
    parser = argparse.ArgumentParser(prog="tile trace", add_help=False, allow_abbrev=False)
    _outputs(parser)
    known = set(parser._option_string_actions)
    taken = 0
    while taken < len(rest) and rest[taken].partition("=")[0] in known:
        taken += 1 if "=" in rest[taken] else 2
    parser.parse_args(rest[:taken], options)
    return rest[taken + 1 :] if rest[taken : taken + 1] == ["--"] else rest[taken:]


@dataclass
class Guarded:
    """Runs the program inside its `with` block, and shows an error as Python would."""

    program: str
    status: int = 0

    def __enter__(self) -> Guarded:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        frames: TracebackType | None,
    ) -> bool:
        if error is None or not isinstance(error, Exception | KeyboardInterrupt):
            return False
        if isinstance(error, OSError) and output_failed():
            return False  # nobody reads what the program prints
        traceback.print_exception(kind, error, _of_program(frames, self.program))
        self.status = 130 if isinstance(error, KeyboardInterrupt) else 1
        return True


def _of_program(frames: TracebackType | None, program: str) -> TracebackType | None:
    """The frames from the program's own on."""
    own = frames
    while own is not None and own.tb_frame.f_code.co_filename != program:
        own = own.tb_next
    return own or frames


def _run(options: argparse.Namespace) -> int:
    arguments = _own(options)
    writes = list(_writes(options))
    for path, _ in writes:
        _refuse_unwritable(Path(path))
    if not options.module and not Path(options.program).is_file():
        raise ArgumentValueError(f"there is no program {options.program}")
    guarded = Guarded(options.program)
    with tracing() as trace, _progress(trace, sys.stderr), guarded:
        guarded.status = run_program(options.program, arguments, module=options.module)
    print(trace)
    whole = [_write(trace, path, write) for path, write in writes]
    return guarded.status or int(not all(whole))


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
    """Say so before a long run."""
    folder = path.parent
    if path.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
        why = "it is a folder" if path.is_dir() else f"{folder} is no folder to write to"
        raise ArgumentValueError(f"cannot write {str(path)!r}: {why}")


def _write(trace: Trace, path: str, write: Write) -> bool:
    """Write, to a new file in the folder for such if the path cannot be written after all.

    Return False if it had to go there.
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
    """Tell somebody who looks on, every two seconds, how far it is."""
    if not stream.isatty():
        yield
        return
    done = threading.Event()

    def tell() -> None:
        while not done.wait(EVERY):
            name = trace.kernels[-1].kernel if trace else "no kernel yet"
            text = f"launch {trace.launches:,} ({name}), {trace.timeline.now:,} instructions"
            print(f"tile trace: {text}", file=stream, flush=True)

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        done.set()
        teller.join()


COMMAND = Command("trace", "what a program reads and writes", DESCRIPTION, _configure, _run)
