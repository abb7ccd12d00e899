"""Commands that choose among programs."""

from __future__ import annotations

from dataclasses import replace

from tile.debugger.places import group_of, groups, named
from tile.debugger.session import Session
from tile.debugger.talk import Talk


class Choosing(Talk):
    """Which program is looked at and followed, and where all of them are."""

    def do_program(self, arg: str) -> None:
        """`program [i[,j[,k]]]`.

        Look at this program of the grid, and follow it with `n`, `s` and so on. If it is elsewhere,
        at another line, its variables are those of its place. Where none is running yet, it is the
        one to look at where it comes along. Without numbers: say which it is.
        """
        if not arg:
            self.told = None
            self.company()
            if self.kernel_frame is None:
                self.say(f"program to look at: {self.session.chosen or 'the first that stops'}")
            return
        words = [word.strip() for word in arg.strip("() ").split(",")]
        if len(words) > 3 or not all(word.isdecimal() for word in words):
            self.refuse(f"a program is named by one to three numbers, as in 3,0, not `{arg}`")
            return
        numbers = [int(word) for word in words] + [0, 0]
        place = (numbers[0], numbers[1], numbers[2])
        if self.stop is None:
            self.session.chosen = place
            self.say(f"program {place} will be looked at where it comes along")
            return
        launch = self.stop.launch
        row = Session.row(launch.grid, place)
        if row is None:
            self.refuse(f"there is no program {place} in grid {launch.grid}")
            return
        self.session.chosen = place
        group = group_of(launch, row)
        if group.wave is None:
            self.refuse(f"program {place} has {group.what}: it has no variables now")
            return
        self.look_at(replace(self.stop, wave=group.wave, row=row))
        self.told = None
        if group.wave is launch.scheduling.running:
            self.where_now()
            return
        self.place_now()
        others = f", {named(launch, group.rows)}" if len(group.rows) > 1 else ""
        self.say(f"[program {place} of grid {launch.grid}; elsewhere{others}: {group.what}]")

    def do_programs(self, arg: str) -> None:
        """`programs`.

        List where all programs of the launch are. The interpreter runs many at once, in waves: all
        programs of a wave stand at one line. Those that take different ways through an `if` or a
        loop are waves of their own until the ways meet again.
        """
        if self.stop is None:
            self.refuse("no kernel is running")
            return
        launch = self.stop.launch
        self.say(f"programs of grid {launch.grid}:")
        for group in groups(launch):
            mark = ">" if self.stop.row in group.rows else " "
            self.say(f"{mark} {named(launch, group.rows)}: {group.what}")
