"""Commands that print the call stack and the source, and `help`.

`help` has an overview, each command, and the differences from debugging one Python thread.
"""

from __future__ import annotations

import inspect
import linecache

from tile.debugger.commands.command_base import CommandBase
from tile.debugger.frames import source_lines
from tile.debugger.source_files import same_file

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


class HelpCommands(CommandBase):
    """Help for commands and topics.

    Commands are pdb's. `help COMMAND` says more; an empty line repeats the last command.

      run       s(tep)  n(ext)  r(eturn)  unt(il) [line]  c(ontinue)  before [count]
                restart [args]  q(uit)
      stop      b(reak) [place[, condition]]  tbreak  cl(ear)  disable  enable  ignore  condition
                when condition    only [program | condition | off]
      look      p expression  pp  whatis  a(rgs)  vars  display  undisplay
                w(here)  u(p)  d(own)  l(ist)  ll
      programs  program [i,j,k]  programs

    Topics: help values, help programs-together, help faults.
    Anything else is Python, evaluated with the variables of the selected program.
    """

    def help_values(self) -> None:
        """The values of variables, as commands print them.

        Variables are those of the Python source, for the selected program. A tile is a NumPy array,
        a scalar a NumPy number, a constexpr what it is in Python.

          p x              type, shape and elements; `--` is an undefined element
          p x.max(), p x[x > 3], p (x != x).any(), p np.abs(x - y).argmax()
          p mask           a mask is a tile of bool
          p x_ptr + i      a pointer is an argument plus an index; `!` marks those out of bounds
          p (x_ptr + i).load()    what memory holds there now
          p x_ptr.array    the whole array that was passed
          total = x.sum()  a variable of your own, for later expressions
        """

    def help_programs_together(self) -> None:
        """Programs that run together.

        The interpreter runs many programs of the grid at once, in batches. "Stopped at line 12"
        means that all programs of a batch stand there; a line tells which ones whenever that
        changes. One of them is selected, and `n`, `s`, `r`, `unt` follow that one; the others of
        its batch run with it, and all other programs run in any order.

        Where programs take different branches of an `if`, or leave a loop in different iterations,
        the batch splits, and joins again after it. `programs` lists where all are; `program 3,0`
        selects another one, where it stands. A large grid is run in parts, one after the other:
        some programs may have ended, and others not have started.

          b 12, program_id(0) == 3     stop one program
          b 12, (x < 0).any()          stop programs by their values
          only 3,0                     let breakpoints stop this program alone
          when total > 100             stop where it becomes true, at any line
        """

    def help_faults(self) -> None:
        """Faults that stop programs.

        The session runs with all checks of the interpreter (docs/debugging.md): out-of-bounds
        accesses, races, undefined values, index arithmetic that wraps, false promises, asserts,
        deadlocks. At a fault programs stop at the faulty operation, and its error is printed:
        inspect the masks, pointers and values. `before` goes back to the beginning of the faulty
        line, `before 5` to that of the fifth last line; from there you can step.

        `c` from a fault lets the launch raise its error, as it does without a debugger.
        """

    def do_help(self, arg: str) -> None:
        """`h(elp) [command | topic]`.

        Print what a command does, or the list of commands.
        """
        topic = getattr(self, f"help_{arg.replace('-', '_')}", None) if arg else HelpCommands
        documented = topic or getattr(self, f"do_{arg}", None)
        if documented is None:
            self.refuse(f"no command or topic is called `{arg}`; `help` lists them")
            return
        first, _, text = inspect.cleandoc(documented.__doc__ or "").partition("\n\n")
        if topic is None:
            self.say(first.replace("`", "").removesuffix("."))
        self.say(text)

    do_h = do_help
