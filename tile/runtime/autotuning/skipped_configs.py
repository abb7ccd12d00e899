"""Errors during autotuning: skip configurations that cannot run, and raise all other errors.

A configuration that does not compile, or that exceeds the resources of the device, is skipped with
its reason. All other errors are raised and name the configuration, in particular faults of a run:
an out-of-bounds access or a false `device_assert` is a bug of the kernel, and skipping it would
hide the bug behind a slower configuration.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tile.errors import (
    HookError,
    TileError,
)
from tile.runtime.autotuning.configs import CANNOT_RUN, Config

# The most reasons, and configurations per reason, in the error if all configurations fail.
MOST_REASONS = 8
MOST_NAMES = 4


class Skipped:
    """The configurations of a kernel that cannot run, each with its error."""

    def __init__(self, kernel: str) -> None:
        self.kernel = kernel
        self.errors: dict[Config, TileError] = {}

    def __contains__(self, config: Config) -> bool:
        return config in self.errors

    def __len__(self) -> int:
        return len(self.errors)

    @property
    def reasons(self) -> dict[Config, str]:
        """The full text of each error."""
        return {config: str(error) for config, error in self.errors.items()}

    @contextmanager
    def trying(self, config: Config) -> Iterator[None]:
        """Skip `config` if it cannot run; any other error propagates with the configuration."""
        try:
            yield
        except CANNOT_RUN as error:
            self.errors[config] = error
        except HookError:
            raise
        except Exception as error:
            _note(error, f"this was configuration {config} of {self.kernel}")
            raise

    def check_some_run(self, configs: Sequence[Config]) -> None:
        """Raise the last error, with the reasons of all, if all of `configs` were skipped."""
        if len(self.errors) < len(set(configs)):
            return
        *others, (config, last) = self.errors.items()
        groups: dict[str, list[Config]] = {}
        for other, error in others:
            groups.setdefault(reason(error), []).append(other)
        same = groups.pop(reason(last), [])
        alike = ", all for this reason" if same and not groups else ""
        last.notes.append(f"this was configuration {config} of {self.kernel}")
        last.notes.append(f"none of its {len(self.errors)} configurations can run here{alike}")
        if same and groups:
            last.notes.append(f"{_names(same)}: the same")
        shown = list(groups.items())[:MOST_REASONS]
        last.notes += [f"{_names(group)}: {text}" for text, group in shown]
        if len(groups) > len(shown):
            last.notes.append(f"and {len(groups) - len(shown)} other reasons")
        raise last


def reason(error: TileError) -> str:
    """Return an error in one line: its message and location."""
    return error.message + ("" if error.loc is None else f", at {error.loc}")


def _names(configs: Sequence[Config]) -> str:
    names = "; ".join(map(str, configs[:MOST_NAMES]))
    rest = len(configs) - MOST_NAMES
    return f"{names} and {rest} others" if rest > 0 else names


def _note(error: Exception, text: str) -> None:
    if not isinstance(error, TileError):
        error.add_note(f"tile: {text}")
    elif text not in error.notes:
        error.notes.append(text)
