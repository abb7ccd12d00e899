"""`tile triton`: run a program that is written for Triton.

Run a program for which `import triton` gives tile's compiler, in this process and in those that it
starts, without a change to the program.

  tile triton program.py                      a program; arguments after its name are passed to it
  tile triton -m pytest tests/test_mine.py    a module, as with python -m
  tile triton --version 3.6.0 program.py      as another version of Triton (3.8.0)
  tile triton --path                          print the folder that PYTHONPATH begins with

Options come before the program, as those of Python do. Environment variables of Triton, such as
TRITON_INTERPRET and TRITON_CACHE_DIR, mean what they mean there. With the printed folder first in
PYTHONPATH, Python itself finds tile as Triton. docs/compat.md lists what differs from Triton.
"""

from __future__ import annotations

import argparse

from tile.compat import LATEST, VERSIONS, install_as_triton
from tile.compat.environment import FOLDER, extend_path
from tile.errors import ArgumentValueError
from tile.tools.command import PrintedErrors, run_program


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command to a parser."""
    add = parser.add_argument
    add("--version", default=LATEST, choices=VERSIONS, help=f"version of Triton ({LATEST})")
    add("--path", action="store_true", help="print the folder for PYTHONPATH, and run nothing")
    add("-m", dest="module", action="store_true", help="the program is a module")
    add("program", nargs="?", help="program.py, or the name of a module")
    add("arguments", nargs=argparse.REMAINDER, help="arguments of the program")


def run(options: argparse.Namespace) -> int:
    """Run the command, and return the exit status of the program."""
    if options.path:
        print(FOLDER)
        return 0
    if options.program is None:
        raise ArgumentValueError("tile triton takes a program: tile triton program.py")
    install_as_triton(options.version)
    extend_path()
    errors = PrintedErrors()
    with errors:
        errors.status = run_program(options.program, options.arguments, module=options.module)
    return errors.status
