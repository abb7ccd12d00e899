"""What all commands share: where programs stand, what is looked at, and how to answer."""

from __future__ import annotations

import cmd
import linecache
from collections.abc import Sequence
from typing import Any, TextIO

from tile.brief import brief as brief_text
from tile.debugger.expressions import FAILURES, evaluate
from tile.debugger.frames import Frame, HostFrame, KernelFrame
from tile.debugger.places import named
from tile.debugger.session import Session, Stop
from tile.debugger.show import brief
from tile.debugger.source import shown
from tile.debugger.values import MissingError, whole
from tile.ir.ops.debug import StepKind
from tile.ir.steps import RESULT


class QuitError(BaseException):
    """The user leaves the debugger. No `except Exception` of the program is to take it."""


class Talk(cmd.Cmd):
    """A conversation at one place after the other; commands are in the classes derived from it.

    With `stdin` and `stdout` lines are read and written there, else at the terminal.
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
        self.told: object = None  # the program and its company that were described last
        self.main: str | None = None  # the file that `tile debug` runs
        self.error: BaseException | None = None
        self.talking = False

    # -- answering

    def say(self, text: str) -> None:
        """Print a line."""
        self.stdout.write(f"{text}\n")

    def refuse(self, text: str) -> None:
        """Print what was wrong."""
        self.say(f"*** {text}")

    def problem(self, error: BaseException) -> None:
        """Print what was wrong with an expression."""
        if isinstance(error, MissingError):
            self.refuse(str(error))
        elif isinstance(error, SyntaxError):
            self.refuse(f"SyntaxError: {error.msg}")
        else:
            text = error.args[0] if isinstance(error, KeyError) and error.args else error
            self.refuse(f"{type(error).__name__}: {brief_text(text, limit=2000, show=str)}")

    # -- where programs stand

    @property
    def frame(self) -> Frame | None:
        """The call that is looked at."""
        return self.frames[self.index] if self.frames else None

    @property
    def kernel_frame(self) -> KernelFrame | None:
        """The same, if it is of a kernel."""
        return self.frame if isinstance(self.frame, KernelFrame) else None

    def stopped(self, stop: Stop) -> None:
        """Talk with the user about programs that stand still."""
        self.error = stop.error
        for reason in stop.reasons:
            self.say(reason)
        if stop.error is not None:
            self.say(f"{type(stop.error).__name__}: {stop.error}")
            self.say("Post mortem: the program stands at its fault. `before` goes back to before")
            self.say("it; `c` goes on, and the launch raises the error.")
        self.look_at(stop)
        self.where_now()
        self.arrived()
        self.listen()

    def look_at(self, stop: Stop) -> None:
        """Look at the innermost call of a program."""
        self.stop = stop
        self.frames = [*stop.host, *stop.frames]
        self.index = len(self.frames) - 1
        self.listed = None

    def arrived(self) -> None:
        """Do what is to be done at each new place."""

    def listen(self) -> None:
        """Read and do commands until one sends programs on."""
        self.talking = True
        try:
            while True:
                try:
                    self.cmdloop()
                except KeyboardInterrupt:
                    self.say("--KeyboardInterrupt--")
                else:
                    return
        finally:
            self.talking = False

    def where_now(self) -> None:
        """Print the place that is looked at, and of a new program who it is."""
        self.place_now()
        self.company()

    def place_now(self) -> None:
        """Print the place that is looked at."""
        frame = self.frame
        if frame is None:
            return
        if isinstance(frame, KernelFrame) and frame.kind in (StepKind.CALL, StepKind.RETURN):
            self.say(f"--{frame.kind.value.capitalize()}--")
        self.say(self.spelled(frame, "> "))

    def company(self) -> None:
        """Print who is looked at, and who is there too, unless that was said last."""
        frame = self.kernel_frame
        if frame is None:
            return
        launch, rows = frame.wave.launch, frame.wave.rows
        key = id(launch), frame.row, rows.tobytes()
        if key == self.told:
            return
        self.told = key
        who = f"program {launch.coordinates(frame.row)} of grid {launch.grid}"
        others = f"here are {named(launch, rows)}" if len(rows) > 1 else "it is here alone"
        self.say(f"[{who}; {others}]" if launch.programs > 1 else f"[{who}]")

    def spelled(self, frame: Frame, head: str) -> str:
        """A call in two lines, as pdb prints it."""
        text = linecache.getline(frame.file, frame.line).strip()
        result = ""
        if isinstance(frame, KernelFrame) and frame.kind is StepKind.RETURN:
            result = f"->{self.result(frame)}"
        first = f"{head}{shown(frame.file)}({frame.line}){frame.function}(){result}"
        return f"{first}\n-> {text}"

    def result(self, frame: KernelFrame) -> str:
        """What a function that is at its end returns."""
        try:
            return brief(whole(frame.variables[RESULT], frame.reader))
        except MissingError as error:
            return str(error)

    # -- expressions

    def evaluated(self, text: str) -> tuple[bool, Any]:
        """Whether an expression could be evaluated where the user looks, and its value."""
        try:
            return True, evaluate(text, self.frame, self.session.own)
        except FAILURES as error:
            self.problem(error)
            return False, None

    def names(self) -> list[str]:
        """The names of variables, for completion."""
        frame = self.frame
        if isinstance(frame, KernelFrame):
            return [*frame.variables, *self.session.own]
        if isinstance(frame, HostFrame):
            return [*frame.frame.f_locals, *self.session.own]
        return list(self.session.own)

    def completedefault(self, text: str, *_: Any) -> list[str]:
        """Names of variables that begin with a text."""
        return [name for name in self.names() if name.startswith(text)]
