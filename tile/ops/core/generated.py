"""Generated functions. In their texts names begin with `~`, but for those of an op's parameters."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from types import CodeType
from typing import Any

from tile.tracebacks import GENERATED


class Names:
    """The values that names in a text stand for."""

    def __init__(self, **values: Any) -> None:
        self.values = values

    def add(self, letter: str, value: Any) -> str:
        """Return a new name for a value."""
        name = f"{letter}{len(self.values)}"
        self.values[name] = value
        return f"~{name}"


def execute(text: str, parameters: Iterable[str], **names: Any) -> dict[str, Any]:
    """Execute a text, and return what its names stand for then.

    `~` becomes enough underscores for names that no parameter has.
    """
    prefix = "_"
    while any(name.startswith(prefix) for name in parameters):
        prefix += "_"
    space = {prefix + name: value for name, value in names.items()}
    exec(_code(text.replace("~", prefix)), space)
    return {name.removeprefix(prefix): value for name, value in space.items()}


@functools.lru_cache(maxsize=256)
def _code(text: str) -> CodeType:
    """Compile a text; plans for other shapes often have the same one."""
    return compile(text, GENERATED, "exec")


def tuple_text(words: Iterable[str]) -> str:
    """Return the source of a tuple."""
    return f"({''.join(f'{word}, ' for word in words)})"
