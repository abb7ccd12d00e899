"""`tile.torch.op`: operators of PyTorch that launch kernels.

The first call of an operator's function compares what its kernels write with `mutates_args`.
Kernels know from their IR what they write. PyTorch relies on what an operator declares: with less,
compiled graphs reorder the operator or drop it, and autograd uses overwritten values.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import torch
from torch import Tensor
from torch._C import (
    _after_ADInplaceOrView_keyset,
    _after_autograd_keyset,
    _any_requires_grad,
    _AutoDispatchBelowADInplaceOrView,
    _AutoDispatchBelowAutograd,
)

from tile.errors import ArgumentError, ArgumentTypeError, ArgumentValueError
from tile.runtime.arguments.adapt import adapt
from tile.runtime.arguments.overlap import may_overlap
from tile.runtime.arguments.tensor_descriptor import TensorDescriptor
from tile.runtime.callbacks import LaunchEvent, on_launch
from tile.runtime.launch_hooks import NoLaunches, active_observer
from tile.short_repr import short_repr
from tile.torch.launches import NAMESPACE, define
from tile.tracebacks import public_function


class FirstCall:
    """The function of an operator, whose first call is checked."""

    def __init__(
        self, name: str, function: Callable[..., Any], mutates_args: Sequence[str]
    ) -> None:
        self.name = name
        self.function = function
        self.mutates_args = frozenset(mutates_args)
        self._call: Callable[..., Any] = self._checked

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(*args, **kwargs)

    def _checked(self, *args: Any, **kwargs: Any) -> Any:
        named = inspect.signature(self.function).bind(*args, **kwargs).arguments
        written: list[Any] = []

        def record(event: LaunchEvent) -> None:
            for parameter in event.kernel.written:
                written.extend(memories(event.arguments.get(parameter)))

        with on_launch(record):
            result = self.function(*args, **kwargs)
        undeclared = self._undeclared(named, written)
        if undeclared:
            every = sorted({*undeclared, *self.mutates_args})
            raise ArgumentValueError(
                f"a kernel of {self.name} writes {', '.join(undeclared)}; declare it: "
                f"mutates_args={every}"
            )
        self._call = self.function
        return result

    def _undeclared(self, named: Mapping[str, Any], written: Sequence[Any]) -> list[str]:
        """Return the arguments that only undeclared writes can have reached.

        Address ranges of views of one tensor may overlap though no element is in both.
        """
        declared = [one for name in self.mutates_args for one in memories(named.get(name))]
        others = [one for one in written if not any(may_overlap(one, d) for d in declared)]
        return [
            name
            for name, value in named.items()
            if others
            and any(may_overlap(one, other) for one in memories(value) for other in others)
        ]


def memories(value: Any) -> Iterator[Any]:
    """Yield the arrays of the tensors in an argument that kernels can take."""
    if isinstance(value, Tensor):
        with suppress(ArgumentError):
            yield adapt(value, "an argument")
    elif isinstance(value, TensorDescriptor):
        yield from memories(value.base)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from memories(item)


RESERVED = frozenset({"aten", "prim", "prims", NAMESPACE})  # namespaces of others' operators

Function = Callable[..., Any]


class _Libraries:
    """The libraries that define operators, by the operator's name."""

    def __init__(self) -> None:
        self._libraries: dict[str, Any] = {}

    def new(self, namespace: str, name: str) -> Any:
        """Return an empty library for an operator; an earlier definition of it is removed.

        So a cell of a notebook can run again.
        """
        earlier = self._libraries.pop(f"{namespace}::{name}", None)
        if earlier is not None:
            earlier._destroy()
        library = torch.library.Library(namespace, "FRAGMENT")
        self._libraries[f"{namespace}::{name}"] = library
        return library


_LIBRARIES = _Libraries()


@public_function
def op(
    name: str,
    *,
    backward: Function | None = None,
    setup_context: Function | None = None,
    fake: Function | None = None,
    mutates_args: Sequence[str] = (),
    elementwise: bool = False,
) -> Callable[[Function], Any]:
    """Make a function that launches kernels an operator of PyTorch. Use it as a decorator.

    name: `"namespace::name"`. The decorated function becomes `torch.ops.namespace.name.default`,
        whose schema comes from the function's annotations.
    backward: `backward(ctx, *grads)` returns the gradient of each argument, as that of a
        `torch.autograd.Function`; it calls operators, not kernels. `ctx.saved_tensors` has the
        tensors among the arguments, in order.
    setup_context: `setup_context(ctx, inputs, output)` saves other values for `backward`.
    fake: returns empty tensors of the results' shapes. By default the function itself is called,
        and its launches do nothing.
    mutates_args: the names of the arguments that the function writes; these have no gradient. The
        first call raises `ArgumentValueError` if a kernel writes another one.
    elementwise: each element of the results depends on the same elements of the arguments alone.
        Then `torch.vmap` calls the operator once, on the whole batch.

    The results are new tensors, neither arguments nor views of them. A second definition replaces
    the first. Raises `ArgumentError` for names and annotations that PyTorch does not accept.

        @tile.torch.op("mine::sin", backward=lambda ctx, grad: grad * ctx.saved_tensors[0].cos())
        def sin(x: torch.Tensor) -> torch.Tensor:
            out = torch.empty_like(x)
            sin_kernel[tile.cdiv(x.numel(), 1024),](x, out, x.numel(), BLOCK=1024)
            return out
    """
    namespace, base = _split(name)
    if isinstance(mutates_args, str):
        raise ArgumentTypeError(f"mutates_args of {name} is a list of names of arguments")
    if mutates_args and (backward is not None or elementwise):
        raise ArgumentValueError(
            f"{name} writes {', '.join(mutates_args)}; only an operator that writes none of its "
            "arguments can have a backward or be elementwise"
        )

    @public_function
    def decorate(function: Function) -> Any:
        schema = _schema(name, function, mutates_args)
        library = _LIBRARIES.new(namespace, base)
        shapes = without_launches(function) if fake is None else fake
        checked = FirstCall(name, function, mutates_args)
        operator = define(library, f"{base}{schema}", checked, shapes)
        if mutates_args:
            _track_writes(library, operator)
        else:
            _differentiate(library, name, backward, setup_context)
        if elementwise:
            torch.library.register_vmap(name, _batched(operator), lib=library)
        return operator

    return decorate


