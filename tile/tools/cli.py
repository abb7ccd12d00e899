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
import importlib
import sys
from collections.abc import Sequence

from tile.errors import TileError
from tile.tools.command import run_with_checked_output
from tile.version import VERSION

# Each command is a module of this package. Its docstring is the help: the summary after
# "`tile NAME`: ", then the description. `configure` adds the options to a parser; `run` takes the
# parsed options and returns the exit status. A `TileError` that it raises is printed.
COMMANDS = (
    "cache",
    "check",
    "compile",
    "debug",
    "explain",
    "info",
    "link",
    "opt",
    "trace",
    "triton",
    "tune",
)


def parser(commands: Sequence[str] = COMMANDS) -> argparse.ArgumentParser:
    """Return the parser of a command line with some of the commands, which are imported."""
    raw = argparse.RawDescriptionHelpFormatter
    top = argparse.ArgumentParser(
        prog="tile",
        description=_documented(__doc__)[1],
        formatter_class=raw,
        epilog="`tile COMMAND --help` describes a command.",
    )
    top.add_argument("--version", action="version", version=f"tile {VERSION}")
    group = top.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name in commands:
        command = importlib.import_module(f"tile.tools.{name}")
        summary, description = _documented(command.__doc__)
        child = group.add_parser(name, help=summary, description=description, formatter_class=raw)
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
    words = sys.argv[1:] if arguments is None else arguments
    # Importing all commands takes half a second, which a program under `tile triton` would wait.
    named = [name for name in COMMANDS if name in words[:1]]
    options = parser(named or COMMANDS).parse_args(words)
    try:
        status: int = options.run(options)
    except TileError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return status
