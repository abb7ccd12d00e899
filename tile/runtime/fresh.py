"""Compiling a kernel that no process has compiled before: what imports the compiler."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from tile.backends.base import Artifact, Backend, Options, Steppable, Target
from tile.errors import TileError
from tile.frontend.compile import compile_function
from tile.frontend.source import DeviceFunction
from tile.frontend.values import item_names
from tile.ir.nesting import deepest, too_deep
from tile.ir.ops.debug import breakpoint_
from tile.ir.steps import Steps
from tile.runtime.arguments import retuple
from tile.runtime.signature import ParameterType
from tile.runtime.specialise import Constant, Leaf, spell_specialised


def compiled(
    function: DeviceFunction,
    leaves: Mapping[str, Leaf],
    backend: Backend,
    target: Target,
    options: Options,
) -> Artifact:
    """Compile a function for what `leaves` says of its parameters.

    Raises `CompilationError` for what the frontend refuses, and `BackendError`.
    """
    types = {n: _type(leaf) for n, leaf in leaves.items() if not isinstance(leaf, Constant)}
    constants = {n: leaf.value for n, leaf in leaves.items() if isinstance(leaf, Constant)}
    divisible = dict(pair for n, leaf in leaves.items() for pair in _divisible(n, leaf))
    try:
        steps = backend.steps(target) if isinstance(backend, Steppable) else Steps.NEVER
        module = compile_function(function, types, constants, divisible, steps)
        stops = any(op.defn is breakpoint_ for op in module.walk())
        try:
            return replace(backend.compile(module, target, options), stops=stops)
        except RecursionError as error:
            raise too_deep(deepest(module) or function.loc) from error
    except TileError as error:
        error.notes.append(f"compiling {spell_specialised(function.name, leaves)} for {target}")
        raise


def _type(leaf: Leaf) -> Any:
    if isinstance(leaf, ParameterType):
        return leaf.type
    return retuple(leaf, list(map(_type, leaf))) if isinstance(leaf, tuple) else leaf.value


def _divisible(name: str, leaf: Leaf) -> Iterator[tuple[str, int]]:
    """What is known of the values of a parameter, by the IR's names of the parts of a tuple."""
    if isinstance(leaf, ParameterType):
        yield name, leaf.divisible
    elif isinstance(leaf, tuple):
        for item, part in zip(item_names(leaf), leaf, strict=True):
            yield from _divisible(f"{name}.{item}", part)
