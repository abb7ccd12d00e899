"""What a subcommand of `tile` is."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """A subcommand: its name, one line on it, more for its own help, its options and what it does.

    `run` takes the parsed options and returns the exit status. A `TileError` that it raises is
    printed.
    """

    name: str
    summary: str
    description: str
    configure: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
