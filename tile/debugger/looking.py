"""Commands that look: at variables, at the chain of calls, at the source."""

from __future__ import annotations

import linecache
from typing import Any

from tile.debugger.expressions import FAILURES, evaluate, execute, undefined
from tile.debugger.frames import HostFrame, KernelFrame, source_lines
from tile.debugger.show import brief, kind, show
from tile.debugger.source import same_file
from tile.debugger.talk import Talk
from tile.debugger.values import MissingError, whole
from tile.ir.steps import RESULT

AROUND = 11  # lines that `l` prints


class Looking(Talk):
    """pdb's `p`, `pp`, `whatis`, `args`, `display`, `where`, `up`, `down`, `list`, `longlist`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # By function: expressions with what they were when they were last shown.
        self.displayed: dict[str, dict[str, str]] = {}

    # -- values

    def do_p(self, arg: str) -> None:
        """`p expression`.

        Print the value of an expression in the program that is looked at. Tiles are arrays of NumPy
        (`np`): undefined elements are `--`, and stay so in what is computed of them. Pointers are
        an argument plus an index, `!` where that is outside of it; they have `.load()`, `.index`,
        `.inside` and `.array`. `program_id(axis)` and `num_programs(axis)` are the grid's.
        """
        self.print_value(arg, everything=False)

    def do_pp(self, arg: str) -> None:
        """`pp expression`.

        As `p`, with all elements of large tiles.
        """
        self.print_value(arg, everything=True)

    def print_value(self, arg: str, *, everything: bool) -> None:
        if not arg:
            self.refuse("this takes an expression; `vars` lists the variables")
            return
        good, value = self.evaluated(arg)
        if good:
            reason = undefined(arg, self.frame)
            if isinstance(self.frame, HostFrame):
                self.say(repr(value))
            else:
                self.say(show(value, reason, everything=everything))

    def do_whatis(self, arg: str) -> None:
        """`whatis expression`.

        Print of what kind the value of an expression is: type and shape.
        """
        if not arg:
            self.refuse("this takes an expression")
            return
        good, value = self.evaluated(arg)
        if good:
            self.say(str(type(value)) if isinstance(self.frame, HostFrame) else kind(value))

    def default(self, line: str) -> None:
        """An expression to print, or a statement that gives the user's own names values."""
        text = line.removeprefix("!").strip()
        try:
            value = evaluate(text, self.frame, self.session.own)
        except SyntaxError:
            self.run_statement(text)
        except FAILURES as error:
            self.problem(error)
        else:
            if value is not None:
                host = isinstance(self.frame, HostFrame)
                self.say(repr(value) if host else show(value, undefined(text, self.frame)))

    def run_statement(self, text: str) -> None:
        try:
            execute(text, self.frame, self.session.own)
        except SyntaxError:
            word = text.split()[0] if text.split() else text
            self.refuse(f"`{word}` is neither a command nor Python; `help` lists the commands")
        except FAILURES as error:
            self.problem(error)

    def do_args(self, arg: str) -> None:
        """`a(rgs)`.

        Print the arguments of the function.
        """
        frame = self.frame
        if isinstance(frame, KernelFrame):
            self.listed_values(frame, frame.arguments())
        elif isinstance(frame, HostFrame):
            for name, value in frame.arguments().items():
                self.say(f"{name} = {value!r}")
        else:
            self.refuse("no function is running")

    do_a = do_args

    def do_vars(self, arg: str) -> None:
        """`vars`.

        Print all variables of the function, tiles by type and shape.
        """
        frame = self.kernel_frame
        if frame is None:
            self.refuse("no function of a kernel is looked at")
            return
        self.listed_values(frame, [name for name in frame.variables if name != RESULT])

    def listed_values(self, frame: KernelFrame, names: list[str]) -> None:
        for name in names:
            try:
                text = brief(whole(frame.variables[name], frame.reader))
            except (MissingError, KeyError):
                text = "(no value here)"
            self.say(f"{name} = {text}")

    # -- values at every stop

    def arrived(self) -> None:
        """Print what is displayed in this function and has changed."""
        frame = self.frame
        if frame is None:
            return
        expressions = self.displayed.get(frame.function, {})
        for text, old in expressions.items():
            new = self.displayed_value(text)
            if new != old:
                self.say(f"display {text}: {new}  [old: {old}]")
                expressions[text] = new

    def displayed_value(self, text: str) -> str:
        try:
            value = evaluate(text, self.frame, self.session.own)
        except FAILURES as error:
            return f"({type(error).__name__}: {error})"
        return repr(value) if isinstance(self.frame, HostFrame) else show(value)

    def do_display(self, arg: str) -> None:
        """`display [expression]`.

        Print an expression now, and at each stop in this function where it has changed. Without
        one, list what is displayed here.
        """
        frame = self.frame
        if frame is None:
            self.refuse("no function is running")
            return
        mine = self.displayed.setdefault(frame.function, {})
        if not arg:
            for text, value in mine.items():
                self.say(f"{text}: {value}")
            return
        good, _ = self.evaluated(arg)
        if good:
            mine[arg] = self.displayed_value(arg)
            self.say(f"display {arg}: {mine[arg]}")

    def do_undisplay(self, arg: str) -> None:
        """`undisplay [expression]`.

        Display an expression no longer, or nothing.
        """
        mine = self.displayed.get(self.frame.function, {}) if self.frame is not None else {}
        if not arg:
            mine.clear()
        elif mine.pop(arg, None) is None:
            self.refuse(f"`{arg}` is not displayed here")

    # -- the chain of calls

    def do_where(self, arg: str) -> None:
        """`w(here), bt`.

        Print the calls that led here, the innermost last: the lines of Python that launched the
        kernel, the kernel, its functions. `>` is the one that is looked at.
        """
        if not self.frames:
            self.refuse("no function is running")
        for index, frame in enumerate(self.frames):
            self.say(self.spelled(frame, "> " if index == self.index else "  "))

    do_w = do_bt = do_where

    def do_up(self, arg: str) -> None:
        """`u(p) [count]`.

        Look at the caller, or the count-th; from the kernel on, at Python's frames.
        """
        self.climb(arg, -1, "Oldest frame")

    do_u = do_up

    def do_down(self, arg: str) -> None:
        """`d(own) [count]`.

        Look at the function that is called, or the count-th.
        """
        self.climb(arg, 1, "Newest frame")

    do_d = do_down

    def climb(self, arg: str, way: int, end: str) -> None:
        if arg and not arg.isdecimal():
            self.refuse(f"`{arg}` is no number of calls")
            return
        limit = 0 if way < 0 else len(self.frames) - 1
        if not self.frames or self.index == limit:
            self.refuse(end)
            return
        wanted = self.index + way * int(arg or 1)
        self.index = max(0, min(wanted, len(self.frames) - 1))
        self.listed = None
        self.where_now()

    # -- the source

    def do_list(self, arg: str) -> None:
        """`l(ist) [first[, last] | .]`.

        Print 11 lines around this one, or go on from the last listing; `.` starts again here. With
        one number, the lines around that; with two, from one to the other, or so many if the
        second is less.
        """
        frame = self.frame
        file = self.main if frame is None else frame.file
        if file is None:
            self.refuse("no file is known yet")
            return
        words = [word.strip() for word in arg.split(",")] if arg and arg != "." else []
        if len(words) > 2 or not all(word.isdecimal() for word in words):
            self.refuse(f"`list` takes one or two numbers of lines, not `{arg}`")
            return
        first, last = self.span([int(word) for word in words], again=arg == ".")
        lines = linecache.getlines(file)
        if first > len(lines):
            self.say("[EOF]")
            return
        self.print_lines(file, lines[first - 1 : last], first)
        self.listed = min(last, len(lines))
        if last > len(lines):
            self.say("[EOF]")

    do_l = do_list

    def span(self, numbers: list[int], *, again: bool) -> tuple[int, int]:
        """The first and the last line of a listing."""
        if len(numbers) == 2:
            first, last = numbers
            return max(1, first), last if last >= first else first + last
        if self.listed is not None and not numbers and not again:
            return self.listed + 1, self.listed + AROUND
        here = self.frame.line if self.frame is not None else 1
        first = max(1, (numbers[0] if numbers else here) - AROUND // 2)
        return first, first + AROUND - 1

    def do_longlist(self, arg: str) -> None:
        """`ll, longlist`.

        Print the whole function.
        """
        if self.frame is None:
            self.refuse("no function is running")
            return
        lines, first = source_lines(self.frame)
        self.print_lines(self.frame.file, lines, first)

    do_ll = do_longlist

    def print_lines(self, file: str, lines: list[str], first: int) -> None:
        """Lines with their numbers, `B` at breakpoints and `->` where the program stands."""
        here = self.frame
        stops = [one for one in self.session.breakpoints if one.line is not None]
        for number, line in enumerate(lines, first):
            head = str(number).rjust(3).ljust(4)
            head += "B" if any(one.is_at(file, number) for one in stops) else " "
            if here is not None and same_file(here.file, file) and here.line == number:
                head += "->"
            self.say(f"{head}\t{line.rstrip()}".rstrip())
