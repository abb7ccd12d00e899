"""Type annotations of kernel parameters.

    n: tl.int64     n: "i64"     f: "tl.float16"     x: tl.pointer_type(tl.float32)     x: "*fp32"
    f: float (fp32)              flag: bool (i1)     n: np.int64

    BM: tl.constexpr     BM: Annotated[tl.constexpr, (32, ..., 128)], with values to tune among

Such an annotation is the type of the parameter, whatever number is passed. Others, such as
`torch.Tensor` or `int`, have no effect: the argument decides. Annotations that are text, also by
`from __future__ import annotations`, are evaluated in the namespace of the kernel's definition.
"""

from __future__ import annotations

import inspect
from typing import Annotated, Any, get_origin

import numpy as np

from tile.errors import ArgumentError, ArgumentTypeError
from tile.frontend.python.source import REQUIRED, DeviceFunction, Parameter
from tile.ir.numpy_dtypes import SCALAR_OF_DTYPE
from tile.ir.types import ALIASES, F32, I1, Pointer, Scalar
from tile.runtime.signature import SYNONYMS, parse_type

CONST = "const "
# Errors of annotations that use names imported only for type checkers, or that are not Python.
UNREADABLE = (NameError, AttributeError, LookupError, SyntaxError, TypeError, ValueError)


def annotated_type(function: DeviceFunction, parameter: Parameter) -> Scalar | Pointer | None:
    """Return the type that a parameter is annotated with, or None if there is none.

    Raises `ArgumentTypeError` for text that begins like a type but is not one.
    """
    annotation = parameter.annotation
    if annotation is REQUIRED or parameter.is_constexpr:
        return None
    if isinstance(annotation, str):
        return _of_text(function, parameter, annotation)
    return _of_object(annotation)


def annotated_values(function: DeviceFunction, parameter: Parameter) -> Any:
    """Return the values of a constant to tune among: `BM: Annotated[tl.constexpr, (16, ..., 64)]`.

    None if its annotation has none.
    """
    annotation = parameter.annotation
    if not parameter.is_constexpr or annotation is REQUIRED:
        return None
    if isinstance(annotation, str):
        _, annotation = _evaluated(function, annotation.strip().strip("\"'"))
    return annotation.__metadata__[0] if get_origin(annotation) is Annotated else None


def _of_object(annotation: Any) -> Scalar | Pointer | None:
    if isinstance(annotation, Scalar | Pointer):
        return annotation
    if annotation is float:
        return F32
    if annotation is bool:
        return I1
    if isinstance(annotation, type) and issubclass(annotation, np.generic):
        return _of_numpy(annotation)
    return None


def _of_numpy(kind: type[np.generic]) -> Scalar | None:
    try:
        return SCALAR_OF_DTYPE.get(np.dtype(kind))
    except TypeError:
        return None


def _of_text(
    function: DeviceFunction, parameter: Parameter, annotation: str
) -> Scalar | Pointer | None:
    text = annotation.strip().strip("\"'").removeprefix(CONST).strip()
    if text.startswith("*k"):
        text = "*" + text[2:]
    name = text.lstrip("*").removeprefix("tl.")
    stars = "*" * (len(text) - len(text.lstrip("*")))
    if name in ALIASES or name in SYNONYMS:
        return parse_type(stars + name)
    evaluates, value = (False, None) if stars else _evaluated(function, text)
    if evaluates:
        return None if isinstance(value, str) else _of_object(value)
    if stars or text.startswith("tl."):
        raise _no_type(function, parameter, annotation, stars + name)
    return None


def _evaluated(function: DeviceFunction, text: str) -> tuple[bool, Any]:
    """Return whether an expression evaluates in the function's namespace, and its value."""
    closure = inspect.getclosurevars(function.fn).nonlocals
    try:
        return True, eval(text, dict(function.fn.__globals__), dict(closure))
    except UNREADABLE:
        return False, None


def _no_type(
    function: DeviceFunction, parameter: Parameter, annotation: str, spelling: str
) -> ArgumentTypeError:
    try:
        parse_type(spelling)
        reason = "a parameter cannot have this type"
    except ArgumentError as error:
        reason = error.message
    return ArgumentTypeError(
        f"parameter {parameter.name!r} of {function.name}() is annotated {annotation!r}: {reason}"
    )
