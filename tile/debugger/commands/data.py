"""Commands that print values, and commands that select among programs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tile.debugger.commands.command_base import CommandBase
from tile.debugger.evaluate import FAILURES, evaluate, execute, undefined
from tile.debugger.frames import HostFrame, KernelFrame, describe_programs, group_of, groups
from tile.debugger.session import Session
from tile.debugger.variables import MissingError, brief, kind, show, whole
from tile.ir.debug_info import RESULT
from tile.short_repr import short_repr

# Commands that only pdb has; they get a message of their own, not that a name is undefined.
PDB_ONLY = (
    "alias", "commands", "debug", "exceptions", "interact", "j", "jump", "retval", "rv", "source",
    "unalias",
)  # fmt: skip


class DataCommands(CommandBase):
    """pdb's `p`, `pp`, `whatis`, `args`, `display`, `undisplay`; `vars`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # By function: displayed expressions with the values that were shown last.
        self.displayed: dict[str, dict[str, str]] = {}

    # -- values

    def do_p(self, arg: str) -> None:
        """`p expression`.

        Print the value of an expression in the selected program. Tiles are NumPy arrays (`np`):
        undefined elements are `--`, and stay so in what is computed from them. Pointers are an
        argument plus an index, with `!` where that is out of bounds; they have `.load()`, `.index`,
        `.inside` and `.array`. `program_id(axis)` and `num_programs(axis)` are those of the grid.
        """
        self.print_value(arg, everything=False)

    def do_pp(self, arg: str) -> None:
        """`pp expression`.

        Print like `p`, with all elements of large tiles.
        """
        self.print_value(arg, everything=True)

    def print_value(self, arg: str, *, everything: bool) -> None:
        if not arg:
            self.refuse("this takes an expression; `vars` lists the variables")
            return
        good, value = self.evaluated(arg)
        if good:
            self.say_value(arg, value, everything=everything)

    def say_value(self, text: str, value: Any, *, everything: bool = False) -> None:
        """Print a value, or whatever its own methods raise."""
        try:
            if isinstance(self.frame, HostFrame):
                output = repr(value)
            else:
                output = show(value, undefined(text, self.frame), everything=everything)
        except FAILURES as error:
            self.problem(error)
        else:
            self.say(output)

    def do_whatis(self, arg: str) -> None:
        """`whatis expression`.

        Print the kind of an expression's value: type and shape.
        """
        if not arg:
            self.refuse("this takes an expression")
            return
        good, value = self.evaluated(arg)
        if good:
            self.say(str(type(value)) if isinstance(self.frame, HostFrame) else kind(value))

    def default(self, line: str) -> None:
        """Print the value of an expression, or run a statement that assigns user variables."""
        text = line.removeprefix("!").strip()
        try:
            value = evaluate(text, self.frame, self.session.user_variables)
        except SyntaxError:
            self.run_statement(text)
        except NameError as error:
            if text in PDB_ONLY:
                self.refuse(f"`{text}` is a command of pdb that this debugger does not have")
            else:
                self.problem(error)
        except FAILURES as error:
            self.problem(error)
        else:
            if value is not None:
                self.say_value(text, value)

    def run_statement(self, text: str) -> None:
        try:
            execute(text, self.frame, self.session.user_variables)
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
                self.say(f"{name} = {short_repr(value, limit=2000)}")
        else:
            self.refuse("no function is running")

    do_a = do_args

    def do_vars(self, arg: str) -> None:
        """`vars`.

        Print all variables of the function, tiles by type and shape.
        """
        frame = self.kernel_frame
        if frame is None:
            self.refuse("the selected frame is not of a kernel")
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

    def at_stop(self) -> None:
        """Print the displayed expressions of this function whose values have changed."""
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
            value = evaluate(text, self.frame, self.session.user_variables)
            return repr(value) if isinstance(self.frame, HostFrame) else show(value)
        except FAILURES as error:
            return f"({type(error).__name__}: {short_repr(error, show=str)})"

    def do_display(self, arg: str) -> None:
        """`display [expression]`.

        Print an expression now, and at each stop in this function if its value has changed. Without
        an expression, list those displayed here.
        """
        frame = self.frame
        if frame is None:
            self.refuse("no function is running")
            return
        displayed = self.displayed.setdefault(frame.function, {})
        if not arg:
            for text, value in displayed.items():
                self.say(f"{text}: {value}")
            return
        good, _ = self.evaluated(arg)
        if good:
            displayed[arg] = self.displayed_value(arg)
            self.say(f"display {arg}: {displayed[arg]}")

    def do_undisplay(self, arg: str) -> None:
        """`undisplay [expression]`.

        Stop displaying an expression, or all of this function.
        """
        displayed = self.displayed.get(self.frame.function, {}) if self.frame is not None else {}
        if not arg:
            displayed.clear()
        elif displayed.pop(arg, None) is None:
            self.refuse(f"`{arg}` is not displayed here")


class ProgramCommands(CommandBase):
    """`program`, which selects the program to inspect and follow; `programs`, a list of all."""

    def do_program(self, arg: str) -> None:
        """`program [i[,j[,k]]]`.

        Select this program of the grid: inspect it, and follow it with `n`, `s` and so on. If it
        stands at another line, its variables are those that it has there. If no kernel is running
        yet, it is selected as soon as it runs. Without numbers: print which one is selected.
        """
        if not arg:
            self.described = None
            self.describe_program()
            if self.kernel_frame is None:
                self.say(f"selected program: {self.session.selected or 'the first that stops'}")
            return
        words = [word.strip() for word in arg.strip("() ").split(",")]
        if len(words) > 3 or not all(word.isdecimal() for word in words):
            self.refuse(f"a program is named by one to three numbers, as in 3,0, not `{arg}`")
            return
        numbers = [int(word) for word in words] + [0, 0]
        program = (numbers[0], numbers[1], numbers[2])
        if self.stop is None:
            self.session.selected = program
            self.say(f"program {program} will be selected when it runs")
            return
        launch = self.stop.launch
        row = Session.row(launch.grid, program)
        if row is None:
            self.refuse(f"there is no program {program} in grid {launch.grid}")
            return
        self.session.selected = program
        group = group_of(launch, row)
        if group.batch is None:
            self.refuse(f"program {program} has {group.status}: it has no variables now")
            return
        self.select(replace(self.stop, batch=group.batch, row=row))
        self.described = None
        if group.batch is launch.scheduling.running:
            self.print_stop()
            return
        self.print_place()
        others = f", {describe_programs(launch, group.rows)}" if len(group.rows) > 1 else ""
        self.say(f"[program {program} of grid {launch.grid}; elsewhere{others}: {group.status}]")

    def do_programs(self, arg: str) -> None:
        """`programs`.

        List where all programs of the launch are. The interpreter runs many programs at once, in
        batches: all programs of a batch stand at one line. Programs that take different paths
        through an `if` or a loop form separate batches until the paths join.
        """
        if self.stop is None:
            self.refuse("no kernel is running")
            return
        launch = self.stop.launch
        self.say(f"programs of grid {launch.grid}:")
        for group in groups(launch):
            marker = ">" if self.stop.row in group.rows else " "
            self.say(f"{marker} {describe_programs(launch, group.rows)}: {group.status}")
