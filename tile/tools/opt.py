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

from tile.config import config
from tile.errors import TileError
from tile.ir.compilation_context import deepest_location, nesting_error
from tile.ir.module import Module
from tile.ir.op_definition import Level
from tile.ir.passes import PASSES, Pass, PassManager, parse_pipeline, refuse_unknown
from tile.ir.printer import print_module
from tile.ir.verifier import verify
from tile.simt.pass_pipeline import lowering
from tile.tools.arguments import add_define, parse_arguments
from tile.tools.command import SEPARATOR, modules, write
from tile.transforms import pass_pipeline

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
    for module in modules(options.file, parse_arguments(options.define), split=options.split):
        try:
            printed.append(transform(module(), passes, options))
        except TileError as error:
            print(f"error: {error}", file=sys.stderr)
            failed = True
    write(f"{SEPARATOR}\n".join(printed), options.output)
    return int(failed)


def listing() -> str:
    """Return a table of all passes with their options and summaries."""
    lines = []
    for defn in sorted(PASSES, key=lambda defn: defn.name):
        options = [f"{name}={spec.default}" for name, spec in defn.options.items()]
        suffix = f"{{{','.join(options)}}}".lower() if options else ""
        summary = defn.doc.partition("\n")[0]
        lines.append(f"{defn.name + suffix:26} {summary}")
    return "\n".join(lines)
