"""Arguments, grids and targets of kernels on command lines.

The arrays of a command line are drawn in order from one random generator. The rest is for users.

arguments of a kernel, for `tile compile`, `tile explain` and `tile check`:
  n=781  scale=0.5  CAUSAL=true  a number or constant; false, none
  x=fp32[1823,781]               an array of random numbers (integers: 0 to 99)
  y=i32[64]:0                    an array filled with a number
  d=fp16[300,200]/64,32          a descriptor of an array, with blocks of 64 x 32, and zeros out of
                                 bounds; NaNs with /64,32,nan
  x=*fp32:16  n=i32              a type, for `tile compile` only, which runs nothing: fp32, i32 and
                                 so on, with a * for a pointer; :16 is an address or number that is
                                 divisible by 16, which makes faster code, :noalias at its end
                                 memory that is not written through another pointer, and :aliased
                                 memory that may be. A descriptor's type is tensordesc<fp16[64,32]>,
                                 a tuple's (i32, i64)
`tile compile` takes a value for what a launch with that value is specialized for: an array for a
pointer (*fp32:16), 784 for i32:16, and 1 for the constant 1.
"""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from tile import backends
from tile.backends.base import Target
from tile.errors import ArgumentError, ArgumentTypeError, ArgumentValueError
from tile.frontend.python.source import Parameter
from tile.ir import semantics
from tile.ir.descriptor_type import Padding
from tile.ir.types import ALIASES, Scalar
from tile.runtime.arguments.tensor_descriptor import ALIGNMENT, TensorDescriptor, signature_parts
from tile.runtime.grid import cdiv
from tile.runtime.jit import JITFunction
from tile.runtime.signature import parse_signature_type
from tile.simt.target import TARGETS

HELP = (__doc__ or "").split("\n\n", 2)[2]

_ARRAY = re.compile(
    r"(?P<type>\w+)\[(?P<shape>[\d,\s]+)\](?::(?P<fill>[^\s/]+))?"
    r"(?:/(?P<block>\d+(?:,\d+)*)(?:,(?P<padding>[a-z]+))?)?"
)
_KEYWORDS = {"true": True, "false": False, "none": None}
_SEPARATOR = re.compile(r",(?![^\[<(]*[\]>)])")  # commas that are not inside a type


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the kernel and its arguments, and the text that describes them, to a parser."""
    parser.add_argument("kernel", help="file.py:function, or file.tc:function of a Triton-C file")
    parser.add_argument("arguments", nargs="*", metavar="NAME=VALUE", help="the kernel's arguments")
    add_define(parser)
    parser.epilog = HELP


def add_define(parser: argparse.ArgumentParser) -> None:
    """Add the option for the host's values of a Triton-C file."""
    parser.add_argument(
        "-D",
        "--define",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a value that the host statements of a Triton-C file name; arrays as for arguments",
    )


def parse_arguments(texts: Sequence[str], seed: int = 0) -> dict[str, Any]:
    """Return the values by name, for a kernel that is run.

    Raises `ArgumentValueError` for text that cannot be parsed, and for types.
    """
    random = np.random.default_rng(seed)
    arguments = {}
    for name, text in map(_split, texts):
        try:
            arguments[name] = _value(name, text, random)
        except ArgumentValueError as error:
            if not is_type(text):
                raise
            raise ArgumentValueError(
                f"{name}={text} is a type, and the kernel runs with values: an array such as "
                "fp32[64,64], or a number"
            ) from error
    return arguments


