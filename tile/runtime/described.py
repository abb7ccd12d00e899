"""Jitted functions without their Python function, as process pools of libraries send them.

PyTorch's compile workers clear `fn` of a jitted function and pickle the rest: the parameters, the
text and the name of the kernel. Such a function describes a compiled kernel and cannot be compiled.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tile.frontend.python.source import DeviceFunction
from tile.runtime.interface import annotation_text

# What remains of a function, by attribute; `__dict__` of the function has the same names.
NAMES = ("name", "noinline", "__name__", "__qualname__", "__module__", "__doc__")


def description(function: Any) -> dict[str, Any]:
    """Return the attributes that a function keeps when its `fn` is cleared."""
    parameters = [replace(p, annotation=annotation_text(p.annotation)) for p in function.parameters]
    return {
        **{name: getattr(function, name) for name in NAMES},
        "parameters": tuple(parameters),
        "params": function.params,
        "own_src": function.src,
        "cache_key": function.cache_key,
    }


def restored(kind: type[DeviceFunction], attributes: dict[str, Any]) -> DeviceFunction:
    """Return a function of these attributes, in another process."""
    function = kind.__new__(kind)
    without = {"fn": None, "_python_function": None, "_description": attributes}
    vars(function).update(attributes, **without)
    return function
