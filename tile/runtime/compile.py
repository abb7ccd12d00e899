"""From a function and what is known of its arguments to a compiled kernel; no device is needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tile.backends import registry
from tile.backends.base import Options, Target
from tile.brief import brief
from tile.errors import ArgumentError, ArgumentTypeError
from tile.frontend.source import DeviceFunction, Parameter
from tile.ir.types import Padding, Scalar
from tile.language.descriptor_parts import DescriptorParts
from tile.late import late
from tile.runtime import kept
from tile.runtime.annotations import annotated_type
from tile.runtime.binding import quoted, spell_parameters, unknown_names
from tile.runtime.context import DEFAULT, leveled
from tile.runtime.descriptor import descriptor_type, signature_parts, spell_descriptor
from tile.runtime.kernel import CompiledKernel
from tile.runtime.signature import ParameterType, parse_signature_type, parse_type, spell_type
from tile.runtime.specialise import (
    Constant,
    Leaf,
    constant,
    described_leaf,
    spell_leaf,
)
from tile.tracebacks import entry

if TYPE_CHECKING:
    from tile.runtime.fresh import compiled
else:
    compiled = late("tile.runtime.fresh", "compiled")


def build(
    function: DeviceFunction,
    leaves: Mapping[str, Leaf],
    target: Target,
    options: Options,
    *,
    name: str = "",
) -> CompiledKernel:
    """Compile `function` as a kernel; `leaves` says of each parameter, in order, what for.

    What was compiled before, by any process, is found on disk. The target is resolved. Raises
    `CompilationError` for what the frontend refuses, and `BackendError`.
    """
    backend = registry.get(target.backend)
    key = kept.key(function, leaves, backend, target, options)
    artifact = None if key is None else kept.find(key)
    if artifact is None:
        artifact = compiled(function, leaves, backend, target, options)
        # Each process that compiles a kernel with a `breakpoint()` warns that it is passed over.
        if key is not None and not artifact.stops:
            kept.keep(key, artifact)
    return CompiledKernel(
        artifact, backend, leaves, name=name or function.name, source=function.source.text
    )


@entry
def compile(  # noqa: A001 - the public name is tile.compile
    fn: Any,
    signature: Mapping[str, Any],
    constexprs: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    target: str | Target = DEFAULT,
) -> CompiledKernel:
    """Compile a kernel ahead of its launch.

    `signature` gives the types of runtime parameters as text (`"*fp32:16"`, `"i32"`; see
    `tile.runtime.signature`), `constexprs` the values of the others, `options` what a launch may
    ask for (`num_warps` and so on), and `target` a backend, with an architecture if need be
    (`"nvptx:sm_90a"`). A parameter that is in neither has its default for a constant.

    Raises `ArgumentError` for names and types that do not exist and for parameters that are missing
    or given twice, `CompilationError` for what the frontend refuses, and `BackendError`.
    """
    function = jitted(fn)
    _check_mapping("signature", signature)
    _check_mapping("constexprs", {} if constexprs is None else constexprs)
    _check_mapping("options", {} if options is None else options)
    if not isinstance(target, str | Target):
        raise ArgumentTypeError(
            f"the target of tile.compile is a text such as 'nvptx:sm_90a', not {brief(target)}"
        )
    leaves = dict(_leaves(function, dict(signature), dict(constexprs or {})))
    where = Target.parse(leveled(target)) if isinstance(target, str) else target
    chosen = Options.of(options or {})
    return build(function, leaves, registry.get(where.backend).resolve(where), chosen)


def _check_mapping(what: str, given: object) -> None:
    if not isinstance(given, Mapping):
        raise ArgumentTypeError(f"the {what} of tile.compile is a dict by name, not {brief(given)}")


def jitted(fn: Any) -> DeviceFunction:
    """The jitted function in `fn`, which may be wrapped by an autotuner or heuristics.

    Raises `ArgumentTypeError` where there is none.
    """
    inner = fn
    while not isinstance(inner, DeviceFunction) and hasattr(inner, "kernel"):
        inner = inner.kernel
    if not isinstance(inner, DeviceFunction):
        raise ArgumentTypeError(f"tile.compile takes a @tile.jit function, not {brief(fn)}")
    return inner


def _leaves(
    function: DeviceFunction, signature: dict[str, Any], constexprs: dict[str, Any]
) -> Iterator[tuple[str, Leaf]]:
    # Signatures written for Triton mark constexpr parameters.
    typed = {name: text for name, text in signature.items() if text != "constexpr"}
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
    """Raise `ArgumentTypeError` for a type other than the parameter is annotated with."""
    wanted = annotated_type(function, parameter)
    if wanted is None or (isinstance(leaf, ParameterType) and leaf.type == wanted):
        return
    raise ArgumentTypeError(
        f"parameter {parameter.name!r} of {function.name}() is annotated {spell_type(wanted)}, and "
        f"the signature says {spell_leaf(leaf)}"
    )


def _check_names(
    function: DeviceFunction,
    signature: Mapping[str, Any],
    typed: Mapping[str, Any],
    constexprs: Mapping[str, Any],
) -> None:
    """Raise one error that says all that is wrong with the names."""
    parameters = function.parameters
    known = [p.name for p in parameters]
    missing = [
        p.name
        for p in parameters
        if p.required and p.name not in typed and p.name not in constexprs
    ]
    problems = {
        "it has no parameter {}": _unknown([*signature, *constexprs], known),
        "the signature or constexprs must give {}": quoted(missing),
        "given both a type and a value: {}": quoted([n for n in typed if n in constexprs]),
        "values belong in constexprs, and the signature has types for {}": quoted(
            _misplaced(parameters, typed)
        ),
    }
    found = [text.format(names) for text, names in problems.items() if names]
    if found:
        raise ArgumentTypeError(
            f"{function.name} cannot be compiled like this: {'; '.join(found)}",
            notes=[f"it is {spell_parameters(function.name, parameters)}"],
        )


def _unknown(names: list[str], known: list[str]) -> str:
    return unknown_names([name for name in dict.fromkeys(names) if name not in known], known)


def _misplaced(parameters: tuple[Parameter, ...], typed: Mapping[str, Any]) -> list[str]:
    return [p.name for p in parameters if p.is_constexpr and p.name in typed]


def _parse(name: str, text: Any) -> Leaf:
    if isinstance(text, tuple | list):
        return tuple(_parse(f"{name}[{i}]", item) for i, item in enumerate(text))
    try:
        described = signature_parts(text) if isinstance(text, str) else None
        if described is not None:
            return _described(*described)
        known = parse_signature_type(text)
    except ArgumentError as error:
        error.notes.append(f"this is the type given for {name!r}")
        raise
    return Constant(1) if known.one else known


def _described(name: str, block: tuple[int, ...], padding: Padding) -> DescriptorParts:
    element = parse_type(name)
    assert isinstance(element, Scalar), "the spelling has no stars"
    descriptor_type(element, block, padding, spell_descriptor(name, block, padding))
    return described_leaf(element, block, padding)
