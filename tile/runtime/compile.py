"""Compile a function for given argument types to a kernel; this needs no device."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from tile import backends
from tile._lazy import lazy_import
from tile.backends.base import Options, Target
from tile.backends.capabilities import AliasSpecialized
from tile.config import config
from tile.errors import ArgumentError, ArgumentTypeError, ArgumentValueError
from tile.frontend.python.source import DeviceFunction, Parameter, spell_parameters
from tile.ir.descriptor_type import Padding
from tile.ir.types import Scalar
from tile.language.base.tensor import DescriptorParts
from tile.runtime import kernel_cache
from tile.runtime.annotations import annotated_type
from tile.runtime.arguments.tensor_descriptor import (
    descriptor_type,
    signature_parts,
    spell_descriptor,
)
from tile.runtime.binding import quoted, unknown_names
from tile.runtime.interface import KernelInterface
from tile.runtime.kernel import CompiledKernel
from tile.runtime.signature import ParameterType, parse_signature_type, parse_type, spell_type
from tile.runtime.specialize import (
    Constant,
    Leaf,
    constant,
    descriptor_leaf,
    keep_noalias,
    spell_leaf,
    with_aliased,
    with_noalias,
)
from tile.runtime.target_selection import DEFAULT, qualified_target
from tile.short_repr import short_repr
from tile.tracebacks import public_function

if TYPE_CHECKING:
    from tile.runtime.compiler import compile_kernel, describe_compilation
    from tile.runtime.stage_files import observe
else:
    compile_kernel = lazy_import("tile.runtime.compiler", "compile_kernel")
    describe_compilation = lazy_import("tile.runtime.compiler", "describe_compilation")
    observe = lazy_import("tile.runtime.stage_files", "observe")


def build(
    function: DeviceFunction,
    leaves: Mapping[str, Leaf],
    target: Target,
    options: Options,
    *,
    name: str = "",
    guarded: bool = False,
) -> CompiledKernel:
    """Compile `function` as a kernel, or load it from the disk cache.

    leaves: the specialization of each parameter, in order.
    target: a resolved target.
    guarded: each launch checks whether arrays overlap (`CompiledKernel.overlap`). Then, if the
        backend gains by it, all pointers are `noalias`, and stay so where the kernel relies on
        it.

    Raises `CompilationError` for an invalid function, and `BackendError`.
    """
    backend = backends.get(target.backend)
    if guarded and isinstance(backend, AliasSpecialized) and backend.specializes_noalias:
        leaves = {n: with_noalias(leaf) for n, leaf in leaves.items()}
    key = kernel_cache.key(function, leaves, backend, target, options)
    artifact = None if key is None else kernel_cache.load_kernel(key)
    if artifact is None:
        artifact = compile_kernel(function, leaves, backend, target, options)
        # Kernels with a `breakpoint()` are not cached, so that every process warns that the
        # backend ignores it.
        if key is not None and not artifact.stops:
            kernel_cache.store_kernel(key, artifact)
    if config.observes_stages:
        describe = partial(describe_compilation, function, leaves, target, options)
        artifact = observe(artifact, backend, describe)
    if guarded:
        leaves = keep_noalias(leaves, artifact.parameters, artifact.noalias)
    return CompiledKernel(
        artifact,
        backend,
        leaves,
        name=name or function.name,
        source=function.source.text,
        fn=function,
    )


@public_function
def compile(  # noqa: A001 - the public name is tile.compile
    fn: Any,
    signature: Mapping[str, Any],
    constexprs: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    target: str | Target = DEFAULT,
    *,
    may_overlap: bool = False,
    unordered: bool = False,
) -> CompiledKernel:
    """Compile a kernel ahead of time.

    signature: the types of runtime parameters as text (`"*fp32:16"`, `"i32"`; see
        `tile.runtime.signature`). Parameters that are annotated with a type can be left out.
    constexprs: the values of the other parameters. A parameter in neither mapping is a constant
        with its default value.
    options: launch options (`num_warps` and so on).
    target: a backend, optionally with an architecture (`"nvptx:sm_90a"`).
    may_overlap: arrays may overlap, so that launches need not check it.
    unordered: as in Triton, barriers alone order the accesses of a program's threads to arrays that
        overlap, unless these are at equal offsets.

    Raises `ArgumentError` for unknown names and types and for parameters that are missing or passed
    twice, `CompilationError` for an invalid function, and `BackendError`.
    """
    function = jitted(fn)
    _check_mapping("signature", signature)
    _check_mapping("constexprs", {} if constexprs is None else constexprs)
    _check_mapping("options", {} if options is None else options)
    if not isinstance(target, str | Target):
        raise ArgumentTypeError(
            f"the target of tile.compile is a text such as 'nvptx:sm_90a', not {short_repr(target)}"
        )
    leaves = dict(_leaves(function, dict(signature), dict(constexprs or {})))
    parsed = Target.parse(qualified_target(target)) if isinstance(target, str) else target
    resolved = backends.get(parsed.backend).resolve(parsed)
    chosen = Options.of({**function.launch_defaults(), **(options or {})})
    if may_overlap:
        leaves = {name: with_aliased(leaf, unordered=unordered) for name, leaf in leaves.items()}
    return build(function, leaves, resolved, chosen)


def preloaded(function: DeviceFunction, text: str) -> CompiledKernel:
    """Compile a function for the types, constants, options and target in a text of JSON."""
    data = json.loads(text)
    own = f"{function.__module__}.{function.__qualname__}"
    if data["name"] != own:
        raise ArgumentValueError(f"the text describes a kernel of {data['name']}, not of {own}")
    if data["inexact"]:
        raise ArgumentValueError(
            f"the text has no value for {quoted(data['inexact'])} of {own}: only numbers, texts, "
            "types and None are stored"
        )
    names = [parameter.name for parameter in function.parameters]
    constants = {names[int(path)]: _constant(v) for path, v in data["constants"].items()}
    types = {n: _types(kind) for n, kind in data["signature"].items() if n not in constants}
    options = Options.of(data["options"])
    leaves = dict(_leaves(function, types, constants))
    return build(function, leaves, Target.parse(data["target"]), options)


def _constant(value: Any) -> Any:
    """Return a constant from JSON, in which `{"dtype": "fp32"}` is a type."""
    return parse_type(value["dtype"]) if isinstance(value, dict) else value


def _types(kind: Any) -> Any:
    return tuple(map(_types, kind)) if isinstance(kind, list) else kind


def _check_mapping(name: str, value: object) -> None:
    if not isinstance(value, Mapping):
        raise ArgumentTypeError(
            f"the {name} of tile.compile is a dict by name, not {short_repr(value)}"
        )


def jitted(fn: Any) -> DeviceFunction:
    """Return the jitted function in `fn`, which may be wrapped by an autotuner or heuristics.

    Raises `ArgumentTypeError` if there is none.
    """
    inner = fn
    while not isinstance(inner, DeviceFunction) and isinstance(inner, KernelInterface):
        inner = getattr(inner, "fn", None)
    if not isinstance(inner, DeviceFunction):
        raise ArgumentTypeError(f"tile.compile takes a @tile.jit function, not {short_repr(fn)}")
    return inner


def _leaves(
    function: DeviceFunction, signature: dict[str, Any], constexprs: dict[str, Any]
) -> Iterator[tuple[str, Leaf]]:
    # Triton's signatures give constexpr parameters the type "constexpr".
    typed = {name: text for name, text in signature.items() if text != "constexpr"}
    for parameter in function.parameters:
        annotated = annotated_type(function, parameter)
        left_out = parameter.name not in signature and parameter.name not in constexprs
        if annotated is not None and parameter.required and left_out:
            typed[parameter.name] = spell_type(annotated)
    _check_names(function, signature, typed, constexprs)
    for parameter in function.parameters:
        name = parameter.name
        if name in typed:
            leaf = _parse(name, typed[name])
            _check_annotation(function, parameter, leaf)
            yield name, leaf
        else:
            value = constexprs.get(name, parameter.default)
            yield name, Constant(constant(value, f"parameter {name!r} of {function.name}()"))


def _check_annotation(function: DeviceFunction, parameter: Parameter, leaf: Leaf) -> None:
    """Raise `ArgumentTypeError` if a type differs from the parameter's annotation."""
    annotated = annotated_type(function, parameter)
    if annotated is None or (isinstance(leaf, ParameterType) and leaf.type == annotated):
        return
    raise ArgumentTypeError(
        f"parameter {parameter.name!r} of {function.name}() is annotated {spell_type(annotated)}, "
        f"and the signature says {spell_leaf(leaf)}"
    )


