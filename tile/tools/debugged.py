"""A program under the debugger, from its beginning, as often as the user likes."""

from __future__ import annotations

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

from tile.backends.interp.stepped.watcher import watched
from tile.checks import Checks
from tile.config import config
from tile.debugger.following import RUN
from tile.debugger.frames import HostFrame, failed_frames
from tile.debugger.moving import RestartError
from tile.debugger.prompt import Debugger
from tile.debugger.talk import QuitError
from tile.runtime.context import interpreted
from tile.tools.program import run_program


@dataclass(frozen=True)
class Program:
    """A file of Python, or a module by its name, with its arguments."""

    name: str
    arguments: Sequence[str]
    is_module: bool = False

    def main(self) -> str:
        """The path of the file. Raises `OSError` for one that cannot be read."""
        if not self.is_module:
            path = Path(self.name).resolve()
            with path.open("rb"):
                return str(path)
        spec = importlib.util.find_spec(self.name)
        if spec is None or spec.origin is None:
            raise FileNotFoundError(f"there is no module {self.name!r}")
        return spec.origin


class Outcome:
    """A context that takes how a program ended: with a status, or by an error.

    What the debugger itself raises goes through.
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
    """Run a program under the debugger until the user leaves; `commands` come before his own.

    Raises `OSError` for a program that cannot be read.
    """
    main = program.main()
    debugger.session.faults = True
    debugger.cmdqueue.extend(commands)
    while True:
        try:
            once(program, main, debugger, checks)
        except QuitError:
            return
        except RestartError as again:
            if again.arguments is not None:
                program = Program(program.name, again.arguments, program.is_module)
            given = " ".join(program.arguments)
            debugger.say(f"Restarting {program.name}{f' with arguments: {given}' * bool(given)}")


def once(program: Program, main: str, debugger: Debugger, checks: Checks) -> None:
    """Run a program once, and talk about how it ended."""
    session = debugger.session
    session.goal, session.replay = RUN, None
    debugger.before(main)
    outcome = Outcome()
    with (
        interruptible(debugger),
        interpreted("steps"),
        config.scope(sanitize=checks),
        watched(session),
        outcome,
    ):
        # By its path, since programs may change the folder that they are in.
        name = program.name if program.is_module else main
        outcome.status = run_program(name, program.arguments, module=program.is_module)
    ended(outcome, debugger)


def ended(outcome: Outcome, debugger: Debugger) -> None:
    """Say how a program ended, and talk about an error that nobody has seen yet."""
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
    debugger.say("Uncaught exception: the program has ended. Look at what Python's frames hold;")
    debugger.say("`c` or `restart` begins again.")
    debugger.failed(error)


def report(error: BaseException) -> str:
    """An error with the frames of the user's program that it came through."""
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
    """Let Ctrl-C stop programs at their next line; a second one, before that, is Python's own."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(number: int, frame: types.FrameType | None) -> None:
        if debugger.talking or debugger.session.interrupted:
            signal.default_int_handler(number, frame)
        debugger.session.interrupted = True

    before: Any = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
