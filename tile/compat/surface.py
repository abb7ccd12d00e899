"""The public names of Triton, each with its state here and a remark."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from types import ModuleType
from typing import NamedTuple

from tile.compat.finder import ViewNames
from tile.compat.modules import MODULES
from tile.compat.reasons import DIFFERENT, absent_module, absent_reason, triton_names


class State(Enum):
    """The state of a name."""

    PRESENT = "present"
    DIFFERENT = "different"
    ABSENT = "absent"


class Entry(NamedTuple):
    """A public name of Triton: its module, the versions that have it, its state and a remark."""

    module: str
    name: str
    versions: str
    state: State
    remark: str


def surface() -> Iterator[Entry]:
    """Yield an entry for each public name of Triton, module by module."""
    for module, names in triton_names().items():
        view = MODULES.get(module)
        own = None if view is None else ViewNames(ModuleType(module), view, "")
        for name, versions in names.items():
            yield Entry(module, name, versions, *_state(module, name, own))


def _state(module: str, name: str, own: ViewNames | None) -> tuple[State, str]:
    if own is None:
        return State.ABSENT, absent_module(module)
    if f"{module}.{name}" in MODULES:
        return State.PRESENT, ""
    try:
        own(name)
    except AttributeError:
        return State.ABSENT, absent_reason(module, name)
    remark = _different(module, name)
    return (State.DIFFERENT, remark) if remark else (State.PRESENT, "")


def _different(module: str, name: str) -> str:
    """Return how a name differs, which is the same in every module that has it."""
    table: Mapping[str, str] = DIFFERENT
    return table.get(f"{module}.{name}") or table.get(name, "")
