"""Differential runs: repeat launches in ways that must not change their results.

The program's own launch comes first, with all checks; its effects are those that stay. Each other
way starts from the same contents of the arrays and has the same checks. Faults that only it has are
reported with its settings, so that they can be reproduced. Differences of results by rounding alone
are told from others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

import numpy as np

from tile.checks import ALL, NONE, Checks, LaunchKey
from tile.config import Config, Origin, config
from tile.diagnostics.array_differences import Difference, Outputs, copies, differences
from tile.errors import TileError
from tile.faults import FaultGroup, FaultLog
from tile.instrumentation import active_report, coverage_reports
from tile.location import Loc, describe
from tile.runtime.arguments.snapshot import Snapshot
from tile.runtime.callbacks import LaunchEvent, on_launch
from tile.runtime.launch_hooks import (
    Kernel,
    LaunchedKernel,
    PendingLaunch,
    TunedLaunch,
    active_observer,
)
from tile.runtime.target_selection import interpreted

# The limit for one tile over all programs of a batch, in bytes; so large that more run at once.
LARGE_BATCH_BYTES = 64 << 20


@dataclass(frozen=True)
class Variation:
    """A way to launch: settings by attribute of `config`, and other values of constants."""

    settings: Mapping[str, Any] = field(default_factory=dict)
    constants: Mapping[str, Any] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """The variation as a user would write it: environment variables, and constants."""
        variables = Config.variables()
        parts = [f"{variables[name].name}={value}" for name, value in self.settings.items()]
        return " ".join(parts + [f"{name}={value}" for name, value in self.constants.items()])

    def scope(self) -> Any:
        """Return a context manager inside of which the settings are in force."""
        return config.scope(**self.settings)


def orders(seeds: int) -> list[Variation]:
    """Return variations of the order of programs, and one with more of them in a batch."""
    program_orders: list[str | int] = ["reverse", *range(seeds)] if seeds else []
    return [
        *(Variation({"interp_order": order}) for order in program_orders),
        Variation({"chunk_bytes": LARGE_BATCH_BYTES}),
    ]


def of_constants(varied: Mapping[str, Sequence[Any]], named: Mapping[str, Any]) -> list[Variation]:
    """Return variations of a launch's constants, one constant at a time.

    varied: the values to launch with, by name of the constant.
    named: the values of the launch's constexprs by name.
    """
    return [
        Variation(constants={name: value})
        for name, values in varied.items()
        if name in named
        for value in values
        if value != named[name]
    ]


T = TypeVar("T")
Key = tuple[str, str]  # a kernel's name, and its constants


@dataclass(frozen=True)
class CheckOptions:
    """The checks, and the other ways in which launches are repeated.

    launches: the number of launches of each kernel with the same constants that are repeated.
    seeds: the number of random program orders.
    varied: values of constants to launch with, by name.
    tolerance: of rounding, relative to an array's largest number; None: the dtype's own.
    """

    checks: Checks = ALL
    seeds: int = 2
    varied: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    launches: int = 3
    tolerance: float | None = None


@dataclass(frozen=True)
class Dependence:
    """A way to launch that changed a launch's results, or made it fail."""

    kernel: str
    loc: Loc | None
    way: str
    difference: Difference | None
    failure: str = ""

    @property
    def harmless(self) -> bool:
        """True if the results changed by no more than rounding."""
        return self.difference is not None and self.difference.rounding

    def as_dict(self) -> dict[str, Any]:
        """Return this as JSON data."""
        return {
            "kernel": self.kernel,
            "loc": None if self.loc is None else asdict(self.loc),
            "way": self.way,
            "harmless": self.harmless,
            "difference": None if self.difference is None else asdict(self.difference),
            "failure": self.failure,
            "text": str(self),
        }

    def __str__(self) -> str:
        lines = [f"`{self.kernel}` depends on how it is launched: with {self.way}"]
        if self.loc is not None:
            lines.append(describe(self.loc))
        note = self.failure if self.difference is None else f"{self.difference}"
        return "\n".join([*lines, *(f"  note: {line}" for line in note.splitlines())])


def _harmless(dependence: Dependence) -> bool:
    return dependence.harmless


@dataclass
class LaunchCount:
    """The number of launches of one kernel with the same constants, and how they were repeated."""

    launches: int = 0
    ways: dict[str, None] = field(default_factory=dict)  # in order
    not_varied: set[str] = field(default_factory=set)


INCOMPLETE_NOTE = "the program did not run to its end; these are the findings until then"


