"""`tile.torch.override`: replace the implementation of an operator of PyTorch on a device."""

from __future__ import annotations

import difflib
import inspect
import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import _pytree

from tile.errors import ArgumentTypeError, ArgumentValueError
from tile.short_repr import short_repr
from tile.tracebacks import public_function

DISPATCH_KEYS = {"cpu": "CPU", "cuda": "CUDA"}  # by the kind of device
COMPOSITE = "CompositeImplicitAutograd"


class Override:
    """An operator of PyTorch that another function implements, until `remove` is called.

    The end of a `with` block calls `remove`. Several overrides of an operator can be active: the
    latest one is called.
    """

    def __init__(
        self, operator: Any, function: Callable[..., Any], device: str, check: bool = True
    ) -> None:
        """Call `function` for an operator's overload on a kind of device.

        check: compare shapes and types of the first result with PyTorch's.
        """
        self.operator = operator
        self.function = function
        self.device = device
        self._checked = not check
        namespace, name = operator._schema.name.split("::")
        if operator._overloadname != "default":
            name = f"{name}.{operator._overloadname}"
        self._library: Any = torch.library.Library(namespace, "IMPL")
        with warnings.catch_warnings():  # PyTorch warns that there is an implementation
            warnings.simplefilter("ignore", UserWarning)
            self._library.impl(name, self._call, DISPATCH_KEYS[device], allow_override=True)

    def remove(self) -> None:
        """Let PyTorch call what it called before. Do nothing if that is done."""
        if self._library is not None:
            self._library._destroy()
            self._library = None

    def _call(self, *args: Any, **kwargs: Any) -> Any:
        result = self.function(*args, **kwargs)
        if not self._checked:
            self._check(args, kwargs, result)
            self._checked = True
        return result

    def _check(self, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        """Raise `ArgumentValueError` if a result has not the shape and type of PyTorch's."""
        difference = difference_of(self.operator, args, kwargs, result)
        if difference is not None:
            raise ArgumentValueError(f"the override of {self.operator._schema.name} {difference}")

    def __enter__(self) -> Override:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def __repr__(self) -> str:
        state = "removed" if self._library is None else f"on {self.device}"
        return f"<override of {self.operator._schema.name} {state}>"


def difference_of(
    operator: Any, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any
) -> str | None:
    """Return how shapes and types of a call's result differ from PyTorch's; None if equal."""
    try:
        expected = operator(*_without_memory(args), **_without_memory(kwargs))
    except NotImplementedError:  # PyTorch computes these shapes from data
        return None
    pairs = zip(_pytree.tree_leaves(result), _pytree.tree_leaves(expected), strict=False)
    for got, wanted in pairs:
        if isinstance(wanted, torch.Tensor) and _described(got) != _described(wanted):
            return (
                f"returned {_described(got)}, and PyTorch's operator returns {_described(wanted)}"
            )
    return None


def _without_memory(tree: Any) -> Any:
    """Return nested arguments with tensors that have no memory in place of those that have."""
    return _pytree.tree_map(
        lambda value: value.to("meta") if isinstance(value, torch.Tensor) else value, tree
    )


def _described(value: Any) -> str:
    if not isinstance(value, torch.Tensor):
        return f"a {type(value).__name__}"
    return f"{value.dtype} of shape {list(value.shape)}"


@public_function
def override(name: str, function: Callable[..., Any], device: str | None = None) -> Override:
    """Let a function compute an operator of PyTorch for tensors on a device. Autograd is kept.

    name: the operator, with its overload if it is not the default one: `"aten::gelu"`,
        `"aten::add.Tensor"`.
    function: takes the operator's arguments, and returns new tensors of the shapes and types that
        PyTorch's own has, which is checked at its first call. It may not call the operator itself.
    device: the kind of device, "cpu" or "cuda"; by default "cuda" where PyTorch has one.

    All of the program's calls go there: `torch.sin(x)`, `x.sin()`, modules, and the backward of
    other operators. The gradient is PyTorch's formula. TorchInductor generates code of its own for
    most of PyTorch's operators, and calls no override.

        tile.torch.override("aten::sin", sin)           # for the rest of the program
        with tile.torch.override("aten::sin", sin): ... # or for a while

    Raises `ArgumentError` for an operator that does not exist, that PyTorch composes of others, or
    whose arguments the function does not take.
    """
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    if device not in DISPATCH_KEYS:
        kinds = " or ".join(map(repr, DISPATCH_KEYS))
        raise ArgumentValueError(f"override takes the kind of a device, {kinds}, not {device!r}")
    operator = overload_of(name)
    parts = _composed_of(operator)
    if parts is not None:
        raise ArgumentValueError(
            f"PyTorch composes {name} of other operators, so that an override would lose its "
            f"gradient; override these instead{parts}"
        )
    _check_signature(operator, function)
    return Override(operator, function, device)


def overload_of(name: Any) -> Any:
    """Return the overload of an operator by its name, or raise `ArgumentValueError`."""
    namespace, separator, rest = name.partition("::") if isinstance(name, str) else ("", "", "")
    base, _, overload = rest.partition(".")
    if not separator or not base:
        raise ArgumentValueError(f'an operator is named as "aten::gelu", not {short_repr(name)}')
    packet = getattr(getattr(torch.ops, namespace), base, None)
    if packet is None:
        names = {s.partition("::")[2] for s in torch._C._dispatch_get_all_op_names()}
        near = difflib.get_close_matches(base, names, n=1)
        hint = f"; did you mean {namespace}::{near[0].partition('.')[0]}?" if near else ""
        raise ArgumentValueError(f"PyTorch has no operator {namespace}::{base}{hint}")
    operator = getattr(packet, overload or "default", None)
    if operator is None:
        overloads = ", ".join(f"{namespace}::{base}.{one}" for one in packet.overloads())
        raise ArgumentValueError(f"{name} is not one of {overloads}")
    return operator


def _composed_of(operator: Any) -> str | None:
    """Return a hint at the parts of a composed operator; None for an operator that is not one."""
    name = operator.name()
    if not torch._C._dispatch_has_kernel_for_dispatch_key(name, COMPOSITE):
        return None
    part = f"_{operator._opname}"
    return f", such as aten::{part}" if hasattr(torch.ops.aten, part) else ""


def _check_signature(operator: Any, function: Callable[..., Any]) -> None:
    """Raise `ArgumentTypeError` if a function does not take the arguments of an operator."""
    arguments = operator._schema.arguments
    positional = [None for argument in arguments if not argument.kwarg_only]
    named = {argument.name: None for argument in arguments if argument.kwarg_only}
    try:
        inspect.signature(function).bind(*positional, **named)
    except TypeError as error:
        raise ArgumentTypeError(
            f"the function does not take the arguments of {operator._schema}: {error}"
        ) from error
    except ValueError:  # a function of C++ without a signature
        return
