"""A plugin of pytest for the tests of libraries: a sample of them, a device, and limits of time.

    tile triton -m pytest -p tests.libraries.plugin --sample 5 --cpu-seconds 60 test/
    tile triton -m pytest -p tests.libraries.plugin -n 14 --default-device cuda --minutes 2 test/

A sample is the same in each run. A test that takes more time of the processor than the limit is
skipped, with a reason that says so: kernels run on the interpreter, and tests are written for GPUs.
So is one that would begin after the limit of all tests. `--configs` limits what autotuners try.
The last lines of the summary count failures by their reason; `--outcomes` names a file for a line
of JSON for each test.
"""

from __future__ import annotations

import itertools
import json
import random
import signal
import time
from collections import Counter
from collections.abc import Generator
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from tests.libraries.autotuners import limit_configs

TOO_LONG = "takes longer than the limit"
NOT_RUN = "the time was over"
START = pytest.StashKey[float]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the plugin's options."""
    add = parser.getgroup("tests of libraries").addoption
    add("--sample", type=int, default=0, help="run so many tests of each function")
    add("--cpu-seconds", type=int, default=0, help="limit of each test's time")
    add("--minutes", type=float, default=0, help="no test begins after these")
    add("--default-device", default="", help="of tensors that tests make without a device")
    add("--configs", type=int, default=0, help="so many of each autotuner; 0 for all")
    add("--outcomes", help="a file for a line of JSON for each test")


def pytest_configure(config: pytest.Config) -> None:
    """Set the device, and note the time."""
    config.stash[START] = time.monotonic()
    if name := config.getoption("default_device"):
        import torch

        torch.set_default_device(name)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep a sample of each test function's cases, in their order."""
    if size := config.getoption("sample"):
        chosen: list[pytest.Item] = []
        for name, group in itertools.groupby(items, lambda item: item.nodeid.partition("[")[0]):
            cases = list(group)
            generator = random.Random(name)  # by the text: the same in each run
            indices = sorted(generator.sample(range(len(cases)), min(size, len(cases))))
            chosen += [cases[index] for index in indices]
        kept = set(chosen)
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
        items[:] = chosen


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test after the limit of all; limit the autotuners of what is loaded."""
    minutes = item.config.getoption("minutes")
    if minutes and time.monotonic() > item.config.stash[START] + 60 * minutes:
        pytest.skip(f"{NOT_RUN}: {minutes} minutes")
    limit_configs(item.config.getoption("configs"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """Stop a test that has taken its time of the processor, which waiting does not count for."""
    limit = item.config.getoption("cpu_seconds")

    def stop(number: int, frame: FrameType | None) -> None:
        pytest.skip(f"{TOO_LONG}: {limit} s")

    signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, limit)
    try:
        return (yield)
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


class Outcomes:
    """Writes each test's outcome into a file as it comes."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_text("", "utf-8")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note the outcome of a test; of its setup and its end only if they decide it."""
        if report.when == "call" or report.outcome != "passed":
            reason = "" if report.outcome == "passed" else _reason(report)
            self.note(report.nodeid, report.outcome, reason, report.duration)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a file that cannot be collected."""
        if report.failed:
            self.note(report.nodeid, "failed", _reason(report), 0.0)

    def note(self, name: str, outcome: str, reason: str, seconds: float) -> None:
        """Write a line."""
        entry = {"id": name, "outcome": outcome, "reason": reason, "seconds": round(seconds, 2)}
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")


def pytest_sessionstart(session: pytest.Session) -> None:
    """Write outcomes in the process that has those of all workers."""
    path = session.config.getoption("outcomes")
    if path is not None and not hasattr(session.config, "workerinput"):
        session.config.pluginmanager.register(Outcomes(Path(path)))


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Count the failures by the last line of their exception."""
    failed = terminalreporter.stats.get("failed", [])
    reasons = Counter(_reason(report) for report in failed)
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"{count} failed: {reason}")


def _reason(report: Any) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    where = report.longrepr
    # A skipped test has its file, its line and the reason.
    text = where[2] if isinstance(where, tuple) else str(crash.message if crash else where)
    text = text.strip()
    return text.splitlines()[0][:200] if text else "no reason"
