"""Commands for breakpoints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tile.debugger.commands.command_base import CommandBase
from tile.debugger.source_files import display_path, find, functions, why_no_stop
from tile.debugger.stop_points import Breakpoint, Condition, NoBreakpointError


class InvalidLocationError(Exception):
    """Raised for text that names no location for a breakpoint."""


@dataclass(frozen=True)
class Location:
    """A line of a file, or a function. `note` is a remark for the user."""

    file: str | None = None
    line: int | None = None
    function: str | None = None
    note: str = ""


class BreakpointCommands(CommandBase):
    """pdb's commands for breakpoints; `when` and `only`."""

    def location(self, text: str) -> Location:
        """Return the location that a text names. Raises `InvalidLocationError`."""
        file, colon, rest = text.rpartition(":")
        if not colon and not text.isdecimal():
            return self.function_location(text)
        if not rest.isdecimal():
            raise InvalidLocationError(f"`{rest}` is not the number of a line")
        if not colon:
            at = self.frame.file if self.frame is not None else self.main
        else:
            at = find(file.strip(), self.main)
        if at is None:
            raise InvalidLocationError(
                f"there is no file `{file}`" if colon else "no file is known yet"
            )
        line = int(rest)
        by_line = {node.lineno: node.name for node in functions(at)}
        if line in by_line:
            return Location(function=by_line[line])
        problem = why_no_stop(at, line)
        if problem is not None:
            raise InvalidLocationError(problem)
        return Location(at, line)

    def function_location(self, name: str) -> Location:
        """Return the location of a function by its name."""
        last = name.rpartition(".")[2]
        if not last.isidentifier():
            raise InvalidLocationError(f"`{name}` is neither a line, nor file:line, nor a function")
        files = {frame.file for frame in self.frames} | ({self.main} if self.main else set())
        exists = any(node.name == last for file in files for node in functions(file))
        note = "" if exists else f"no function `{last}` is seen yet; it stops where one is called"
        return Location(function=last, note=note)

    def add(self, arg: str, *, temporary: bool) -> None:
        """Set a breakpoint from the arguments of `b` or `tbreak`."""
        place, comma, text = arg.partition(",")
        try:
            condition = Condition(text) if comma else None
            at = self.location(place.strip())
        except InvalidLocationError as error:
            self.refuse(str(error))
        except SyntaxError as error:
            self.refuse(f"`{text.strip()}` is not a condition: {error.msg}")
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

        Stop programs that reach a line, or the first line of a function, and for which the
        condition is true. It is an expression as for `p`: `b 12, i > 3`, `b 12, program_id(0) ==
        2`, `b 12, (x < 0).any()`. Without a location, list all breakpoints.
        """
        if arg:
            self.add(arg, temporary=False)
        elif self.session.breakpoints.by_number:
            self.say(str(self.session.breakpoints))

    do_b = do_break

    def do_tbreak(self, arg: str) -> None:
        """`tbreak line | file:line | function [, condition]`.

        Set a breakpoint like `b`, which is deleted once programs stopped there.
        """
        if arg:
            self.add(arg, temporary=True)
        else:
            self.refuse("`tbreak` takes a line, file:line or function")

    def do_when(self, arg: str) -> None:
        """`when condition`.

        Stop programs, at any line, when the condition has become true: `when total > 100`, `when (x
        != x).any()`. If a name in it has no value, it is false. It is a breakpoint: `b` lists it,
        and `cl`, `disable`, `ignore` and `condition` take its number.
        """
        condition = self.condition(arg, "when")
        if condition is not None:
            one = self.session.breakpoints.add(condition=condition)
            self.say(f"Breakpoint {one.number} at {one.place}, when {condition}")

    def do_only(self, arg: str) -> None:
        """`only [i[,j[,k]] | condition | off]`.

        From now on, let breakpoints stop only this program, or programs for which the condition is
        true; `off`: all. Without an argument, print which ones.
        """
        matcher = self.session.matcher
        if arg == "off":
            matcher.only = None
        elif arg:
            numbers = [word.strip() for word in arg.strip("() ").split(",")]
            if len(numbers) <= 3 and all(word.isdecimal() for word in numbers):
                arg = " and ".join(f"program_id({i}) == {n}" for i, n in enumerate(numbers))
            condition = self.condition(arg, "only")
            if condition is None:
                return
            matcher.only = condition
        self.say(
            "All programs stop at breakpoints"
            if matcher.only is None
            else f"Only programs with {matcher.only} stop at breakpoints"
        )

    def condition(self, text: str, command: str) -> Condition | None:
        """Parse a condition; None, with the reason printed, if the text is none."""
        if not text:
            self.refuse(f"`{command}` takes a condition")
            return None
        try:
            return Condition(text)
        except SyntaxError as error:
            self.refuse(f"`{text}` is not a condition: {error.msg}")
            return None

    # -- existing breakpoints

    def numbered(self, arg: str) -> Sequence[Breakpoint]:
        """Return the breakpoints of these numbers, and print an error for each unused number."""
        breakpoints = []
        for word in arg.split():
            try:
                breakpoints.append(self.session.breakpoints.get(word))
            except NoBreakpointError as error:
                self.refuse(str(error))
        return breakpoints

    def do_clear(self, arg: str) -> None:
        """`cl(ear) [numbers... | file:line]`.

        Delete these breakpoints, or those at a line; without an argument all, after a question.
        """
        breakpoints = self.session.breakpoints
        if not arg:
            if self.confirm("Clear all breaks? "):
                self.delete(list(breakpoints))
            return
        if ":" not in arg:
            self.delete(self.numbered(arg))
            return
        file, _, line = arg.rpartition(":")
        path = find(file.strip(), self.main)
        valid = path is not None and line.isdecimal()
        here = [one for one in breakpoints if valid and one.is_at(str(path), int(line))]
        if not here:
            self.refuse(f"there is no breakpoint at {display_path(path) if path else file}:{line}")
        self.delete(here)

    do_cl = do_clear

    def delete(self, breakpoints: Sequence[Breakpoint]) -> None:
        for one in breakpoints:
            self.session.breakpoints.remove(one)
            self.say(f"Deleted breakpoint {one.number} at {one.place}")

    def confirm(self, question: str) -> bool:
        """Return True if the user answers yes; the end of the input answers no."""
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

        Enable breakpoints that were disabled.
        """
        self.switch(arg, True)

    def do_disable(self, arg: str) -> None:
        """`disable numbers...`.

        Disable breakpoints until they are enabled again.
        """
        self.switch(arg, False)

    def switch(self, arg: str, on: bool) -> None:
        if not arg:
            self.refuse("this takes the numbers of breakpoints; `b` lists them")
        for one in self.numbered(arg):
            one.enabled = on
            self.session.breakpoints.version += 1
            self.say(f"{'Enabled' if on else 'Disabled'} breakpoint {one.number} at {one.place}")

    def do_ignore(self, arg: str) -> None:
        """`ignore number [count]`.

        Pass a breakpoint count times without a stop (default: 0 times).
        """
        number, *rest = arg.split() or [""]
        count = rest[0] if rest else "0"
        if not number or len(rest) > 1 or not count.isdecimal():
            self.refuse("`ignore` takes the number of a breakpoint, and how often to pass it")
            return
        for one in self.numbered(number):
            one.ignore = int(count)
            times = f"next {count} crossings of" if one.ignore else "no crossing of"
            self.say(f"Will ignore {times} breakpoint {one.number}.")

    def do_condition(self, arg: str) -> None:
        """`condition number [condition]`.

        Replace the condition of a breakpoint, or remove it.
        """
        number, _, text = arg.partition(" ")
        if not number:
            self.refuse("`condition` takes the number of a breakpoint, and a condition")
            return
        for one in self.numbered(number):
            if not text.strip():
                if one.anywhere:
                    self.refuse(
                        f"breakpoint {one.number} has no location, so it needs its condition"
                    )
                    return
                one.condition = None
                self.say(f"Breakpoint {one.number} is now unconditional.")
                return
            condition = self.condition(text, "condition")
            if condition is not None:
                one.condition = condition
                self.say(f"New condition set for breakpoint {one.number}.")
