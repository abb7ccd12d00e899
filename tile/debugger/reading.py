"""Commands that print the call stack and the source."""

from __future__ import annotations

import linecache

from tile.debugger.frames import source_lines
from tile.debugger.source import same_file
from tile.debugger.talk import CommandBase

AROUND = 11  # lines that `l` prints


class StackCommands(CommandBase):
    """pdb's `where`, `up`, `down`, `list` and `longlist`."""

    def do_where(self, arg: str) -> None:
        """`w(here), bt`.

        Print the call stack, the innermost call last: the lines of Python that launched the kernel,
        the kernel, its functions. `>` marks the selected frame.
        """
        if not self.frames:
            self.refuse("no function is running")
        for index, frame in enumerate(self.frames):
            self.say(self.spelled(frame, "> " if index == self.index else "  "))

    do_w = do_bt = do_where

    def do_up(self, arg: str) -> None:
        """`u(p) [count]`.

        Select the caller, or the count-th; above the kernel are the Python frames.
        """
        self.move(arg, -1, "Oldest frame")

    do_u = do_up

    def do_down(self, arg: str) -> None:
        """`d(own) [count]`.

        Select the called function, or the count-th.
        """
        self.move(arg, 1, "Newest frame")

    do_d = do_down

    def move(self, arg: str, direction: int, end: str) -> None:
        if arg and not arg.isdecimal():
            self.refuse(f"`{arg}` is not a number of calls")
            return
        limit = 0 if direction < 0 else len(self.frames) - 1
        if not self.frames or self.index == limit:
            self.refuse(end)
            return
        target = self.index + direction * int(arg or 1)
        self.index = max(0, min(target, len(self.frames) - 1))
        self.listed = None
        self.print_stop()

    def do_list(self, arg: str) -> None:
        """`l(ist) [first[, last] | .]`.

        Print 11 lines around this one, or continue the last listing; `.` starts again here. With
        one number, print the lines around that; with two, those from one to the other, or so many
        if the second number is the smaller one.
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
        """Return the first and the last line of a listing."""
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
        """Print lines with their numbers, `B` at breakpoints and `->` where the program stands."""
        here = self.frame
        stops = [one for one in self.session.breakpoints if one.line is not None]
        for number, line in enumerate(lines, first):
            head = str(number).rjust(3).ljust(4)
            head += "B" if any(one.is_at(file, number) for one in stops) else " "
            if here is not None and same_file(here.file, file) and here.line == number:
                head += "->"
            self.say(f"{head}\t{line.rstrip()}".rstrip())
