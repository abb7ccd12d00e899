"""Cases of kernels written in the language, whose constants vary them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.fuzz.generate import Case
from tile.frontend.python.code_generator import compile_function
from tile.ir.numpy_dtypes import scalar_of
from tile.ir.parameters import Argument
from tile.ir.types import Pointer, Type
from tile.runtime.compile import jitted


def case(
    function: Any,
    grid: tuple[int, int, int],
    arguments: Mapping[str, Any],
    constants: Mapping[str, Any],
    loose: frozenset[str] = frozenset(),
) -> Case:
    """Return a launch of `function` with arrays and integers.

    loose: as in `Case`; no other array depends on quotients of floats.

    Arrays are aligned to 16 bytes, and integers known to be divisible by 16 where they are.
    """
    types = {name: _type(value) for name, value in arguments.items()}
    promises = {name: Argument(_divisor(value)) for name, value in arguments.items()}
    module = compile_function(jitted(function), types, constants, promises)
    return Case(module, grid, list(arguments.values()), loose=loose, exact=False)


def _type(value: Any) -> Type:
    element = scalar_of(np.asarray(value).dtype)
    return Pointer(element) if isinstance(value, np.ndarray) else element


def _divisor(value: Any) -> int:
    return 16 if isinstance(value, np.ndarray) or value % 16 == 0 else 1
