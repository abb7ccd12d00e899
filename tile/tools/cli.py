"""The command `tile`: each subcommand is a file in this folder."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from tile.errors import TileError
from tile.tools import (
    cache,
    check,
    compile,  # noqa: A004 - named after its command
    debug,
    explain,
    info,
    opt,
    reference,
    trace,
)
from tile.tools.streams import run_with_checked_output

COMMANDS = (
    cache.COMMAND,
    check.COMMAND,
    compile.COMMAND,
    debug.COMMAND,
    explain.COMMAND,
    info.COMMAND,
    opt.COMMAND,
    reference.COMMAND,
    trace.COMMAND,
)

DESCRIPTION = """\
Tools around the tile compiler. Kernels themselves are written and launched in Python:

  import tile
  import tile.language as tl

  @tile.jit
  def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
      offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
      mask = offsets < n
      total = tl.load(x_ptr + offsets, mask) + tl.load(y_ptr + offsets, mask)
      tl.store(out_ptr + offsets, total, mask)

  add[(tile.cdiv(n, 1024),)](x, y, out, n, BLOCK=1024)
"""


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    top = argparse.ArgumentParser(
        prog="tile",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="`tile COMMAND --help` describes a command.",
    )
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        child = commands.add_parser(
            command.name,
            help=command.summary,
            description=command.description,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        command.configure(child)
        child.set_defaults(run=command.run)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command line and return its exit status, which is 1 for a `TileError`."""
    return run_with_checked_output(lambda: _run(arguments))


def _run(arguments: Sequence[str] | None) -> int:
    options = parser().parse_args(arguments)
    try:
        status: int = options.run(options)
    except TileError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return status