def _split(name: Any) -> tuple[str, str]:
    namespace, separator, base = name.partition("::") if isinstance(name, str) else ("", "", "")
    if not (separator and namespace.isidentifier() and base.isidentifier()):
        raise ArgumentValueError(
            f'the name of an operator is "namespace::name", not {short_repr(name)}'
        )
    if namespace in RESERVED:
        raise ArgumentValueError(
            f"{name} is in the namespace of others; use one of your own, or tile.torch.override to "
            "replace an operator of PyTorch"
        )
    return namespace, base


def _schema(name: str, function: Function, mutates_args: Sequence[str]) -> str:
    try:
        return str(torch.library.infer_schema(function, mutates_args=tuple(mutates_args)))
    except ValueError as error:
        raise ArgumentTypeError(f"the function of {name} cannot be an operator: {error}") from error


def without_launches(function: Function) -> Function:
    """Return a function that does the same but for launches, for tensors without memory."""

    @functools.wraps(function)
    def fake(*args: Any, **kwargs: Any) -> Any:
        with active_observer.scope(NoLaunches()):
            return function(*args, **kwargs)

    return fake


# -- autograd


def _differentiate(
    library: Any, name: str, backward: Function | None, setup_context: Function | None
) -> None:
    """Register the gradient, or without one an error when it is computed."""
    if backward is None:

        def backward(ctx: Any, *grads: Any) -> Any:
            raise ArgumentValueError(
                f"{name} has no gradient: pass backward= to tile.torch.op, or detach its arguments"
            )

        setup_context = _save_nothing
    torch.library.register_autograd(
        name, backward, setup_context=setup_context or _save_tensors, lib=library
    )


def _save_nothing(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    return None


def _save_tensors(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(*[value for value in inputs if isinstance(value, Tensor)])


def _track_writes(library: Any, operator: Any) -> None:
    """Let autograd see what an operator writes, and refuse tensors that require a gradient."""
    arguments = operator._schema.arguments
    written = [
        i
        for i, argument in enumerate(arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]

    def autograd(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        if torch.is_grad_enabled() and _any_requires_grad(*args, **kwargs):
            raise ArgumentValueError(
                f"{operator._schema.name} writes {', '.join(arguments[i].name for i in written)}, "
                "so it has no gradient, and an argument requires one; call it under "
                "torch.no_grad(), or pass detached tensors"
            )
        with _AutoDispatchBelowAutograd():
            return operator.redispatch(keyset & _after_autograd_keyset, *args, **kwargs)

    def count_versions(keyset: Any, *args: Any, **kwargs: Any) -> Any:
        tensors = [args[i] if i < len(args) else kwargs[arguments[i].name] for i in written]
        torch.autograd.graph.increment_version(tensors)
        with _AutoDispatchBelowADInplaceOrView():
            return operator.redispatch(keyset & _after_ADInplaceOrView_keyset, *args, **kwargs)

    name = operator._schema.name.partition("::")[2]
    library.impl(name, autograd, "Autograd", with_keyset=True)
    library.impl(name, count_versions, "ADInplaceOrView", with_keyset=True)


# -- vmap


def _batched(operator: Any) -> Function:
    """Return the rule of `torch.vmap` for an elementwise operator."""

    def batched(info: Any, in_dims: Sequence[int | None], *args: Any, **kwargs: Any) -> Any:
        pairs = list(zip(args, in_dims, strict=True))
        rank = max(arg.dim() - (dim is not None) for arg, dim in pairs if isinstance(arg, Tensor))
        values = [
            _with_batch(arg, dim, info.batch_size, rank) if isinstance(arg, Tensor) else arg
            for arg, dim in pairs
        ]
        result = operator(*values, **kwargs)
        return result, tuple(0 for _ in result) if isinstance(result, tuple) else 0

    return batched


def _with_batch(tensor: Tensor, dim: int | None, size: int, rank: int) -> Tensor:
    """Return a contiguous tensor whose first axis is the batch, and which has `rank` others."""
    whole = tensor.unsqueeze(0) if dim is None else tensor.movedim(dim, 0)
    ones = [1] * (rank - whole.dim() + 1)
    shape = (size, *ones, *whole.shape[1:])
    return whole.reshape(whole.shape[0], *ones, *whole.shape[1:]).expand(shape).contiguous()
