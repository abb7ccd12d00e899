"""Oclgrind, which goes on after what is wrong and writes it into a log."""

from __future__ import annotations

from pathlib import Path


def checking(log: Path) -> dict[str, str]:
    """The variables of a process in which Oclgrind checks all; it reads them when it starts.

    Programs run one after the other: with two threads of Oclgrind 21.10, one in five races of two
    programs that store different values at one place was not in the log, and with one thread all
    of 600 were.
    """
    return {
        "OCLGRIND_DATA_RACES": "1",
        "OCLGRIND_NUM_THREADS": "1",
        "OCLGRIND_LOG": str(log),
    }
