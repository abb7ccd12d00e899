"""Bind a call's arguments to parameters, and pack them for a launch.

Binding separates the launch options from the arguments. Packing turns adapted arguments into
arrays, and NumPy scalars of the parameters' types.
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tile.backends.base import Options
from tile.errors import ArgumentTypeError, ArgumentValueError
from tile.frontend.python.source import REQUIRED, Parameter, spell_parameters
from tile.ir.numpy_dtypes import numpy_dtype
from tile.ir.types import F32, Kind, Pointer, Scalar
from tile.language.base.tensor import DescriptorParts
from tile.runtime.arguments.adapt import MockArray, adapt
from tile.runtime.arguments.device_arrays import DeviceArray, PointerArray
from tile.runtime.signature import ParameterType, Path, spell_type
from tile.runtime.specialize import (
    Constant,
    Leaf,
    Rule,
    check_passable,
    runtime_key,
    spell_descriptor_leaf,
)
from tile.short_repr import short_repr
from tile.tracebacks import warn

OPTIONS = Options.names()
OPTION_DEFAULTS: dict[str, Any] = dataclasses.asdict(Options())

# Options of Triton's backends, which decide nothing here: a launch with one of them warns once.
_FOREIGN = """
    allow_fp8e4nv allowed_dot_input_precisions arch backend_name clc cluster_dims
    deprecated_fp8_dot_operand_dtypes disable_line_info extern_libs
    instrumentation_mode ir_override kpack matrix_instr_nonkdim
    max_num_imprecise_acc_default num_buffers_warp_spec num_consumer_groups ptx_options ptx_version
    reg_dec_producer reg_inc_consumer sanitize_overflow schedule_hint supported_fp8_dtypes
    warp_size waves_per_eu
