"""The functions of libdevice, NVIDIA's library of mathematics, on every backend.

`docs/libdevice.md` lists them with their types and accuracy. They take scalars and tiles, which are
broadcast together; types are not cast implicitly, except to a common type of several operands.
"""

from __future__ import annotations

from typing import Any

from tile.ir.semantics.libdevice import functions
from tile.language.extern import libdevice_function

__all__ = list(functions())


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = libdevice_function(name, __name__)
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
