"""The references of ops: what they return, computed by NumPy in float64.

    def softmax_backward_reference(dy, y): ...

A reference stands in the file of its op, and has the parameters of the op that it needs: all but
the options that change no numbers. `reference_of` calls it like the op.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def wide(*arrays: Array) -> list[Array]:
    """Return copies of arrays in float64."""
    return [np.asarray(array).astype(np.float64) for array in arrays]


def reference_of(op: Callable[..., Any]) -> Callable[..., Any]:
    """Return the reference of an op, which takes the arguments of the op but `out`.

    Arrays of floats reach it in float64.

    >>> from tile.ops import softmax_backward
    >>> dy, y = np.float16([[1, 2]]), np.float16([[0.5, 0.5]])
    >>> reference_of(softmax_backward)(dy, y)
    array([[-0.25,  0.25]])
    """
    module = importlib.import_module(op.__module__)
    function: Callable[..., Any] = getattr(module, f"{op.__name__}_reference")
    parameters, names = inspect.signature(op).parameters, inspect.signature(function).parameters
    signature = inspect.Signature([p for name, p in parameters.items() if name != "out"])

    @functools.wraps(function)
    def reference(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return function(**{name: _in_float64(bound.arguments[name]) for name in names})

    reference.__signature__ = signature  # type: ignore[attr-defined]
    return reference


def _in_float64(value: Any) -> Any:
    """Return an array of floats in float64, and any other argument as it is."""
    is_float = isinstance(value, np.ndarray | np.generic) and value.dtype.kind not in "iub"
    return value.astype(np.float64) if is_float else value
