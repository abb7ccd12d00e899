"""Processes that tests run next to themselves."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any


@contextmanager
def running(command: Sequence[str], **settings: Any) -> Iterator[subprocess.Popen[str]]:
    """A process that does not outlive the block, nor do its pipes; `settings` are those of Popen."""
    with subprocess.Popen(command, text=True, **settings) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def all_running(
    command: Sequence[str], count: int, **settings: Any
) -> Iterator[list[subprocess.Popen[str]]]:
    """Several processes of one command at the same time."""
    with ExitStack() as stack:
        yield [stack.enter_context(running(command, **settings)) for _ in range(count)]