"""
FOREIGN_OPTIONS = frozenset(_FOREIGN.split())


class Binder:
    """Binds calls to the parameters of one kernel, like Python's calls of functions.

    Keyword arguments that are not parameters are options of the launch. A parameter with the name
    of an option (`num_warps: tl.constexpr`) receives the value, which also sets the option.
    """

    def __init__(self, name: str, parameters: Sequence[Parameter]) -> None:
        self.name = name
        self.parameters = parameters
        self.names = [p.name for p in parameters]
        self._defaults = [(p.name, p.default) for p in parameters]
        self._positional = sum(p.kind is not p.kind.KEYWORD_ONLY for p in parameters)
        self._both = [(i, p.name) for i, p in enumerate(parameters) if p.name in OPTIONS]

    def bind(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """Return the values of all parameters in order, and the options.

        Raises one `ArgumentTypeError` that lists all problems.
        """
        if len(args) > self._positional:
            raise self._error(args, kwargs)
        values, rest = list(args), dict(kwargs)
        for name, default in self._defaults[len(args) :]:
            value = rest.pop(name, default)
            if value is REQUIRED:
                raise self._error(args, kwargs)
            values.append(value)
        if not OPTIONS.issuperset(rest):
            rest = self._without_foreign(rest)
        if not OPTIONS.issuperset(rest):
            raise self._error(args, kwargs)
        for index, name in self._both:
            rest[name] = values[index]
        return values, rest

    def _without_foreign(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return the options without those of Triton that have no effect here; warn of these."""
        foreign = [name for name in options if name in FOREIGN_OPTIONS]
        if foreign:
            verb = "has" if len(foreign) == 1 else "have"
            warn(f"{quoted(foreign)} of {self.name}() {verb} no effect: tile has no such option")
        return {name: value for name, value in options.items() if name not in foreign}

    def _error(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> ArgumentTypeError:
        names = self.names
        problems = []
        if len(args) > self._positional:
            problems.append(
                f"takes {self._positional} positional arguments, and {len(args)} were given"
            )
        twice = [name for name in names[: len(args)] if name in kwargs and name not in OPTIONS]
        if twice:
            problems.append(f"got {quoted(twice)} twice, by position and by name")
        missing = [
            p.name for p in self.parameters[len(args) :] if p.required and p.name not in kwargs
        ]
        if missing:
            problems.append(f"is missing {quoted(missing)}")
        taken = {*names, *OPTIONS, *FOREIGN_OPTIONS}
        unknown = [name for name in kwargs if name not in taken]
        if unknown:
            problems.append(f"has no parameter {unknown_names(unknown, [*names, *OPTIONS])}")
        notes = [f"it is {spell_parameters(self.name, self.parameters)}"]
        if unknown:
            notes.append(f"options of a launch are {', '.join(sorted(OPTIONS))}")
        return ArgumentTypeError(f"{self.name}() {', '.join(problems)}", notes=notes)


def quoted(names: Sequence[str]) -> str:
    """Return `'a'`, `'a' and 'b'`, or `'a', 'b' and 'c'`; an empty string for no names."""
    words = [repr(name) for name in names]
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def unknown_names(unknown: Sequence[str], candidates: Sequence[str]) -> str:
    """Return a list of unknown names, each with the closest candidate."""
    words = []
    for name in unknown:
        near = difflib.get_close_matches(name, candidates, n=1)
        words.append(f"{name!r} (did you mean {near[0]!r}?)" if near else repr(name))
    return ", ".join(words)


def assignments(values: Mapping[str, Any]) -> str:
    """Return the text `a=1, b=2`."""
    return ", ".join(f"{name}={short_repr(value)}" for name, value in values.items())


Pack = Callable[[Any], Any]


class LaunchArgument(NamedTuple):
    """One launch argument: the index of its parameter, its label, its packer, and its path."""

    parameter: int
    label: str
    pack: Pack
    path: Path


def launch_arguments_of(
    parameter: int, name: str, leaf: Leaf, items: Path = ()
) -> Iterator[LaunchArgument]:
    """Yield the launch arguments of one parameter: none for a constant, several for a tuple."""
    if isinstance(leaf, ParameterType):
        yield LaunchArgument(parameter, name, _packer(leaf.type, name), (parameter, *items))
    elif isinstance(leaf, tuple):
        for index, part in enumerate(leaf):
            label = f"{name}[{index}]"
            for argument in launch_arguments_of(parameter, label, part, (*items, index)):
                yield argument._replace(pack=functools.partial(_pack_item, argument.pack, index))


def _pack_item(pack: Pack, index: int, values: tuple[Any, ...]) -> Any:
    return pack(values[index])


def _packer(ty: Scalar | Pointer, name: str) -> Pack:
    if isinstance(ty, Pointer):
        return _memory
    check_passable(ty, name)
    if ty == F32:
        return _float32
    number = numpy_dtype(ty).type
    return functools.partial(_rounded, number) if ty.is_floating() else number


def _memory(value: Any) -> Any:
    if type(value) is MockArray:
        raise ArgumentTypeError(
            f"{short_repr(value)} stands for an array in kernel.warmup; a launch needs an array"
        )
    return value


def _rounded(number: Callable[[Any], Any], value: Any) -> Any:
    # Overflow gives infinity, as in the conversion of a wider float; do not warn.
    with np.errstate(over="ignore"):
        return number(value)


_F32_MAX = float(np.finfo(np.float32).max)


def _float32(value: Any) -> Any:
    number = float(value)  # NumPy would compare an np.float16 in 16 bits
    return np.float32(number) if -_F32_MAX <= number <= _F32_MAX else _rounded(np.float32, number)


def writeable(array: Any) -> bool:
    """Return True if a kernel may write to an array and to the arrays that it points to."""
    if type(array) is DeviceArray:
        return array.writeable
    targets = array.targets if isinstance(array, PointerArray) else ()
    return bool(array.flags.writeable) and all(map(writeable, targets))


# -- arguments of a kernel that was compiled ahead of time


def fit(value: Any, leaf: Leaf, label: str) -> Any:
    """Return `value`, adapted, if it matches the type for which a kernel was compiled.

    Numbers match any type of their kind that can represent them, and integers any float. Raises
    `ArgumentTypeError` for another type, and `ArgumentValueError` for a value that is out of range
    or lacks the divisibility of the type.
    """
    if isinstance(leaf, Constant):
        return leaf.value
    if isinstance(leaf, DescriptorParts):
        value = _fit_descriptor(value, leaf, label)
    if isinstance(leaf, ParameterType):
        fitting = _fit_pointer if isinstance(leaf.type, Pointer) else _fit_number
        return fitting(adapt(value, label), leaf, label)
    if not isinstance(value, tuple) or len(value) != len(leaf):
        raise ArgumentTypeError(
            f"{label} is {short_repr(value)}, and the kernel was compiled for a tuple of "
            f"{len(leaf)}"
        )
    parts = enumerate(zip(value, leaf, strict=True))
    return tuple(fit(item, part, f"item {i} of {label}") for i, (item, part) in parts)


def _fit_descriptor(value: Any, leaf: DescriptorParts, label: str) -> DescriptorParts:
    """Return the parts of a descriptor, whose block and padding must match the kernel's."""
    parts = adapt(value, label)
    expected = spell_descriptor_leaf(leaf)
    if not isinstance(parts, DescriptorParts):
        raise ArgumentTypeError(
            f"{label} is {_description(value)}, and the kernel was compiled for {expected}"
        )
    block, padding = parts.block_shape.value, parts.padding.value
    if (block, padding) != (leaf.block_shape.value, leaf.padding.value):
        raise ArgumentValueError(
            f"{label} has blocks of shape {list(block)} and {padding} outside the array, and the "
            f"kernel was compiled for {expected}"
        )
    return parts


def _fit_pointer(value: Any, expected: ParameterType, label: str) -> Any:
    key = runtime_key(value, Rule(label, ones=False))
    plain = spell_type(expected.type)
    if key not in (plain, str(ParameterType(expected.type, 16))):
        raise ArgumentTypeError(f"{label} is {_description(value)}, {_compiled_for(expected)}")
    if expected.divisible > 1 and key == plain:
        raise ArgumentValueError(
            f"{label} lies at an address that is not divisible by {expected.divisible}, "
            f"{_compiled_for(expected)}"
        )
    return value


def _fit_number(value: Any, expected: ParameterType, label: str) -> Any:
    ty = expected.type
    assert isinstance(ty, Scalar)
    number = value.item() if isinstance(value, np.generic) else value
    if type(number) not in _NUMBERS[ty.kind]:
        raise ArgumentTypeError(f"{label} is {_description(value)}, {_compiled_for(expected)}")
    if ty.kind is Kind.INT and not ty.min_value <= number <= ty.max_value:
        raise ArgumentValueError(
            f"{label} is {number}, {_compiled_for(expected)}, which holds {ty.min_value} to "
            f"{ty.max_value}"
        )
    if expected.divisible > 1 and number % expected.divisible:
        raise ArgumentValueError(
            f"{label} is {number}, {_compiled_for(expected)}: a multiple of {expected.divisible}"
        )
    return number


_NUMBERS: dict[Kind, tuple[type, ...]] = {
    Kind.BOOL: (bool,),
    Kind.INT: (int,),
    Kind.FLOAT: (int, float),
}


def _description(value: Any) -> str:
    is_array = isinstance(value, np.ndarray | DeviceArray)
    return f"an array of {value.dtype}" if is_array else repr(value)


def _compiled_for(expected: ParameterType) -> str:
    return f"and the kernel was compiled for {expected}"