def _check_names(
    function: DeviceFunction,
    signature: Mapping[str, Any],
    typed: Mapping[str, Any],
    constexprs: Mapping[str, Any],
) -> None:
    """Raise one error that lists all problems with the names."""
    parameters = function.parameters
    names = [p.name for p in parameters]
    missing = [
        p.name
        for p in parameters
        if p.required and p.name not in typed and p.name not in constexprs
    ]
    unknown = [name for name in dict.fromkeys([*signature, *constexprs]) if name not in names]
    messages = {
        "it has no parameter {}": unknown_names(unknown, names),
        "the signature or constexprs must give {}": quoted(missing),
        "given both a type and a value: {}": quoted([n for n in typed if n in constexprs]),
        "values belong in constexprs, and the signature has types for {}": quoted(
            [p.name for p in parameters if p.is_constexpr and p.name in typed]
        ),
    }
    problems = [text.format(listed) for text, listed in messages.items() if listed]
    if problems:
        raise ArgumentTypeError(
            f"{function.name} cannot be compiled like this: {'; '.join(problems)}",
            notes=[f"it is {spell_parameters(function.name, parameters)}"],
        )


def _parse(name: str, text: Any) -> Leaf:
    if isinstance(text, tuple | list):
        return tuple(_parse(f"{name}[{i}]", item) for i, item in enumerate(text))
    try:
        parts = signature_parts(text) if isinstance(text, str) else None
        if parts is not None:
            return _descriptor_leaf(*parts)
        ty = parse_signature_type(text)
    except ArgumentError as error:
        error.notes.append(f"this is the type given for {name!r}")
        raise
    return Constant(1) if ty.one else ty


def _descriptor_leaf(name: str, block: tuple[int, ...], padding: Padding) -> DescriptorParts:
    element = parse_type(name)
    assert isinstance(element, Scalar), "the element type of a descriptor is not a pointer"
    descriptor_type(element, block, padding, spell_descriptor(name, block, padding))
    return descriptor_leaf(element, block, padding)
