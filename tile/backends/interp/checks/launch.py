"""A run with checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tile.backends.base import Grid, LaunchArgument
from tile.backends.interp.checks.assumptions import check_alignment
from tile.backends.interp.checks.machine import CheckedExecutor
from tile.backends.interp.checks.order import HappensBefore
from tile.backends.interp.checks.shadow import ShadowMemory
from tile.backends.interp.checks.translate import CheckedCode
from tile.backends.interp.checks.uninitialised import written_elements
from tile.backends.interp.launch import Launch
from tile.backends.interp.values import Array
from tile.checks import Check
from tile.faults import Fault, Report

if TYPE_CHECKING:
    from tile.backends.interp.wave import Wave


class FaultCollector:
    """A context that collects the faults of one operation, and reports them at its end."""

    def __init__(self, launch: CheckedLaunch) -> None:
        self.launch = launch
        self.faults: list[Fault] | None = None

    def __enter__(self) -> None:
        self.faults = []

    def __exit__(self, kind: object, error: object, traceback: object) -> None:
        faults, self.faults = self.faults, None
        if faults and kind is None:
            self.launch.commit_faults(faults)


class CheckedLaunch(Launch):
    """A run of a kernel with checks; `report` collects its faults, or the first one is raised."""

    executor = CheckedExecutor

    def __init__(
        self,
        code: CheckedCode,
        grid: Grid,
        arguments: Sequence[LaunchArgument],
        report: Report | None,
    ) -> None:
        super().__init__(code.code, grid, arguments)
        self.original_arguments = arguments
        self.report = report
        self.fault_collector = FaultCollector(self)
        self.checks = code.checks
        self.order: HappensBefore | None = None
        self.shadow: ShadowMemory | None = None
        if Check.RACE in code.checks:
            self.order = HappensBefore(self.programs) if code.acquires else None
            shadow = ShadowMemory(self.memory, code.written, code.min_element_bytes)
            self.shadow = shadow if shadow.regions else None
        undef = Check.UNDEF in code.checks
        self.uninitialized = written_elements(self.memory.buffers) if undef else {}

    def report_fault(self, fault: Fault) -> None:
        """Take a fault; inside of `fault_collector`, with others of the same operation."""
        if self.fault_collector.faults is None:
            self.commit_faults([fault])
        else:
            self.fault_collector.faults.append(fault)

    def report_faults(self, batch: Wave, wrong: Array, make: Callable[[Array], Fault]) -> None:
        """Take the faults of wrong elements of a batch: one for each program that has some.

        `make` returns the fault of some of these elements. The number of faults does not depend on
        how the grid is divided into batches. Faults beyond the report's limit are merged into one.
        """
        where = np.broadcast_to(wrong, (len(batch), *wrong.shape[1:]))
        programs = np.flatnonzero(where.reshape(len(batch), -1).any(axis=1))

        def of(some: Array) -> Fault:
            chosen = np.zeros(where.shape, np.bool_)
            chosen[some] = where[some]
            return make(chosen)

        first_fault = of(programs[:1])
        self.report_fault(first_fault)
        if self.report is None:
            return
        separate = max(1, self.report.room(first_fault))
        for index in range(1, min(separate, len(programs))):
            self.report_fault(of(programs[index : index + 1]))
        merged = programs[separate:]
        if len(merged):
            self.report_fault(replace(of(merged), executions=len(merged)))

    @property
    def raising(self) -> bool:
        """Return True if the operation has a fault that ends the run, so that it writes nothing."""
        return self.report is None and bool(self.fault_collector.faults)

    def commit_faults(self, faults: Sequence[Fault]) -> None:
        """Add the faults of an operation to the report, or raise the first one.

        The notes of a raised fault name the other kinds of faults.
        """
        if self.report is not None:
            for fault in faults:
                self.report.add(fault)
            return
        first_fault = faults[0]
        others = {
            fault.check: fault for fault in reversed(faults) if fault.check != first_fault.check
        }
        notes = (f"also {other.check}: {other.message}" for other in others.values())
        super().report_fault(replace(first_fault, notes=(*first_fault.notes, *notes)))

    def run(self) -> None:
        """Run all programs. Raises the first fault, unless a report takes it."""
        if Check.ASSUME in self.checks:
            check_alignment(self)
        super().run()
