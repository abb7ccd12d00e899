"""The base of all commands: where programs stand, the selected frame, and how to answer."""

from __future__ import annotations

import cmd
import linecache
from collections.abc import Sequence
from typing import Any, TextIO

from tile.debugger.evaluate import FAILURES, evaluate
from tile.debugger.frames import Frame, HostFrame, KernelFrame, describe_programs
from tile.debugger.session import Session, Stop
from tile.debugger.source_files import display_path
from tile.debugger.variables import MissingError, brief, whole
from tile.ir.debug_info import RESULT
from tile.ir.ops.debug import StepKind
from tile.short_repr import short_repr


class QuitError(BaseException):
    """Raised to leave the debugger. No `except Exception` of the program can catch it."""


class CommandBase(cmd.Cmd):
    """A command loop at each stop; the commands are in the classes derived from it.

    With `stdin` and `stdout`, lines are read and written there, else at the terminal.
    """

    prompt = "(tile) "
    doc_header = "Commands"

    def __init__(self, stdin: TextIO | None = None, stdout: TextIO | None = None) -> None:
        super().__init__(stdin=stdin, stdout=stdout)
        self.use_rawinput = stdin is None
        self.session = Session(self.stopped, faults=False)
        self.stop: Stop | None = None
        self.frames: Sequence[Frame] = ()
        self.index = 0
        self.listed: int | None = None  # the last line that `l` printed
        self.described: object = None  # what `describe_program` described last
        self.main: str | None = None  # the file that `tile debug` runs
        self.error: BaseException | None = None
        self.in_command_loop = False

    # -- answering

    def say(self, text: str) -> None:
        """Print a line."""
        self.stdout.write(f"{text}\n")

    def refuse(self, text: str) -> None:
        """Print an error message."""
        self.say(f"*** {text}")

    def problem(self, error: BaseException) -> None:
        """Print the error of an expression."""
        if isinstance(error, MissingError):
            self.refuse(str(error))
        elif isinstance(error, SyntaxError):
            self.refuse(f"SyntaxError: {error.msg}")
        else:
            text = error.args[0] if isinstance(error, KeyError) and error.args else error
            self.refuse(f"{type(error).__name__}: {short_repr(text, limit=2000, show=str)}")

    # -- where programs stand

    @property
    def frame(self) -> Frame | None:
        """The selected call."""
        return self.frames[self.index] if self.frames else None

    @property
    def kernel_frame(self) -> KernelFrame | None:
        """The selected call, if it is of a kernel."""
        return self.frame if isinstance(self.frame, KernelFrame) else None

    def stopped(self, stop: Stop) -> None:
        """Print a stop, and read commands."""
        self.error = stop.error
        for reason in stop.reasons:
            self.say(reason)
        if stop.error is not None:
            self.say(f"{type(stop.error).__name__}: {stop.error}")
            self.say("Post mortem: the program stands at its fault. `before` goes back to before")
            self.say("it; `c` goes on, and the launch raises the error.")
        self.select(stop)
        self.print_stop()
        self.at_stop()
        self.listen()

    def select(self, stop: Stop) -> None:
        """Select the innermost call of a program."""
        self.stop = stop
        self.frames = [*stop.host, *stop.frames]
        self.index = len(self.frames) - 1
        self.listed = None

    def at_stop(self) -> None:
        """Print the displayed expressions, at each stop."""

    def listen(self) -> None:
        """Read and run commands until one continues the programs."""
        self.in_command_loop = True
        try:
            while True:
                try:
                    self.cmdloop()
                except KeyboardInterrupt:
                    self.say("--KeyboardInterrupt--")
                else:
                    return
        finally:
            self.in_command_loop = False

    def print_stop(self) -> None:
        """Print the position of the selected frame, and the selected program if that changed."""
        self.print_place()
        self.describe_program()

    def print_place(self) -> None:
        """Print the position of the selected frame."""
        frame = self.frame
        if frame is None:
            return
        if isinstance(frame, KernelFrame) and frame.kind in (StepKind.CALL, StepKind.RETURN):
            self.say(f"--{frame.kind.value.capitalize()}--")
        self.say(self.spelled(frame, "> "))

    def describe_program(self) -> None:
        """Print the selected program and the others at its position, unless printed last."""
        frame = self.kernel_frame
        if frame is None:
            return
        launch, rows = frame.batch.launch, frame.batch.rows
        key = id(launch), frame.row, rows.tobytes()
        if key == self.described:
            return
        self.described = key
        program = f"program {launch.coordinates(frame.row)} of grid {launch.grid}"
        others = (
            f"here are {describe_programs(launch, rows)}" if len(rows) > 1 else "it is here alone"
        )
        self.say(f"[{program}; {others}]" if launch.programs > 1 else f"[{program}]")

    def spelled(self, frame: Frame, head: str) -> str:
        """Return a call in two lines, as pdb prints it."""
        text = linecache.getline(frame.file, frame.line).strip()
        result = ""
        if isinstance(frame, KernelFrame) and frame.kind is StepKind.RETURN:
            result = f"->{self.result(frame)}"
        first = f"{head}{display_path(frame.file)}({frame.line}){frame.function}(){result}"
        return f"{first}\n-> {text}"

    def result(self, frame: KernelFrame) -> str:
        """Return the value that a function returns at its end, as text."""
        try:
            return brief(whole(frame.variables[RESULT], frame.reader))
        except MissingError as error:
            return str(error)

    # -- expressions

    def evaluated(self, text: str) -> tuple[bool, Any]:
        """Return (True, value) of an expression in the selected frame, or print why it has none."""
        try:
            return True, evaluate(text, self.frame, self.session.user_variables)
        except FAILURES as error:
            self.problem(error)
            return False, None

    def names(self) -> list[str]:
        """Return the names of variables, for completion."""
        frame = self.frame
        if isinstance(frame, KernelFrame):
            return [*frame.variables, *self.session.user_variables]
        if isinstance(frame, HostFrame):
            return [*frame.frame.f_locals, *self.session.user_variables]
        return list(self.session.user_variables)

    def completedefault(self, text: str, *_: Any) -> list[str]:
        """Return the names of variables that begin with a text."""
        return [name for name in self.names() if name.startswith(text)]