@dataclass
class Findings:
    """All findings; true if anything is wrong.

    report: the faults of the program's own launches.
    elsewhere: the faults that only another way to launch has, with that way.
    """

    report: FaultLog = field(default_factory=FaultLog)
    elsewhere: list[tuple[str, FaultGroup]] = field(default_factory=list)
    dependences: list[Dependence] = field(default_factory=list)
    ended: bool = True  # True if the program ran to its end
    tallies: dict[Key, LaunchCount] = field(default_factory=dict)
    constexprs: dict[str, None] = field(default_factory=dict)  # of all repeated launches
    unknown: list[str] = field(default_factory=list)  # constants to vary that no kernel has

    @property
    def groups(self) -> list[FaultGroup]:
        """The faults by line and check, of the program's own launches, then of other ways."""
        return [*self.report.groups, *(group for _, group in self.elsewhere)]

    def as_dict(self) -> dict[str, Any]:
        """Return this as JSON data."""
        return {
            "wrong": bool(self),
            "verdict": self.verdict,
            "status": self.status,
            "note": "" if self.ended else INCOMPLETE_NOTE,
            "launched": [
                {
                    "kernel": kernel,
                    "constants": constants,
                    "launches": tally.launches,
                    "ways": list(tally.ways),
                    "not_varied": sorted(tally.not_varied),
                }
                for (kernel, constants), tally in self.tallies.items()
            ],
            "report": self.report.as_dict(),
            "elsewhere": [{"way": way, **group.as_dict()} for way, group in self.elsewhere],
            "dependences": [each.as_dict() for each in sorted(self.dependences, key=_harmless)],
        }

    @property
    def status(self) -> int:
        """The exit status: 1 if something is wrong or was not checked."""
        return int(bool(self) or self.report.coverage.unchecked or bool(self.unknown))

    @property
    def verdict(self) -> str:
        """The last line of the report."""
        coverage = self.report.coverage
        if not self.tallies and not coverage.counts:
            return "no kernel was launched"
        if not self and self.unknown:
            return f"not varied: {', '.join(self.unknown)}"
        if not self:
            return coverage.verdict() if coverage.unchecked else "all is well"
        faults = sum(group.executions for group in self.groups)
        wrong = sum(not dependence.harmless for dependence in self.dependences)
        problems = [
            f"{count} {noun}{'s' * (count != 1)}"
            for count, noun in ((faults, "fault"), (wrong, "result that should not have changed"))
            if count
        ]
        unchecked = ", and not all was checked" * coverage.unchecked
        return f"wrong: {' and '.join(problems)}{unchecked}"

    def __bool__(self) -> bool:
        wrong = any(not dependence.harmless for dependence in self.dependences)
        return bool(self.report) or bool(self.elsewhere) or wrong


