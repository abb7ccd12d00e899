"""The command `tile`.

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
    link,
    opt,
    reference,
    trace,
    triton,
    tune,
)
from tile.tools.streams import run_with_checked_output

# Each command is a module. Its docstring is the help: the summary after "`tile NAME`: ", then the
# description. `configure` adds the options to a parser; `run` takes the parsed options and returns
# the exit status. A `TileError` that it raises is printed.
COMMANDS = (cache, check, compile, debug, explain, info, link, opt, reference, trace, triton, tune)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the whole command line."""
    raw = argparse.RawDescriptionHelpFormatter
    top = argparse.ArgumentParser(
        prog="tile",
        description=_documented(__doc__)[1],
        formatter_class=raw,
        epilog="`tile COMMAND --help` describes a command.",
    )
    commands = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for command in COMMANDS:
        summary, description = _documented(command.__doc__)
        name = command.__name__.rpartition(".")[2]
        child = commands.add_parser(
            name, help=summary, description=description, formatter_class=raw
        )
        command.configure(child)
        child.set_defaults(run=command.run)
    return top


def _documented(doc: str | None) -> tuple[str, str]:
    """Return the summary and the description in a module's docstring."""
    first, _, description = (doc or "").partition("\n\n")
    return first.partition(": ")[2].rstrip("."), description


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
