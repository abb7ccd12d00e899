"""The description of a subcommand of `tile`."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """A subcommand: its name, one-line summary, description for `--help`, options and action.

    `configure` adds the options to a parser. `run` takes the parsed options and returns the exit
    status; a `TileError` that it raises is printed.
    """

    name: str
    summary: str
    description: str
    configure: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
