"""Makes every launch of a program several times, in ways that must not matter, and compares.

The launch as the program has it comes first, with all checks; its effects are those that stay. Each
other way starts from the same contents of the arrays and has the same checks; what it finds that
the first did not is reported with its settings, so that it can be had again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

import numpy as np

from tile.checking.differences import Difference, Outputs, differences, kept
from tile.checking.variations import Variation, of_constants, orders
from tile.checks import ALL, NONE, Checks
from tile.config import Origin, config
from tile.coverage import Launched
from tile.errors import Loc, TileError, describe
from tile.faults import Group, Report
from tile.in_force import collected, covered
from tile.runtime.context import interpreted
from tile.runtime.kernel import CompiledKernel, told
from tile.runtime.observer import Alternative, Attempt, observed, observing
from tile.runtime.snapshot import Snapshot

T = TypeVar("T")
Key = tuple[str, str]  # a kernel's name, and its constants


@dataclass(frozen=True)
class Plan:
    """What is checked, and in which other ways launches are made.

    Of each kernel with the same constants the first `launches` are made in other ways: in `seeds`
    random orders, and with each of the values of `varied` constants. `tolerance` is of rounding,
    relative to an array's largest number; None: the dtype's own.
    """

    checks: Checks = ALL
    seeds: int = 2
    varied: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    launches: int = 3
    tolerance: float | None = None


@dataclass(frozen=True)
class Dependence:
    """A way to launch that changed what a launch did: arrays, or it failed."""

    kernel: str
    loc: Loc | None
    way: str
    difference: Difference | None
    failure: str = ""

    @property
    def harmless(self) -> bool:
        """Whether nothing but rounding changed."""
        return self.difference is not None and self.difference.rounding

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
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
class Tally:
    """What was done with the launches of one kernel with the same constants."""

    launches: int = 0
    ways: dict[str, None] = field(default_factory=dict)  # in order
    not_varied: set[str] = field(default_factory=set)


UNENDED = "the program did not run to its end; this is what was found until then"


@dataclass
class Findings:
    """All that was found; true if anything is wrong.

    `report` has the faults of the launches as the program makes them, `elsewhere` those that only
    another way to launch brought, with that way.
    """

    report: Report = field(default_factory=Report)
    elsewhere: list[tuple[str, Group]] = field(default_factory=list)
    dependences: list[Dependence] = field(default_factory=list)
    ended: bool = True  # whether the program did
    tallies: dict[Key, Tally] = field(default_factory=dict)
    constexprs: dict[str, None] = field(default_factory=dict)  # of all launches made in other ways

    @property
    def groups(self) -> list[Group]:
        """The faults by line and check, of the launches as they are and then of other ways."""
        return [*self.report.groups, *(group for _, group in self.elsewhere)]

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "wrong": bool(self),
            "verdict": self.verdict,
            "status": self.status,
            "note": "" if self.ended else UNENDED,
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
            "dependences": [one.as_dict() for one in sorted(self.dependences, key=_harmless)],
        }

    @property
    def status(self) -> int:
        """The exit status: 1 where something is wrong or was not checked."""
        return int(bool(self) or self.report.coverage.unchecked)

    @property
    def verdict(self) -> str:
        """The last line of what is said."""
        coverage = self.report.coverage
        if not self.tallies and not coverage.counts:
            return "no kernel was launched"
        if not self:
            return coverage.verdict() if coverage.unchecked else "all is well"
        faults = sum(group.executions for group in self.groups)
        wrong = sum(not one.harmless for one in self.dependences)
        words = [
            f"{count} {noun}{'s' * (count != 1)}"
            for count, noun in ((faults, "fault"), (wrong, "result that should not have changed"))
            if count
        ]
        unchecked = ", and not all was checked" * coverage.unchecked
        return f"wrong: {' and '.join(words)}{unchecked}"

    def __bool__(self) -> bool:
        wrong = any(not one.harmless for one in self.dependences)
        return bool(self.report) or bool(self.elsewhere) or wrong


class Rehearsal:
    """The observer that does it, under checks that go to `findings.report`."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.findings = Findings()
        self._ran: list[dict[str, np.ndarray]] = []
        self._again = False  # a launch is being made again
        self._noted: set[tuple[Any, ...]] = set()

    @contextmanager
    def watching(self) -> Iterator[Findings]:
        """Watch all launches inside the `with` block, on the interpreter."""
        with (
            interpreted("tile"),
            config.scope(sanitize=self.plan.checks),
            collected(self.findings.report),
            covered(self.findings.report),
            observed(self),
            told(self._launched),
        ):
            yield self.findings

    def _launched(self, kernel: CompiledKernel) -> None:
        """Count a launch of another thread, which has the settings of the environment."""
        if observing() is self or config.origin("sanitize") is not Origin.DEFAULT:
            return
        launched = Launched(kernel.name, f"{kernel.target} in another thread", NONE)
        self.findings.report.coverage.add(launched)

    # -- as an observer

    def ran(
        self, kernel: CompiledKernel, grid: tuple[int, int, int], outputs: Mapping[str, np.ndarray]
    ) -> None:
        """Keep what a launch wrote."""
        if self._ran:
            self._ran[-1].update(kept(outputs))

    def launch(self, attempt: Attempt) -> CompiledKernel:
        """Make a launch, and again in other ways."""
        if self._again:
            return attempt.run({})
        tally = self._tally(attempt)
        tally.launches += 1
        if tally.launches > self.plan.launches:
            return attempt.run({})
        before = _contents(attempt)
        kernel, here = self._outputs(lambda: attempt.run({}))
        if self._ran:  # a tuned kernel's
            self._ran[-1].update(here)
        after = _contents(attempt)
        for variation in self._variations(attempt, tally):
            tally.ways[variation.title] = None
            before.restore()
            self._vary(attempt, variation, here, before)
        before.restore()
        after.restore()
        return kernel

    def tuned(self, name: str, alternatives: Sequence[Alternative]) -> Any:
        """Launch with every configuration; the first comes last again, so that it stays."""
        tally = self.findings.tallies.setdefault((name, "of all configurations"), Tally())
        tally.launches += 1
        if tally.launches > self.plan.launches:
            return alternatives[0].run()
        tally.ways |= dict.fromkeys(alternative.title for alternative in alternatives[1:])
        result, here = self._outputs(alternatives[0].run)
        for alternative in alternatives[1:]:
            self._compare(name, None, alternative.title, here, alternative.run)
        with self._quietly(Report()):
            alternatives[0].run()
        return result

    # -- one launch

    def _variations(self, attempt: Attempt, tally: Tally) -> list[Variation]:
        constexprs = [p.name for p in attempt.function.parameters if p.is_constexpr]
        self.findings.constexprs |= dict.fromkeys(constexprs)
        constants = of_constants(
            self.plan.varied, {name: attempt.named[name] for name in constexprs}
        )
        if attempt.fixed_grid and constants:
            tally.not_varied |= {name for one in constants for name in one.constants}
            constants = []
        return orders(self.plan.seeds) + constants

    def _vary(
        self, attempt: Attempt, variation: Variation, here: Outputs, before: Snapshot
    ) -> None:
        function = attempt.function
        try:
            for name in attempt.written(variation.constants):
                before.keep(name, attempt.named[name])
        except TileError as error:  # it does not compile with these constants
            self._note(
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
                here,
                lambda: attempt.run(variation.constants),
            )

    def _compare(
        self, name: str, loc: Loc | None, way: str, here: Outputs, run: Callable[[], Any]
    ) -> None:
        """Run in another way, and note what is not as it was."""
        report = Report()
        with self._quietly(report):
            try:
                _, there = self._outputs(run)
            except TileError as error:
                self._note(Dependence(name, error.loc or loc, way, None, error.message))
                return
        known = {group.key for group in self.findings.groups}
        self.findings.elsewhere.extend(
            (way, group) for group in report.groups if group.key not in known
        )
        for difference in differences(here, there, self.plan.tolerance):
            self._note(Dependence(name, loc, way, difference))

    def _note(self, dependence: Dependence) -> None:
        """Take what was found, once for an array of a kernel."""
        label = None if dependence.difference is None else dependence.difference.label
        key = (dependence.kernel, dependence.loc, label, dependence.harmless)
        if key not in self._noted:
            self._noted.add(key)
            self.findings.dependences.append(dependence)

    @contextmanager
    def _quietly(self, report: Report) -> Iterator[None]:
        """Launch once each inside the `with` block; faults go to `report`."""
        self._again = True
        try:
            with collected(report), covered():
                yield
        finally:
            self._again = False

    def _outputs(self, run: Callable[[], T]) -> tuple[T, dict[str, np.ndarray]]:
        """The result of a run, and what its launch wrote."""
        outputs: dict[str, np.ndarray] = {}
        self._ran.append(outputs)
        try:
            return run(), outputs
        finally:
            self._ran.pop()

    def _tally(self, attempt: Attempt) -> Tally:
        constants = ", ".join(
            f"{p.name}={_spelt(attempt.named[p.name])}"
            for p in attempt.function.parameters
            if p.is_constexpr and attempt.named[p.name] is not None
        )
        return self.findings.tallies.setdefault((attempt.function.name, constants), Tally())


def _spelt(constant: Any) -> str:
    return str(getattr(constant, "name", constant))


def _contents(attempt: Attempt) -> Snapshot:
    """What the arrays hold that a launch writes."""
    kept = Snapshot()
    for name in attempt.written({}):
        kept.keep(name, attempt.named[name])
    return kept
