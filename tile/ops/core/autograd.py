"""Gradients of ops for PyTorch's autograd.

    @differentiable_by("x", results="y")
    def softmax(x, *, out=None): ...

    def softmax_backward(dy, y, *, out=None): ...

A call with a tensor that requires a gradient, while PyTorch records gradients, becomes a node of
its graph. Other calls, of any arrays, cost one look at their arguments. A gradient is a function of
a step: the arguments by name, the results that it reads, the gradients of these, and the names of
the arguments whose gradients are needed. It returns these by name, from the ops that compute them.
`differentiable_by` makes one from the parameters of the op that computes the gradients.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, cast

from tile._lazy import lazy_import
from tile.errors import ArgumentValueError
from tile.tracebacks import trim

if TYPE_CHECKING:
    from tile.torch.gradients import Gradient, differentiate
else:
    differentiate = lazy_import("tile.torch.gradients", "differentiate")  # it imports torch
    Gradient = Any

NOTHING: Mapping[str, tuple[Any, ...]] = MappingProxyType({})
# Positions of results, or a function of the arguments that returns them.
Positions = Sequence[int] | Callable[[Mapping[str, Any]], Sequence[int]]

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


def differentiable(
    gradient: Gradient,
    results: int = 1,
    without: Mapping[str, tuple[Any, ...]] = NOTHING,
    recording: Mapping[str, Any] = NOTHING,
    returned: int = 1,
    reads: Positions = (),
) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Return a decorator that gives an op a gradient in PyTorch's autograd.

    results: so many results, the first, have gradients. without: by argument, the values with
    which the op has none. recording: arguments of calls that are recorded, which make results that
    the gradient needs; a caller that did not pass them gets the first results, `returned` many.
    reads: the results that the gradient reads, which autograd stores until then; others are None in
    its step, so that their memory is free when the caller drops them.
    """

    def decorate(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        signature = inspect.signature(function)

        @functools.wraps(function)
        def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
            try:
                if not _recorded(args, kwargs):
                    return function(*args, **kwargs)
                arguments = signature.bind(*args, **kwargs).arguments
                if arguments.get("out") is not None:
                    raise ArgumentValueError(
                        f"{function.__name__}: `out` is given, and an argument requires a "
                        "gradient; autograd needs a new result"
                    )
                for name, values in without.items():
                    if arguments.get(name) in values:
                        raise ArgumentValueError(
                            f"{function.__name__}: `{name}` = {arguments[name]!r} has no gradient, "
                            "and an argument requires one"
                        )
                positions = reads(arguments) if callable(reads) else reads
                result = differentiate(
                    *(function, gradient, results, positions), {**arguments, **recording}
                )
                asked = all(arguments.get(name) == value for name, value in recording.items())
                fewer = result if asked else result[0] if returned == 1 else result[:returned]
                return cast(Result, fewer)
            except Exception as error:
                trim(error)
                raise

        call.differentiable = True  # type: ignore[attr-defined]
        return call

    return decorate


def differentiable_by(
    gradients: str,
    results: str = "",
    backward: str | Callable[..., Any] = "{op}_backward",
    count: int = 1,
    recording: Mapping[str, Any] = NOTHING,
    returned: int = 1,
    reads: Positions | None = None,
    **derived: Callable[[Any], Any],
) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """Return a decorator that gives an op the gradient that another op computes.

    gradients: the names of the arguments whose gradients are the results of the other op. results:
    the names of the results, of which the first `count` have gradients. backward: the other op, or
    its name in the module. A parameter of it gets what `derived` returns for the step, else the
    result or the argument of its name; others that have no default get the gradients of results.
    recording, returned, reads: as of `differentiable`; by default, it reads the results whose names
    are parameters of the other op.
    """

    def decorate(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        module, op = sys.modules[function.__module__], function.__name__

        @functools.cache
        def other() -> tuple[Callable[..., Any], Mapping[str, inspect.Parameter]]:
            compute = backward
            if isinstance(compute, str):
                compute = getattr(module, compute.format(op=op))
            return compute, inspect.signature(compute).parameters

        def gradient(step: Any) -> dict[str, Any]:
            compute, parameters = other()
            values = {**step.arguments, **dict(zip(results.split(), step.results, strict=False))}
            values |= {name: value_of(step) for name, value_of in derived.items()}
            grads, passed = iter(step.grads), {}
            for name, parameter in parameters.items():
                if name in values:
                    passed[name] = values[name]
                elif parameter.default is parameter.empty:
                    passed[name] = next(grads)
            computed = compute(**passed)
            computed = computed if isinstance(computed, tuple) else (computed,)
            return dict(zip(gradients.split(), computed, strict=True))

        def read(_: Mapping[str, Any]) -> list[int]:
            names = other()[1].keys() - derived
            return [at for at, name in enumerate(results.split()) if name in names]

        return differentiable(
            gradient,
            results=count,
            recording=recording,
            returned=returned,
            reads=read if reads is None else reads,
        )(function)

    return decorate


def is_differentiable(function: Callable[..., Any]) -> bool:
    """Return True for an op that has a gradient in autograd."""
    return hasattr(function, "differentiable")


def _recorded(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Return True if PyTorch records a call with these arguments."""
    for value in (*args, *kwargs.values()) if kwargs else args:
        if getattr(value, "requires_grad", False):
            torch = sys.modules["torch"]
            # Inside an operator, autograd has recorded the operator itself.
            below = torch._C._dispatch_tls_is_dispatch_key_excluded(
                torch._C.DispatchKey.AutogradFunctionality
            )
            return bool(torch.is_grad_enabled() and not below)
    return False
