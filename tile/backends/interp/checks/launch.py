"""A run with checks."""

from __future__ import annotations

from collections.abc import Sequence

from tile.backends.base import Grid, LaunchArgument
from tile.backends.interp.checks.assumptions import check_alignment
from tile.backends.interp.checks.machine import CheckedMachine
from tile.backends.interp.checks.order import Order
from tile.backends.interp.checks.shadow import Shadow
from tile.backends.interp.checks.translate import CheckedCode
from tile.backends.interp.checks.uninitialised import accounts
from tile.backends.interp.launch import Launch
from tile.checks import Check
from tile.faults import Fault, Report


class CheckedLaunch(Launch):
    """A run of a kernel with checks; `report` takes its faults, or the first one is raised."""

    machine = CheckedMachine

    def __init__(
        self,
        code: CheckedCode,
        grid: Grid,
        arguments: Sequence[LaunchArgument],
        report: Report | None,
    ) -> None:
        super().__init__(code.code, grid, arguments)
        self.given = arguments
        self.report = report
        self.checks = code.checks
        self.order: Order | None = None
        self.shadow: Shadow | None = None
        if Check.RACE in code.checks:
            self.order = Order(self.programs) if code.acquires else None
            shadow = Shadow(self.memory, code.written, code.finest)
            self.shadow = shadow if shadow.regions else None
        undef = Check.UNDEF in code.checks
        self.uninitialised = accounts(self.memory.buffers) if undef else {}

    def found(self, fault: Fault) -> None:
        """Take a fault: into the report, or raise it."""
        if self.report is None:
            super().found(fault)
        else:
            self.report.add(fault)

    def run(self) -> None:
        """Run all programs. Raises the first fault, unless a report takes it."""
        if Check.ASSUME in self.checks:
            check_alignment(self)
        super().run()
