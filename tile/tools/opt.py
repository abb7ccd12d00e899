"""`tile opt`: run passes over IR text.

Read IR text, verify it, run passes over it and print the result. All printed IR is such text: the
files of TILE_DUMP, and the file that reproduces a failed pass.

  tile opt kernel.tile                            only verify and print
  tile opt kernel.tile -p canonicalize,cse        run two passes
  tile opt kernel.tile -p 'unroll{limit=8},dce'   a pass with an option
  tile opt kernel.tile -p TILE                    the tile-level pipeline of every backend
  tile opt kernel.tile -p THREADS                 lower tiles to threads, for a generic machine
  tile opt kernel.tile -p print-axis-info         print the result of an analysis
  tile opt matmul.tc -D TM=32                     the kernels of a Triton-C file; tunables have the
                                                  given values, or else their first ones
  tile opt --list                                 all passes
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tile.config import config
from tile.errors import ArgumentValueError, TileError
from tile.ir.core import Level, Module
from tile.ir.nesting import deepest_location, nesting_error
from tile.ir.parser import parse_module
from tile.ir.passes import PASSES, Pass, PassManager, parse_pipeline, refuse_unknown
from tile.ir.printer import print_module
from tile.ir.verifier import verify
from tile.simt.pass_pipeline import lowering
from tile.tools.arguments import add_define, parse_arguments
from tile.tools.command import TRITON_C, load_triton_c
from tile.transforms import pass_pipeline

SEPARATOR = "// -----"
PRINTING = "print-"  # the prefix of the names of passes that print an analysis
# Pipelines that can be named like passes.
PIPELINES = {"TILE": lambda: list(pass_pipeline.TILE), "THREADS": lowering}


def transform(module: Module, passes: list[Pass], options: argparse.Namespace) -> str:
    """Return the text of a module after some passes; "" if the last one is a printing pass."""
    level = Level(options.level)
    try:
        verify(module, level)
        level = PassManager(passes, verify_each=options.verify_each or None).run(module, level)
        verify(module, level)
        if passes and passes[-1].defn.name.startswith(PRINTING):
            return ""
        return print_module(module, locations=options.locations)
    except RecursionError as error:
        raise nesting_error(deepest_location(module)) from error


def chunks(text: str) -> Iterator[str]:
    """Yield the chunks of a text between separators, padded with empty lines at the front.

    The padding preserves the line numbers of the whole text.
    """
    lines: list[str] = []
    for number, line in enumerate(text.splitlines(keepends=True)):
        if line.rstrip() == SEPARATOR:
            yield "".join(lines)
            lines = ["\n"] * (number + 1)
        else:
            lines.append(line)
    yield "".join(lines)


def parse_passes(text: str) -> list[Pass]:
    """Return the passes of a pipeline's text, or those of a named pipeline."""
    named = PIPELINES.get(text)
    return parse_pipeline(text) if named is None else named()


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command to a parser."""
    add = parser.add_argument
    add(
        "file",
        nargs="?",
        default="-",
        help="IR text, or Triton-C: file.tc or file.tc:kernel; - for the standard input",
    )
    add_define(parser)
    add("-p", "--passes", default="", metavar="PASSES", help="pass,pass{option=value},...")
    add("-o", "--output", metavar="FILE", help="write to a file instead of the standard output")
    add("--level", default="tile", choices=[level.value for level in Level], help="of the input")
    add("--verify-each", action="store_true", help="verify after every pass, not only at the ends")
    add("--locations", action="store_true", help="print the location of every operation")
    add("--split", action="store_true", help=f"process the text between `{SEPARATOR}` lines apart")
    add("--list", action="store_true", help="list the passes and their options")


def run(options: argparse.Namespace) -> int:
    """Run the command, and return its exit status."""
    if options.list:
        print(listing())
        return 0
    refuse_unknown(config.print_after)
    passes = parse_passes(options.passes)
    printed, failed = [], False
    for module in modules(options):
        try:
            printed.append(transform(module(), passes, options))
        except TileError as error:
            print(f"error: {error}", file=sys.stderr)
            failed = True
    _write(f"{SEPARATOR}\n".join(printed), options.output)
    return int(failed)


def modules(options: argparse.Namespace) -> Iterator[Callable[[], Module]]:
    """Yield functions that return the modules of the input: of IR text, or of a Triton-C file."""
    file, _, kernel = options.file.partition(f"{TRITON_C}:")
    if options.file.endswith(TRITON_C) or kernel:
        path = file + TRITON_C if kernel else file
        yield from triton_c_modules(path, kernel, parse_arguments(options.define))
        return
    if options.define:
        raise ArgumentValueError("--define is for Triton-C files")
    text, name = _read(options.file)
    for chunk in chunks(text) if options.split else [text]:
        yield partial(parse_module, chunk, name)


def triton_c_modules(
    path: str, name: str, values: Mapping[str, Any]
) -> Iterator[Callable[[], Module]]:
    """Yield functions that return the modules of a Triton-C file's kernels, or of the one named.

    A tunable that `values` does not give has its first value in the file.
    """
    kernels = list(load_triton_c(path, values))
    if name and name not in [kernel.__name__ for kernel in kernels]:
        raise ArgumentValueError(f"{path} has no kernel {name}")
    for kernel in kernels:
        if not name or kernel.__name__ == name:
            yield kernel.module


def _read(file: str) -> tuple[str, str]:
    """Return the text, and the name of the file for messages."""
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
    """Return a table of all passes with their options and summaries."""
    lines = []
    for defn in sorted(PASSES, key=lambda defn: defn.name):
        options = [f"{name}={spec.default}" for name, spec in defn.options.items()]
        suffix = f"{{{','.join(options)}}}".lower() if options else ""
        summary = defn.doc.partition("\n")[0]
        lines.append(f"{defn.name + suffix:26} {summary}")
    return "\n".join(lines)
