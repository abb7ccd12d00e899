"""Commands that continue the programs."""

from __future__ import annotations

import shlex

from tile.debugger.commands.command_base import CommandBase, QuitError
from tile.debugger.session import Until


class RestartError(BaseException):
    """Raised to restart the program, with these arguments (None: the same)."""

    def __init__(self, arguments: list[str] | None) -> None:
        super().__init__()
        self.arguments = arguments


class RunCommands(CommandBase):
    """pdb's `step`, `next`, `return`, `until` and `continue`; `before`, `restart` and `quit`."""

    def resume(self, until: Until, line: int = 0) -> bool:
        """Continue to a goal of the selected program; others run with it. Ends the command loop."""
        self.session.go(until, self.stop, None if self.stop is None else self.stop.row, line)
        return True

    def do_step(self, arg: str) -> bool:
        """`s(tep)`.

        Run to the next line of the selected program, into functions that it calls. The other
        programs of its batch run with it. Before a kernel runs: run to the first line of the next
        one.
        """
        return self.resume(Until.STEP)

    do_s = do_step

    def do_next(self, arg: str) -> bool:
        """`n(ext)`.

        Run to the next line of the function, or to its return; step over functions that it calls.
        """
        return self.resume(Until.NEXT)

    do_n = do_next

    def do_return(self, arg: str) -> bool:
        """`r(eturn)`.

        Run to the return of the function.
        """
        return self.resume(Until.RETURN)

    do_r = do_return

    def do_until(self, arg: str) -> bool | None:
        """`unt(il) [line]`.

        Run to a line with a greater number than this one: out of a loop, for example. With a line,
        run to that line or a greater one. Stops at the return of the function too.
        """
        if not arg:
            return self.resume(Until.LATER)
        if not arg.isdecimal():
            self.refuse(f"`until` takes the number of a line, not `{arg}`")
            return None
        frame = self.frame
        if frame is not None and int(arg) <= frame.line:
            self.refuse(f"line {arg} is not after this one, {frame.line}")
            return None
        return self.resume(Until.LATER, int(arg))

    do_unt = do_until

    def do_continue(self, arg: str) -> bool:
        """`c(ont(inue))`.

        Run to a breakpoint, a `breakpoint()`, or a fault.
        """
        return self.resume(Until.NEVER)

    do_c = do_cont = do_continue

    def do_before(self, arg: str) -> None:
        """`before [count]`.

        Go back to where the selected program began its last line, or the count-th last. At a fault
        that is the faulty line, before any of its effects. The arrays of the launch are restored,
        and the launch runs again up to there; prints of programs are not repeated.
        """
        if self.stop is None:
            self.refuse("no kernel is running")
        elif arg and (not arg.isdecimal() or int(arg) == 0):
            self.refuse(f"`before` takes a number of lines, not `{arg}`")
        else:
            self.refuse(self.session.back(self.stop, self.stop.row, int(arg or 1)))

    def do_restart(self, arg: str) -> None:
        """`restart [arguments...], run [arguments...]`.

        Run the program from its beginning, with these arguments if there are any. Breakpoints stay.
        """
        if self.main is None:
            self.refuse("this program was not started by `tile debug`; start it again yourself")
            return
        try:
            words = shlex.split(arg)
        except ValueError as error:
            self.refuse(f"these are not arguments: {error}")
            return
        raise RestartError(words or None)

    do_run = do_restart

    def do_quit(self, arg: str) -> None:
        """`q(uit), exit`.

        Leave the debugger, and end the program.
        """
        raise QuitError

    do_q = do_exit = do_quit

    def onecmd(self, line: str) -> bool:
        """Run a command; the end of the input leaves the debugger."""
        if line == "EOF":
            self.say("")
            raise QuitError
        return super().onecmd(line)
