"""Commands that print values."""

from __future__ import annotations

from typing import Any

from tile.brief import brief as brief_text
from tile.debugger.expressions import FAILURES, evaluate, execute, undefined
from tile.debugger.frames import HostFrame, KernelFrame
from tile.debugger.show import brief, kind, show
from tile.debugger.talk import CommandBase
from tile.debugger.values import MissingError, whole
from tile.ir.steps import RESULT

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
                self.say(f"{name} = {brief_text(value, limit=2000)}")
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
            return f"({type(error).__name__}: {brief_text(error, show=str)})"

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
