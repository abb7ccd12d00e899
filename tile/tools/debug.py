"""`tile debug`: run kernels under a debugger.

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

from __future__ import annotations

import argparse
import importlib.util
import signal
import threading
import traceback
import types
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tile.backends.base import requested_checks
from tile.backends.interp.stepping import watcher
from tile.checks import ALL, ALWAYS, Checks
from tile.config import config
from tile.debugger.commands import Debugger
from tile.debugger.commands.command_base import QuitError
from tile.debugger.commands.running import RestartError
from tile.debugger.frames import HostFrame, failed_frames
from tile.debugger.session import RUN
from tile.errors import ArgumentValueError
from tile.runtime.target_selection import interpreted
from tile.tools.command import run_program


@dataclass(frozen=True)
class Program:
    """A Python file, or a module by its name, with its arguments."""

    name: str
    arguments: Sequence[str]
    is_module: bool = False

    def main(self) -> str:
        """Return the path of the file. Raises `OSError` if it cannot be read."""
        if not self.is_module:
            path = Path(self.name).resolve()
            with path.open("rb"):
                return str(path)
        spec = importlib.util.find_spec(self.name)
        if spec is None or spec.origin is None:
            raise FileNotFoundError(f"there is no module {self.name!r}")
        return spec.origin


class Outcome:
    """A context manager that records how a program ended: with a status or by an exception.

    Exceptions of the debugger itself propagate.
    """

    def __init__(self) -> None:
        self.status = 0
        self.error: BaseException | None = None

    def __enter__(self) -> Outcome:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: types.TracebackType | None,
    ) -> bool:
        self.error = error
        return not isinstance(error, QuitError | RestartError)


def debug(program: Program, debugger: Debugger, checks: Checks, commands: Sequence[str]) -> None:
    """Run a program under the debugger until the user quits.

    commands: run before the user's first command.

    Raises `OSError` for a program that cannot be read.
    """
    main = program.main()
    debugger.session.faults = True
    debugger.cmdqueue.extend(commands)
    while True:
        try:
            run_once(program, main, debugger, checks)
        except QuitError:
            return
        except RestartError as restart:
            if restart.arguments is not None:
                program = Program(program.name, restart.arguments, program.is_module)
            arguments = " ".join(program.arguments)
            suffix = f" with arguments: {arguments}" if arguments else ""
            debugger.say(f"Restarting {program.name}{suffix}")


def run_once(program: Program, main: str, debugger: Debugger, checks: Checks) -> None:
    """Run a program once, and report how it ended."""
    session = debugger.session
    session.goal, session.replay = RUN, None
    debugger.before(main)
    outcome = Outcome()
    with (
        interruptible(debugger),
        interpreted("steps"),
        config.scope(sanitize=checks),
        watcher.scope(session),
        outcome,
    ):
        # Use the absolute path, since the program may change the working directory.
        name = program.name if program.is_module else main
        outcome.status = run_program(name, program.arguments, module=program.is_module)
    report_end(outcome, debugger)


def report_end(outcome: Outcome, debugger: Debugger) -> None:
    """Report how a program ended; open the prompt for an error that was not reported yet."""
    error = outcome.error
    if error is None:
        exited = f"exited via sys.exit(). Exit status: {outcome.status}. It"
        debugger.say(
            f"The program {exited if outcome.status else 'finished and'} will be restarted"
        )
        return
    if error is debugger.error:
        name = type(error).__name__
        debugger.say(f"The program ended with the {name} above, and will be restarted")
        return
    debugger.say(report(error))
    debugger.say("Uncaught exception: the program has ended. You can inspect Python's frames;")
    debugger.say("`c` or `restart` runs the program again.")
    debugger.failed(error)


def report(error: BaseException) -> str:
    """Return the traceback of an error, limited to frames of the user's program."""
    frames: list[HostFrame] = failed_frames(error)
    lines = ["Traceback (most recent call last):"] if frames else []
    for frame in frames:
        summary = traceback.FrameSummary(frame.file, frame.line, frame.function)
        lines += traceback.StackSummary.from_list([summary]).format()
    if isinstance(error, SyntaxError):
        lines += traceback.format_exception_only(error)
    else:
        lines.append(f"{type(error).__name__}: {error}")
    return "\n".join(line.rstrip("\n") for line in lines)


@contextmanager
def interruptible(debugger: Debugger) -> Iterator[None]:
    """Let Ctrl-C stop programs at their next line; a second one before that interrupts Python."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: types.FrameType | None) -> None:
        if debugger.in_command_loop or debugger.session.interrupted:
            signal.default_int_handler(number, frame)
        debugger.session.interrupted = True

    previous: Any = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command to a parser."""
    add = parser.add_argument
    add(
        "-c", "--command", action="append", default=[], metavar="COMMAND", dest="commands",
        help="run a command first, as if it were typed; may be repeated",
    )  # fmt: skip
    add("-m", "--module", action="store_true", help="the program is the name of a module")
    add("--sanitize", metavar="CHECKS", help="all (the default), none, or some of the checks")
    add("program", help="a Python file")
    add("arguments", nargs=argparse.REMAINDER, help="arguments of the program")


def run(options: argparse.Namespace) -> int:
    """Run the command, and return its exit status."""
    checks = ALL if config.sanitize == ALWAYS else config.sanitize
    if options.sanitize is not None:
        checks = requested_checks(options.sanitize, "--sanitize")
    program = Program(options.program, options.arguments, options.module)
    try:
        program.main()
    except OSError as error:
        raise ArgumentValueError(f"cannot debug {options.program}: {error}") from error
    debug(program, Debugger(), checks, options.commands)
    return 0
