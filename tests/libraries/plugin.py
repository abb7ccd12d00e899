"""A plugin of pytest for the tests of libraries: a sample of them, and a limit of each one's time.

    tile triton -m pytest -p tests.libraries.plugin --sample 5 --cpu-seconds 60 test/

A sample is the same in each run. A test that takes more time of the processor than the limit is
skipped, with a reason that says so: kernels run on the interpreter, and tests are written for GPUs.
The last line of the summary counts failures by their reason.
"""

from __future__ import annotations

import itertools
import random
import signal
from collections import Counter
from collections.abc import Generator
from types import FrameType
from typing import Any

import pytest

TOO_LONG = "takes longer than the limit"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the plugin's options."""
    group = parser.getgroup("tests of libraries")
    group.addoption("--sample", type=int, default=0, help="run so many tests of each function")
    group.addoption("--cpu-seconds", type=int, default=0, help="limit of each test's time")


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


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Count the failures by the last line of their exception."""
    failed = terminalreporter.stats.get("failed", [])
    reasons = Counter(_reason(report) for report in failed)
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"{count} failed: {reason}")


def _reason(report: Any) -> str:
    crash = getattr(report.longrepr, "reprcrash", None)
    text = str(crash.message if crash else report.longrepr).strip()
    return text.splitlines()[0][:200] if text else "no reason"
