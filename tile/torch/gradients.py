"""Gradients of functions that launch kernels, for autograd: a `torch.autograd.Function` for all.

`tile.ops` applies it to calls with tensors that require gradients. Results are the same as without.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.autograd.function import once_differentiable

Function = Callable[..., Any]
FIXED = 5  # inputs of `Differentiable` before the values of arguments


@dataclass(frozen=True)
class Step:
    """One backward pass: the arguments by name, the results, and their gradients.

    results: None for those that the gradient does not read. grads: of results that have some.
    needed: the names of the arguments whose gradients are asked for. deterministic: True if PyTorch
    was told to use deterministic algorithms.
    """

    arguments: Mapping[str, Any]
    results: tuple[Any, ...]
    grads: tuple[Any, ...]
    needed: frozenset[str]
    deterministic: bool

    def options(self, *names: str) -> dict[str, Any]:
        """Return the arguments of these names that were passed."""
        return {name: self.arguments[name] for name in names if name in self.arguments}


Gradient = Callable[[Step], Mapping[str, Any]]


def _backward(ctx: Any, *grads: Any) -> tuple[Any, ...]:
    tensors = iter(ctx.saved_tensors)
    values = [
        next(tensors) if tensor else other
        for tensor, other in zip(ctx.tensors, ctx.others, strict=True)
    ]
    results = [None] * ctx.count
    for position in ctx.reads:
        results[position] = next(tensors)
    wanted = ctx.needs_input_grad[FIXED:]
    step = Step(
        dict(zip(ctx.names, values, strict=True)),
        tuple(results),
        tuple(
            zeros() if grad is None else grad.contiguous()
            for grad, zeros in zip(grads, ctx.zeros, strict=False)
        ),
        frozenset(name for name, needed in zip(ctx.names, wanted, strict=True) if needed),
        torch.are_deterministic_algorithms_enabled(),
    )
    gradients = ctx.gradient(step)
    return (*[None] * FIXED, *(gradients.get(name) for name in ctx.names))


_BACKWARD: Function = once_differentiable(_backward)


def _zeros_like(tensor: Any) -> Callable[[], Any]:
    """Return a function that returns such zeros, and does not keep the tensor."""
    options = {"dtype": tensor.dtype, "device": tensor.device}
    return functools.partial(torch.zeros, tensor.shape, **options)


class Differentiable(torch.autograd.Function):
    """A function of arguments by name, with its gradient.

    The inputs are the function, its gradient, the number of results that have gradients, the
    positions of those that it reads, the names of the arguments, and their values.
    """

    @staticmethod
    def forward(
        ctx: Any,
        function: Function,
        gradient: Gradient,
        differentiable: int,
        reads: Sequence[int],
        names: tuple[str, ...],
        *values: Any,
    ) -> Any:
        result = function(**dict(zip(names, values, strict=True)))
        results = result if isinstance(result, tuple) else (result,)
        tensors = [isinstance(value, torch.Tensor) for value in values]
        ctx.gradient, ctx.names, ctx.tensors, ctx.count = gradient, names, tensors, len(results)
        ctx.others = [None if tensor else v for v, tensor in zip(values, tensors, strict=True)]
        saved = [value for value, tensor in zip(values, tensors, strict=True) if tensor]
        ctx.reads = [position for position in reads if position < len(results)]
        ctx.save_for_backward(*saved, *(results[position] for position in ctx.reads))
        # Zeros for results that nothing uses are made here, and of those with gradients alone.
        ctx.set_materialize_grads(False)
        ctx.zeros = [_zeros_like(each) for each in results[:differentiable]]
        ctx.mark_non_differentiable(*results[differentiable:])
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return _BACKWARD(ctx, *grads)


def differentiate(
    function: Function,
    gradient: Gradient,
    differentiable: int,
    reads: Sequence[int],
    arguments: Mapping[str, Any],
) -> Any:
    """Return the result of a function of `arguments`, which autograd differentiates by `gradient`.

    differentiable: so many results, the first, have gradients. reads: positions of the results that
    `gradient` reads. It returns the gradients of arguments by name; a missing one is None.
    """
    names = tuple(arguments)
    apply: Function = Differentiable.apply
    return apply(function, gradient, differentiable, reads, names, *arguments.values())
