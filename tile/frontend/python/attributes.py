"""Attributes of runtime values and compile-time objects: `a.b`, `getattr` and `hasattr`."""

from __future__ import annotations

import ast
from types import ModuleType
from typing import Any

from tile._lazy import LazyNames
from tile.errors import CompilationError, TileError
from tile.frontend.python.aggregates import Aggregate, AggregateType, aggregate_member
from tile.frontend.python.global_names import member
from tile.frontend.python.lowering_context import Lowering
from tile.frontend.python.value_trees import compile_time_only, describe
from tile.language.base.builtin import suggestion
from tile.language.base.static_args import failed
from tile.language.base.tensor import BlockPointer, Im2colDescriptor, Tensor
from tile.language.replacements import advice
from tile.language.tensor_methods import tensor_attribute

_TILES = Tensor | BlockPointer | Im2colDescriptor


def attribute(low: Lowering, node: ast.Attribute) -> object:
    """Compile `a.b` of a runtime value or a compile-time object."""
    owner = low.expression(node.value)
    if isinstance(owner, _TILES):
        low.at(node)
        return tensor_attribute(low.build, owner, node.attr)
    try:
        return _member(owner, node.attr)
    except TileError:
        raise
    except AttributeError:
        instead = isinstance(owner, ModuleType) and _is_language(owner) and advice(node.attr)
        hint = instead or suggestion(node.attr, dir(owner))
        names = getattr(owner, "__getattr__", None)
        reason = names.reason(node.attr) if isinstance(names, LazyNames) else ""
        if isinstance(owner, tuple) and hasattr(list, node.attr):
            hint = "; a list in a kernel is a tuple, to add to it write `values = (*values, x)`"
        notes = [reason] if reason else []
        low.fail(node, f"{_subject(owner)} has no attribute `{node.attr}`{hint}", notes)
    except Exception as error:
        raise failed(f"attribute `{node.attr}` of {describe(owner)}", error) from error


def _member(owner: Any, name: str) -> object:
    if isinstance(owner, Aggregate | AggregateType):
        return aggregate_member(owner, name)
    return member(owner, name)


def _is_language(module: ModuleType) -> bool:
    """Return True for `tile.language` and views of it."""
    return module.__name__.split(".")[:2][-1] == "language"


def _subject(owner: Any) -> str:
    return f"module `{owner.__name__}`" if isinstance(owner, ModuleType) else describe(owner)


def _get(low: Lowering, owner: Any, name: Any, *default: Any) -> object:
    """Compile `getattr(owner, name)` and `getattr(owner, name, default)`."""
    if default and not _has(low, owner, name):
        return default[0]
    text = _checked(owner, name, "getattr")
    if isinstance(owner, _TILES):
        return tensor_attribute(low.build, owner, text)
    try:
        return _member(owner, text)
    except AttributeError:
        hint = suggestion(text, dir(owner))
        raise CompilationError(f"{describe(owner)} has no attribute `{text}`{hint}") from None


def _has(low: Lowering, owner: Any, name: Any) -> bool:
    """Compile `hasattr(owner, name)`."""
    text = _checked(owner, name, "hasattr")
    if isinstance(owner, _TILES):
        try:
            tensor_attribute(low.build, owner, text)
        except CompilationError:
            return False
        return True
    try:
        _member(owner, text)
    except AttributeError:
        return False
    return True


def _checked(owner: Any, name: Any, function: str) -> str:
    """Return the name. Raises `CompilationError` for one that is no text, and for some owners.

    The key of a compiled kernel has the attributes of modules and classes that the source names,
    and it does not name these.
    """
    text = compile_time_only(name, f"the name in `{function}`")
    if not isinstance(text, str):
        raise CompilationError(f"the name in `{function}` is a text, not {describe(text)}")
    if isinstance(owner, type) or (isinstance(owner, ModuleType) and not _is_language(owner)):
        spelled = owner.__name__.rpartition(".")[2]
        raise CompilationError(
            f"`{function}` takes no attribute of {_subject(owner)}; write `{spelled}.{text}`"
        )
    return text


def of_attributes(function: Any) -> bool:
    """Return True for Python's `getattr` and `hasattr`."""
    return function is getattr or function is hasattr


def call_of_attributes(low: Lowering, function: Any, args: list[Any], kwargs: object) -> object:
    """Compile a call of `getattr` or `hasattr`. Raises `CompilationError` for other arguments."""
    most = 3 if function is getattr else 2
    if kwargs or not 2 <= len(args) <= most:
        default = ", and a default" if function is getattr else ""
        raise CompilationError(f"`{function.__name__}` takes an object and a name{default}")
    return _get(low, *args) if function is getattr else _has(low, *args)