def parse_signature(
    function: JITFunction[..., Any], texts: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the types and the constants by name, as `tile.compile` takes them.

    A type is taken as it is, an argument of a runtime parameter for the type that a launch with it
    is specialized for. Raises `ArgumentValueError` for text that cannot be parsed.
    """
    named = list(map(_split, texts))
    types = {name: text for name, text in named if is_type(text)}
    values = parse_arguments([f"{name}={text}" for name, text in named if name not in types])
    types |= function.specialize(values)
    return types, {name: value for name, value in values.items() if name not in types}


def _split(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.isidentifier():
        notes = ["options come before the kernel"] if text.startswith("-") else []
        raise ArgumentValueError(
            f"an argument is given as in name=value, not {text!r}", notes=notes
        )
    return name, value


def is_type(text: str) -> bool:
    """Return True if an argument is the text of a type."""
    if text.startswith("(") and text.endswith(")"):
        return True
    try:
        return bool(signature_parts(text) or parse_signature_type(text))
    except ArgumentError:
        return text.startswith("*")  # a wrong type, which `tile.compile` explains


def parse_types(
    text: str, parameters: Sequence[Parameter], constants: Sequence[str]
) -> dict[str, str]:
    """Return the types by parameter of `tile compile --signature`, a list with commas.

    Types without names belong to the parameters that are not constants, in order. Raises
    `ArgumentTypeError` for more types than parameters, or if only some types have names.
    """
    types = [ty.strip() for ty in _SEPARATOR.split(text) if ty.strip()]
    constant_names = {constant.partition("=")[0] for constant in constants}
    if any("=" in ty for ty in types):
        return dict(_named_type(ty) for ty in types)
    names = [p.name for p in parameters if not p.is_constexpr and p.name not in constant_names]
    if len(types) > len(names):
        raise ArgumentTypeError(
            f"the signature has {len(types)} types, and the kernel {len(names)} parameters "
            f"that are not constants: {', '.join(names)}"
        )
    return dict(zip(names, types, strict=False))


def _named_type(text: str) -> tuple[str, str]:
    name, equals, ty = (part.strip() for part in text.partition("="))
    if not equals:
        raise ArgumentTypeError(f"a signature has names for all types or for none, not {text!r}")
    return name, ty


def parse_target(text: str) -> Target:
    """Return a target by its name, or by its architecture alone.

    `mma` and other names of simulated machines are the interpreter's, any other architecture, as
    in `sm_90a`, is one of NVIDIA's. Raises `ArgumentValueError` for a backend alone: only a launch
    determines its architecture.
    """
    if text in TARGETS:
        return Target("interp", text)
    backend, colon, _ = text.partition(":")
    target = Target.parse(text if colon or backend in backends.names() else f"nvptx:{text}")
    backends.require(target.backend)
    if not target.arch:
        raise ArgumentValueError(
            f"--target {text} has no architecture; name one, as in sm_90a, nvptx:sm_80 or "
            "opencl:generic"
        )
    return target


def _value(name: str, text: str, random: np.random.Generator) -> Any:
    match = _ARRAY.fullmatch(text)
    if match is None:
        return parse_constant(name, text)
    shape = tuple(int(extent) for extent in match["shape"].split(",") if extent.strip())
    array = _array(name, match["type"], shape, match["fill"], random)
    if match["block"] is None:
        return array
    block = [int(extent) for extent in match["block"].split(",")]
    padding = match["padding"] or Padding.ZERO.value
    return TensorDescriptor.from_tensor(_with_aligned_rows(array), block, padding)


def _with_aligned_rows(array: Any) -> Any:
    """Return a copy of an array whose base address and rows have the alignment of descriptors."""
    step = ALIGNMENT // array.itemsize
    *outer, columns = array.shape
    pitch = -(-columns // step) * step
    memory = np.zeros(math.prod(outer) * pitch + step, array.dtype)
    first = -memory.ctypes.data % ALIGNMENT // array.itemsize
    rows = memory[first : first + math.prod(outer) * pitch].reshape(*outer, pitch)
    rows[..., :columns] = array
    return rows[..., :columns]


def parse_constant(name: str, text: str) -> Any:
    """Return a number, True, False or None. Raises `ArgumentValueError` for other text."""
    if text.lower() in _KEYWORDS:
        return _KEYWORDS[text.lower()]
    for parse in (int, float):
        try:
            return parse(text)
        except ValueError:
            continue
    raise ArgumentValueError(
        f"{name} is a number, true, false, none, an array such as fp32[64,64] or a descriptor "
        f"such as fp32[64,64]/16,32, not {text!r}"
    )


def parse_grid(text: str) -> Any:
    """Return a grid: extents, as in 8 or 4,2, or a function of the arguments, as in cdiv(n, BLOCK).

    Raises `ArgumentValueError` for text that is not an expression; so does the function if
    evaluating the expression fails.
    """
    try:
        return tuple(int(extent) for extent in text.split(","))
    except ValueError:
        pass
    try:
        code = compile(text, "--grid", "eval")
    except SyntaxError as error:
        raise ArgumentValueError(
            f"a grid is as in 8, 4,2 or cdiv(n, BLOCK), not {text!r}: {error.msg}"
        ) from None

    def grid(meta: dict[str, Any]) -> Any:
        try:
            return eval(code, {"__builtins__": {}, "cdiv": cdiv}, meta)
        except (NameError, TypeError, ArithmeticError) as error:
            raise ArgumentValueError(f"the grid {text} has no value: {error}") from error

    return grid


def _array(
    name: str, alias: str, shape: tuple[int, ...], fill: str | None, random: np.random.Generator
) -> Any:
    element = ALIASES.get(alias)
    if not isinstance(element, Scalar):
        raise ArgumentValueError(f"{name} has elements of {', '.join(ALIASES)}, not {alias!r}")
    dtype = semantics.numpy_dtype(element)
    if fill is not None:
        try:
            filled = np.full(shape, float(fill))
        except ValueError:
            raise ArgumentValueError(f"{name} is filled with a number, not {fill!r}") from None
        return _floats(filled, element) if element.is_floating() else filled.astype(dtype)
    if element.is_floating():
        return _floats(random.standard_normal(shape), element)
    return (
        random.integers(0, 2 if element.is_bool() else 100, math.prod(shape))
        .reshape(shape)
        .astype(dtype)
    )


def _floats(values: Any, element: Scalar) -> Any:
    """Return f64 numbers rounded to the elements of a float type."""
    with semantics.quiet():
        return semantics.cast(values, element)
