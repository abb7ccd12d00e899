"""`tile debug`: run kernels under a debugger with pdb's commands."""

from __future__ import annotations

import argparse

from tile.checks import ALL, ALWAYS, choose
from tile.config import config
from tile.debugger.prompt import Debugger
from tile.errors import ArgumentValueError
from tile.tools.command import Command
from tile.tools.debugged import Program, debug

DESCRIPTION = """\
Run a program with its kernels on the interpreter under a debugger. Commands are those of pdb:

  tile debug softmax.py 4096
  (tile) b softmax.py:14, program_id(0) == 3
  (tile) c
  > softmax.py(14)softmax()
  -> x = x - tl.max(x, 0)
  (tile) p x

Breakpoints are at lines of kernels and of the functions that they call. `help` lists the commands,
`help values` explains how variables are printed, `help programs-together` how many programs stop
together. All checks are on: programs stop at a fault, and `before` goes back to the state before
it. `breakpoint()` in a kernel also stops there, and without this command, too: with
TILE_BACKEND=interp, at a terminal.
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "-c", "--command", action="append", default=[], metavar="COMMAND", dest="commands",
        help="run a command first, as if it were typed; may be repeated",
    )  # fmt: skip
    add("-m", "--module", action="store_true", help="the program is the name of a module")
    add("--sanitize", metavar="CHECKS", help="all (the default), none, or some of the checks")
    add("program", help="a Python file")
    add("arguments", nargs=argparse.REMAINDER, help="arguments of the program")


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


COMMAND = Command("debug", "run kernels under a debugger", DESCRIPTION, _configure, _run)
