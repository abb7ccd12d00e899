"""Commands that select among programs."""

from __future__ import annotations

from dataclasses import replace

from tile.debugger.places import describe_programs, group_of, groups
from tile.debugger.session import Session
from tile.debugger.talk import CommandBase


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
