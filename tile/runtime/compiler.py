"""Compile a kernel that is not in the disk cache; only this module imports the compiler."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tile._lazy import lazy_import
from tile.backends.base import Artifact, Backend, Options, Target
from tile.backends.capabilities import Preloaded, Steppable
from tile.config import config
from tile.errors import TileError
from tile.frontend.python.code_generator import compile_function
from tile.frontend.python.source import DeviceFunction
from tile.frontend.python.value_trees import item_names
from tile.ir.compilation_context import compilation, deepest_location, nesting_error
from tile.ir.debug_info import DebugSteps
from tile.ir.descriptor_type import addresses_memory
from tile.ir.ops.debug import breakpoint_
from tile.ir.parameters import Argument
from tile.ir.parser import parse_module
from tile.ir.passes import refuse_unknown
from tile.language.base.compile_options import default_dot_input_precision, num_warps
from tile.runtime.arguments.adapt import retuple
from tile.runtime.signature import ParameterType
from tile.runtime.specialize import Constant, Leaf, spell_specialized
from tile.runtime.stage_files import observe

if TYPE_CHECKING:
    from tile.simt.pass_pipeline import lowering
else:
    lowering = lazy_import("tile.simt.pass_pipeline", "lowering")


@contextmanager
def collector_paused() -> Iterator[None]:
    """Pause Python's garbage collector, which would find little: a kernel's IR lives to its end.

    Objects that survive some collections count as old, and many of these let the collector visit
    all objects of the process, which takes 0.2 s in one with PyTorch.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@collector_paused()
def compile_kernel(
    function: DeviceFunction,
    leaves: Mapping[str, Leaf],
    backend: Backend,
    target: Target,
    options: Options,
) -> Artifact:
    """Compile a function for the specialization of its parameters in `leaves`.

    Raises `CompilationError` for an invalid function, and `BackendError`.
    """
    if isinstance(backend, Preloaded):
        backend.preload()
    types = {n: _type(leaf) for n, leaf in leaves.items() if not isinstance(leaf, Constant)}
    constants = {n: leaf.value for n, leaf in leaves.items() if isinstance(leaf, Constant)}
    parameters = dict(pair for n, leaf in leaves.items() for pair in _parameter_types(n, leaf))
    spelled = spell_specialized(function.name, leaves)
    if config.print_after:
        lowering()  # declares all passes
        refuse_unknown(config.print_after)
    describe = partial(describe_compilation, function, leaves, target, options)
    try:
        steps = backend.steps(target) if isinstance(backend, Steppable) else DebugSteps.NEVER
        with (
            num_warps.scope(options.num_warps),
            default_dot_input_precision.scope(options.default_dot_input_precision),
        ):
            module = compile_function(function, types, constants, _attributes(parameters), steps)
        stops = any(op.defn is breakpoint_ for op in module.walk())
        try:
            with compilation(function.name, describe):
                return replace(backend.compile(module, target, options), stops=stops)
        except RecursionError as error:
            raise nesting_error(deepest_location(module) or function.loc) from error
    except TileError as error:
        error.notes.append(f"compiling {spelled} for {target}")
        raise


def describe_compilation(
    function: DeviceFunction, leaves: Mapping[str, Leaf], target: Target, options: Options
) -> str:
    """Return a text that identifies a compilation, whatever the version of the compiler."""
    spelled, loc = spell_specialized(function.name, leaves), function.loc
    head = f"{spelled} for {target}\n{options}\n{loc.file}:{loc.line}"
    return f"{head}\n\n{function.source.text}"


def compile_for_overlap(artifact: Artifact, backend: Backend) -> Artifact:
    """Compile a kernel again, for launches whose arrays may overlap.

    Promises that they do not (`noalias`) stay.
    """
    text = artifact.stages["tile"]
    assert isinstance(text, str)
    module = parse_module(text)
    for value, argument in zip(module.kernel.args, module.kernel.arguments, strict=True):
        argument.aliased = addresses_memory(value.type)
    target, options = artifact.target, artifact.options
    describe = partial("{}\n{}\n\n{}".format, target, options, text)
    with compilation(artifact.kernel, describe):
        compiled = replace(backend.compile(module, target, options), stops=artifact.stops)
    return observe(compiled, backend, describe)


def _type(leaf: Leaf) -> Any:
    if isinstance(leaf, ParameterType):
        return leaf.type
    return retuple(leaf, list(map(_type, leaf))) if isinstance(leaf, tuple) else leaf.value


def _parameter_types(name: str, leaf: Leaf) -> Iterator[tuple[str, ParameterType]]:
    """Yield the type and properties of each IR parameter, by its name in the IR."""
    if isinstance(leaf, ParameterType):
        yield name, leaf
    elif isinstance(leaf, tuple):
        for item, part in zip(item_names(leaf), leaf, strict=True):
            yield from _parameter_types(f"{name}.{item}", part)


def _attributes(types: Mapping[str, ParameterType]) -> dict[str, Argument]:
    return {
        n: Argument(ty.divisible, noalias=ty.noalias, aliased=ty.aliased, unordered=ty.unordered)
        for n, ty in types.items()
    }