class DifferentialRun:
    """The launch observer that repeats launches; faults go to `findings.report`."""

    def __init__(self, plan: CheckOptions) -> None:
        self.plan = plan
        self.findings = Findings()
        self._running: list[dict[str, np.ndarray]] = []
        self._relaunching = False  # True while a launch is repeated
        self._reported: set[tuple[Any, ...]] = set()

    @contextmanager
    def watching(self) -> Iterator[Findings]:
        """Observe all launches inside the `with` block, on the interpreter."""
        with (
            interpreted("tile"),
            config.scope(sanitize=self.plan.checks),
            active_report.scope(self.findings.report),
            coverage_reports.scope((self.findings.report,)),
            active_observer.scope(self),
            on_launch(self._launched),
        ):
            yield self.findings

    def _launched(self, event: LaunchEvent) -> None:
        """Count a launch of another thread, which has the settings of the environment."""
        if active_observer() is self or config.origin("sanitize") is not Origin.DEFAULT:
            return
        launched = LaunchKey(event.kernel.name, f"{event.kernel.target} in another thread", NONE)
        self.findings.report.coverage.add(launched)

    # -- as an observer

    def launch_done(
        self, kernel: LaunchedKernel, grid: tuple[int, int, int], outputs: Mapping[str, np.ndarray]
    ) -> None:
        """Record the arrays that a launch wrote."""
        if self._running:
            self._running[-1].update(copies(outputs))

    def launch(self, attempt: PendingLaunch[Kernel]) -> Kernel:
        """Run a launch, and repeat it in other ways."""
        if self._relaunching:
            return attempt.run({})
        tally = self._tally(attempt)
        tally.launches += 1
        if tally.launches > self.plan.launches:
            return attempt.run({})
        initial = _contents(attempt)
        kernel, baseline = self._outputs(lambda: attempt.run({}))
        if self._running:  # a tuned kernel's
            self._running[-1].update(baseline)
        final = _contents(attempt)
        for variation in self._variations(attempt, tally):
            tally.ways[variation.title] = None
            initial.restore()
            self._vary(attempt, variation, baseline, initial)
        initial.restore()
        final.restore()
        return kernel

    def launch_tuned(self, name: str, alternatives: Sequence[TunedLaunch]) -> Any:
        """Launch with every configuration, and last with the first again, whose effects stay."""
        tally = self.findings.tallies.setdefault((name, "of all configurations"), LaunchCount())
        tally.launches += 1
        if tally.launches > self.plan.launches:
            return alternatives[0].run()
        tally.ways |= dict.fromkeys(alternative.title for alternative in alternatives[1:])
        result, baseline = self._outputs(alternatives[0].run)
        for alternative in alternatives[1:]:
            self._compare(name, None, alternative.title, baseline, alternative.run)
        with self._collecting(FaultLog()):
            alternatives[0].run()
        return result

    # -- one launch

    def _variations(self, attempt: PendingLaunch[Any], tally: LaunchCount) -> list[Variation]:
        constexprs = [p.name for p in attempt.function.parameters if p.is_constexpr]
        self.findings.constexprs |= dict.fromkeys(constexprs)
        constants = of_constants(
            self.plan.varied, {name: attempt.named[name] for name in constexprs}
        )
        if attempt.fixed_grid and constants:
            tally.not_varied |= {name for each in constants for name in each.constants}
            constants = []
        return orders(self.plan.seeds) + constants

    def _vary(
        self,
        attempt: PendingLaunch[Any],
        variation: Variation,
        baseline: Outputs,
        initial: Snapshot,
    ) -> None:
        function = attempt.function
        try:
            for name in attempt.written(variation.constants):
                initial.save(name, attempt.named[name])
        except TileError as error:  # it does not compile with these constants
            self._report(
                Dependence(
                    function.name, error.loc or function.loc, variation.title, None, error.message
                )
            )
            return
        with variation.scope():
            self._compare(
                function.name,
                function.loc,
                variation.title,
                baseline,
                lambda: attempt.run(variation.constants),
            )

    def _compare(
        self, name: str, loc: Loc | None, way: str, baseline: Outputs, run: Callable[[], Any]
    ) -> None:
        """Run in another way, and report differences."""
        report = FaultLog()
        with self._collecting(report):
            try:
                _, varied_outputs = self._outputs(run)
            except TileError as error:
                self._report(Dependence(name, error.loc or loc, way, None, error.message))
                return
        reported = {group.key for group in self.findings.groups}
        self.findings.elsewhere.extend(
            (way, group) for group in report.groups if group.key not in reported
        )
        for difference in differences(baseline, varied_outputs, self.plan.tolerance):
            self._report(Dependence(name, loc, way, difference))

    def _report(self, dependence: Dependence) -> None:
        """Add a dependence to the findings, once for an array of a kernel."""
        label = None if dependence.difference is None else dependence.difference.label
        key = (dependence.kernel, dependence.loc, label, dependence.harmless)
        if key not in self._reported:
            self._reported.add(key)
            self.findings.dependences.append(dependence)

    @contextmanager
    def _collecting(self, report: FaultLog) -> Iterator[None]:
        """Do not repeat launches inside the `with` block; faults go to `report`."""
        self._relaunching = True
        try:
            with active_report.scope(report), coverage_reports.scope(()):
                yield
        finally:
            self._relaunching = False

    def _outputs(self, run: Callable[[], T]) -> tuple[T, dict[str, np.ndarray]]:
        """Return the result of a run, and the arrays that its launch wrote."""
        outputs: dict[str, np.ndarray] = {}
        self._running.append(outputs)
        try:
            return run(), outputs
        finally:
            self._running.pop()

    def _tally(self, attempt: PendingLaunch[Any]) -> LaunchCount:
        constants = ", ".join(
            f"{p.name}={_constant_name(attempt.named[p.name])}"
            for p in attempt.function.parameters
            if p.is_constexpr and attempt.named[p.name] is not None
        )
        return self.findings.tallies.setdefault((attempt.function.name, constants), LaunchCount())


def _constant_name(constant: Any) -> str:
    return str(getattr(constant, "name", constant))


def _contents(attempt: PendingLaunch[Any]) -> Snapshot:
    """Return a snapshot of the arrays that a launch writes."""
    snapshot = Snapshot()
    for name in attempt.written({}):
        snapshot.save(name, attempt.named[name])
    return snapshot
