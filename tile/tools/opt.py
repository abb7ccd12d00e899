"""`tile opt`: read IR text, verify it, run passes over it, print it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from tile.config import config
from tile.errors import ArgumentValueError, TileError
from tile.ir.levels import Level
from tile.ir.nesting import deepest, too_deep
from tile.ir.parser import parse_module
from tile.ir.passes import PASSES, Pass, PassManager, parse_pipeline, refuse_unknown
from tile.ir.printer import print_module
from tile.ir.verifier import verify
from tile.simt.pipeline import lowering
from tile.tools.command import Command
from tile.transforms import pipeline

SEPARATOR = "// -----"
PRINTING = "print-"  # how the names of passes begin that print what they find
# Pipelines that may be asked for by name, as if they were passes.
PIPELINES = {"TILE": lambda: list(pipeline.TILE), "THREADS": lowering}

DESCRIPTION = """\
Read IR text, verify it, run passes over it and print the result. Every IR that is printed anywhere
is such text: what TILE_DUMP writes, and the file that reproduces a failed pass.

  tile opt kernel.tile                            only verify and print
  tile opt kernel.tile -p canonicalize,cse        run two passes
  tile opt kernel.tile -p 'unroll{limit=8},dce'   a pass with an option
  tile opt kernel.tile -p TILE                    what every backend starts with
  tile opt kernel.tile -p THREADS                 from tiles to threads, for a generic machine
  tile opt kernel.tile -p print-axis-info         see what an analysis finds
  tile opt --list                                 all passes
"""


def transform(text: str, file: str, passes: list[Pass], options: argparse.Namespace) -> str:
    """The text of a module after some passes; nothing, if the last of them has printed it.

    `file` is named in locations.
    """
    module = parse_module(text, file)
    level = Level(options.level)
    try:
        verify(module, level)
        level = PassManager(passes, verify_each=options.verify_each or None).run(module, level)
        verify(module, level)
        if passes and passes[-1].defn.name.startswith(PRINTING):
            return ""
        return print_module(module, locations=options.locations)
    except RecursionError as error:
        raise too_deep(deepest(module)) from error


def chunks(text: str) -> Iterator[str]:
    """The parts of a text between separators, led by empty lines that keep their line numbers."""
    lines: list[str] = []
    for number, line in enumerate(text.splitlines(keepends=True)):
        if line.rstrip() == SEPARATOR:
            yield "".join(lines)
            lines = ["\n"] * (number + 1)
        else:
            lines.append(line)
    yield "".join(lines)


def requested(text: str) -> list[Pass]:
    """The passes of a pipeline's text, in which a pipeline may be named, too."""
    named = PIPELINES.get(text)
    return parse_pipeline(text) if named is None else named()


def _configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("file", nargs="?", default="-", help="a file of IR text; - for the standard input")
    add("-p", "--passes", default="", metavar="PASSES", help="pass,pass{option=value},...")
    add("-o", "--output", metavar="FILE", help="write to a file instead of the standard output")
    add("--level", default="tile", choices=[level.value for level in Level], help="of the input")
    add("--verify-each", action="store_true", help="verify after every pass, not only at the ends")
    add("--locations", action="store_true", help="print the location of every operation")
    add("--split", action="store_true", help=f"take the parts between `{SEPARATOR}` lines apart")
    add("--list", action="store_true", help="list the passes and their options")


def _run(options: argparse.Namespace) -> int:
    if options.list:
        print(listing())
        return 0
    refuse_unknown(config.print_after)
    passes = requested(options.passes)
    text, file = _read(options.file)
    printed, failed = [], False
    for chunk in chunks(text) if options.split else [text]:
        try:
            printed.append(transform(chunk, file, passes, options))
        except TileError as error:
            print(f"error: {error}", file=sys.stderr)
            failed = True
    _write(f"{SEPARATOR}\n".join(printed), options.output)
    return int(failed)


def _read(file: str) -> tuple[str, str]:
    """The text, and the name of the file for messages."""
    if file == "-":
        return sys.stdin.read(), "<stdin>"
    try:
        return Path(file).read_text(encoding="utf-8"), file
    except (OSError, UnicodeDecodeError) as error:
        raise ArgumentValueError(f"cannot read {file}: {error}") from error


def _write(text: str, file: str | None) -> None:
    if file is None:
        sys.stdout.write(text)
        return
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise ArgumentValueError(f"cannot write {file}: {error}") from error


def listing() -> str:
    """All passes, with options and the first sentence of what each does."""
    lines = []
    for defn in sorted(PASSES, key=lambda defn: defn.name):
        options = [f"{name}={spec.default}" for name, spec in defn.options.items()]
        shown = f"{{{','.join(options)}}}".lower() if options else ""
        summary = defn.doc.partition("\n")[0]
        lines.append(f"{defn.name + shown:26} {summary}")
    return "\n".join(lines)


COMMAND = Command("opt", "run passes over IR text", DESCRIPTION, _configure, _run)
