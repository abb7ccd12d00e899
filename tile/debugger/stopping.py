"""Commands for breakpoints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tile.debugger.breakpoints import Breakpoint, NoBreakpointError
from tile.debugger.conditions import Condition
from tile.debugger.source import find, functions, refusal, shown
from tile.debugger.talk import Talk


class WrongPlaceError(Exception):
    """A place for a breakpoint that is none."""


@dataclass(frozen=True)
class Place:
    """A line of a file, or a function. `note` says what the user may want to know of it."""

    file: str | None = None
    line: int | None = None
    function: str | None = None
    note: str = ""


class Stopping(Talk):
    """pdb's commands for breakpoints; `when` and `only`."""

    def place(self, text: str) -> Place:
        """What a user calls a place. Raises `WrongPlaceError`."""
        file, colon, rest = text.rpartition(":")
        if not colon and not text.isdecimal():
            return self.function(text)
        if not rest.isdecimal():
            raise WrongPlaceError(f"`{rest}` is not the number of a line")
        if not colon:
            at = self.frame.file if self.frame is not None else self.main
        else:
            at = find(file.strip(), self.main)
        if at is None:
            raise WrongPlaceError(f"there is no file `{file}`" if colon else "no file is known yet")
        line = int(rest)
        named = {node.lineno: node.name for node in functions(at)}
        if line in named:
            return Place(function=named[line])
        problem = refusal(at, line)
        if problem is not None:
            raise WrongPlaceError(problem)
        return Place(at, line)

    def function(self, name: str) -> Place:
        """A function by its name."""
        last = name.rpartition(".")[2]
        if not last.isidentifier():
            raise WrongPlaceError(f"`{name}` is neither a line, nor file:line, nor a function")
        files = {frame.file for frame in self.frames} | ({self.main} if self.main else set())
        known = any(node.name == last for file in files for node in functions(file))
        note = "" if known else f"no function `{last}` is seen yet; it stops where one is called"
        return Place(function=last, note=note)

    def add(self, arg: str, *, temporary: bool) -> None:
        """Set a breakpoint as `b` and `tbreak` are told to."""
        place, comma, text = arg.partition(",")
        try:
            condition = Condition(text) if comma else None
            at = self.place(place.strip())
        except WrongPlaceError as error:
            self.refuse(str(error))
        except SyntaxError as error:
            self.refuse(f"`{text.strip()}` is no condition: {error.msg}")
        else:
            one = self.session.breakpoints.add(
                file=at.file,
                line=at.line,
                function=at.function,
                condition=condition,
                temporary=temporary,
            )
            self.say(f"Breakpoint {one.number} at {one.place}")
            if at.note:
                self.say(at.note)

    def do_break(self, arg: str) -> None:
        """`b(reak) [line | file:line | function [, condition]]`.

        Programs stop when they come to a line, or to the first line of a function: those for which
        the condition is true. It is an expression as of `p`: `b 12, i > 3`, `b 12, program_id(0) ==
        2`, `b 12, (x < 0).any()`. Without a place, list all breakpoints.
        """
        if arg:
            self.add(arg, temporary=False)
        elif self.session.breakpoints.known:
            self.say(str(self.session.breakpoints))

    do_b = do_break

    def do_tbreak(self, arg: str) -> None:
        """`tbreak line | file:line | function [, condition]`.

        As `b`, for a breakpoint that is gone once programs stopped there.
        """
        if arg:
            self.add(arg, temporary=True)
        else:
            self.refuse("`tbreak` takes a line, file:line or function")

    def do_when(self, arg: str) -> None:
        """`when condition`.

        Programs stop, at any line, when the condition has become true: `when total > 100`, `when
        (x != x).any()`. Where a name in it has no value it is false. It is a breakpoint: `b` lists
        it, and `cl`, `disable`, `ignore` and `condition` take its number.
        """
        condition = self.condition(arg, "when")
        if condition is not None:
            one = self.session.breakpoints.add(condition=condition)
            self.say(f"Breakpoint {one.number} at {one.place}, when {condition}")

    def do_only(self, arg: str) -> None:
        """`only [i[,j[,k]] | condition | off]`.

        From now on breakpoints stop only this program, or programs for which the condition is true;
        `off`: all. Without an argument, say which.
        """
        hits = self.session.hits
        if arg == "off":
            hits.only = None
        elif arg:
            numbers = [word.strip() for word in arg.strip("() ").split(",")]
            if len(numbers) <= 3 and all(word.isdecimal() for word in numbers):
                arg = " and ".join(f"program_id({i}) == {n}" for i, n in enumerate(numbers))
            condition = self.condition(arg, "only")
            if condition is None:
                return
            hits.only = condition
        self.say(
            "All programs stop at breakpoints"
            if hits.only is None
            else f"Only programs with {hits.only} stop at breakpoints"
        )

    def condition(self, text: str, command: str) -> Condition | None:
        """A condition; None, with the reason printed, for what is none."""
        if not text:
            self.refuse(f"`{command}` takes a condition")
            return None
        try:
            return Condition(text)
        except SyntaxError as error:
            self.refuse(f"`{text}` is no condition: {error.msg}")
            return None

    # -- breakpoints that there are

    def chosen(self, arg: str) -> Sequence[Breakpoint]:
        """The breakpoints of these numbers; what is none is said."""
        found = []
        for word in arg.split():
            try:
                found.append(self.session.breakpoints.get(word))
            except NoBreakpointError as error:
                self.refuse(str(error))
        return found

    def do_clear(self, arg: str) -> None:
        """`cl(ear) [numbers... | file:line]`.

        Delete these breakpoints, or those at a line; without an argument all, after a question.
        """
        breakpoints = self.session.breakpoints
        if not arg:
            if self.asked("Clear all breaks? "):
                self.delete(list(breakpoints))
            return
        if ":" not in arg:
            self.delete(self.chosen(arg))
            return
        file, _, line = arg.rpartition(":")
        path = find(file.strip(), self.main)
        known = path is not None and line.isdecimal()
        here = [one for one in breakpoints if known and one.is_at(str(path), int(line))]
        if not here:
            self.refuse(f"there is no breakpoint at {shown(path) if path else file}:{line}")
        self.delete(here)

    do_cl = do_clear

    def delete(self, those: Sequence[Breakpoint]) -> None:
        for one in those:
            self.session.breakpoints.remove(one)
            self.say(f"Deleted breakpoint {one.number} at {one.place}")

    def asked(self, question: str) -> bool:
        """Whether the user says yes; no is what the end of the input says."""
        if self.use_rawinput:
            try:
                answer = input(question)
            except EOFError:
                answer = ""
        else:
            self.stdout.write(question)
            self.stdout.flush()
            answer = self.stdin.readline()
        return answer.strip().lower() in ("y", "yes")

    def do_enable(self, arg: str) -> None:
        """`enable numbers...`.

        Let breakpoints that were disabled stop programs again.
        """
        self.switch(arg, True)

    def do_disable(self, arg: str) -> None:
        """`disable numbers...`.

        Let breakpoints stop nobody until they are enabled.
        """
        self.switch(arg, False)

    def switch(self, arg: str, on: bool) -> None:
        if not arg:
            self.refuse("this takes the numbers of breakpoints; `b` lists them")
        for one in self.chosen(arg):
            one.enabled = on
            self.session.breakpoints.version += 1
            self.say(f"{'Enabled' if on else 'Disabled'} breakpoint {one.number} at {one.place}")

    def do_ignore(self, arg: str) -> None:
        """`ignore number [count]`.

        Let a breakpoint stop nobody for the next count times (none: 0 times).
        """
        number, *rest = arg.split() or [""]
        count = rest[0] if rest else "0"
        if not number or len(rest) > 1 or not count.isdecimal():
            self.refuse("`ignore` takes the number of a breakpoint, and how often to pass it")
            return
        for one in self.chosen(number):
            one.ignore = int(count)
            times = f"next {count} crossings of" if one.ignore else "no crossing of"
            self.say(f"Will ignore {times} breakpoint {one.number}.")

    def do_condition(self, arg: str) -> None:
        """`condition number [condition]`.

        Give a breakpoint a condition in place of the one it has; or none.
        """
        number, _, text = arg.partition(" ")
        if not number:
            self.refuse("`condition` takes the number of a breakpoint, and a condition")
            return
        for one in self.chosen(number):
            if not text.strip():
                if one.anywhere:
                    self.refuse(f"breakpoint {one.number} has no place, so it needs its condition")
                    return
                one.condition = None
                self.say(f"Breakpoint {one.number} is now unconditional.")
                return
            condition = self.condition(text, "condition")
            if condition is not None:
                one.condition = condition
                self.say(f"New condition set for breakpoint {one.number}.")
