"""Helpers that compile functions of a test file and inspect the result."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import pytest

from tests.frontend.scalar_machine import ScalarMachine
from tile.errors import CompilationError
from tile.frontend.python.code_generator import compile_function
from tile.frontend.python.source import DeviceFunction
from tile.ir.module import Module
from tile.ir.parser import parse_module
from tile.ir.printer import print_module
from tile.ir.types import F32, I32, Pointer
from tile.ir.verifier import verify

PTR = Pointer(F32)
INTS = Pointer(I32)


def module_of(fn: Callable[..., Any], *types: Any, **constants: Any) -> Module:
    """The verified module of a kernel; types go to its first parameters that are no constants."""
    function = fn if isinstance(fn, DeviceFunction) else DeviceFunction(fn)
    names = [p.name for p in function.parameters if p.name not in constants and not p.is_constexpr]
    module = compile_function(function, dict(zip(names, types, strict=False)), constants)
    verify(module)
    assert all(op.loc is not None and op.loc.function for op in module.walk())
    return module


def text_of(fn: Callable[..., Any], *types: Any, **constants: Any) -> str:
    """The printed module, which parses to the same text."""
    text = print_module(module_of(fn, *types, **constants))
    assert print_module(parse_module(text)) == text
    return text


def ops_of(module: Module) -> list[str]:
    return [op.name for op in module.walk()]


def refusal(fn: Callable[..., Any], *types: Any, **constants: Any) -> CompilationError:
    """The error for a kernel that must not compile; it has a place, and shows it."""
    with pytest.raises(CompilationError) as caught:
        module_of(fn, *types, **constants)
    error = caught.value
    assert error.loc is not None
    assert "^" in str(error)
    return error


def underlined(error: CompilationError) -> str:
    """The source text over the caret."""
    loc = error.loc
    assert loc is not None
    return linecache.getline(loc.file, loc.line)[loc.column : loc.end_column]


def source_line(error: CompilationError) -> str:
    """The source line of the error, stripped."""
    assert error.loc is not None
    return linecache.getline(error.loc.file, error.loc.line).strip()


def stored(fn: Callable[..., Any], *args: int, **constants: Any) -> list[Any]:
    """Return what a kernel of an `out` pointer and integers stores, in order."""
    module = module_of(fn, INTS, *(I32 for _ in args), **constants)
    return [value for _, value in ScalarMachine(module).run(0, *args)]
