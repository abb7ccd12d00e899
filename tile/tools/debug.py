"""`tile debug`: a program's kernels under a debugger with pdb's commands."""

from __future__ import annotations

import argparse

from tile.checks import ALL, ALWAYS, choose
from tile.config import config
from tile.debugger.prompt import Debugger
from tile.errors import ArgumentValueError
from tile.tools.command import Command
from tile.tools.debugged import Program, debug

DESCRIPTION = """\
Run a program with its kernels on the interpreter, and stop them where you like. Commands are pdb's:

  tile debug softmax.py 4096
  (tile) b softmax.py:14, program_id(0) == 3
  (tile) c
  > softmax.py(14)softmax()
  -> x = x - tl.max(x, 0)
  (tile) p x

Lines are those of kernels and of the functions that they call. `help` lists the commands, `help
values` says how variables are shown, `help programs-together` how many programs stop as one. All
checks are on: at a fault the programs stand still where it is, and `before` goes back to before it.
`breakpoint()` in a kernel stops there too, also without this command: under TILE_BACKEND=interp, at
a terminal.
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "-c", "--command", action="append", default=[], metavar="COMMAND", dest="commands",
        help="do this first, as if it were typed; may be given again",
    )  # fmt: skip
    add("-m", "--module", action="store_true", help="the program is the name of a module")
    add("--sanitize", metavar="CHECKS", help="all (the default), none, or some of the checks")
    add("program", help="a file of Python")
    add("arguments", nargs=argparse.REMAINDER, help="the program's own")


def _run(options: argparse.Namespace) -> int:
    checks = ALL if config.sanitize == ALWAYS else config.sanitize
    if options.sanitize is not None:
        try:
            checks = choose(options.sanitize)
        except ValueError as error:
            raise ArgumentValueError(f"--sanitize: {error}") from None
    program = Program(options.program, options.arguments, options.module)
    try:
        program.main()
    except OSError as error:
        raise ArgumentValueError(f"cannot debug {options.program}: {error}") from error
    debug(program, Debugger(), checks, options.commands)
    return 0


COMMAND = Command("debug", "stop kernels at lines, and look", DESCRIPTION, _configure, _run)
