"""Arguments, conditions, layouts and precisions of the implementations of PyTorch's operators.

An implementation takes the arguments of a call as the attributes of one object, by the names of the
operator's schema, which also has the defaults: `args.self`, `args.dim`.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from tile.errors import ArgumentValueError

Arguments = SimpleNamespace
Implementation = Callable[[Arguments], Any]
Operators = Mapping[str, Implementation]


def by_schema(operator: Any, implementation: Implementation) -> Callable[..., Any]:
    """Return the function that calls an implementation of an overload like the overload."""
    parameters = operator._schema.arguments
    names = [parameter.name for parameter in parameters]
    defaults = {p.name: p.default_value for p in parameters if p.has_default_value()}

    @functools.wraps(implementation)
    def compute(*args: Any, **kwargs: Any) -> Any:
        arguments = {**defaults, **dict(zip(names, args, strict=False)), **kwargs}
        return implementation(SimpleNamespace(**arguments))

    return compute


def require(condition: bool, reason: str) -> None:
    """Leave a call to PyTorch, for this reason, if a condition is false."""
    if not condition:
        raise ArgumentValueError(reason)


def masked(gradients: Sequence[Any], mask: Sequence[bool]) -> tuple[Any, ...]:
    """Return the gradients that are needed, and None for the others."""
    return tuple(g if needed else None for g, needed in zip(gradients, mask, strict=True))


def torch_module() -> Any:
    """Return the module `torch`, which the program has imported."""
    return importlib.import_module("torch")


def require_wide(*tensors: Any) -> None:
    """Leave narrow types on a CPU to PyTorch, whose statistics have other types there."""
    x, torch = tensors[0], torch_module()
    wide = all(t is None or t.dtype in (torch.float32, torch.float64) for t in tensors)
    require(x.is_cuda or wide, "types are narrow, and the device is a CPU")


def matmul_precision(x: Any) -> str:
    """Return the precision of matmuls of float32 that the program has chosen in PyTorch."""
    return "tf32" if x.is_cuda and torch_module().backends.cuda.matmul.allow_tf32 else "ieee"


def convolution_precision(x: Any) -> str:
    """Return the precision of convolutions of float32 that the program has chosen in PyTorch."""
    return "tf32" if x.is_cuda and torch_module().backends.cudnn.allow_tf32 else "ieee"


@dataclass(frozen=True)
class Layout:
    """A layout in which this library takes images of PyTorch without a copy.

    name: "NHWC" for tensors in PyTorch's format `channels_last`. batched: they have a batch.
    """

    name: str
    batched: bool = True

    @classmethod
    def of(cls, x: Any) -> Layout:
        """Return the layout of an image, batch x channels x height x width or without batch."""
        require(x.dim() in (3, 4), "an image has 3 or 4 axes")
        last = x.dim() == 4 and x.permute(0, 2, 3, 1).is_contiguous() and not x.is_contiguous()
        return cls("NHWC" if last else "NCHW", x.dim() == 4)

    def enter(self, x: Any) -> Any:
        """Return a tensor of PyTorch's order of axes as one of four axes in this layout."""
        image = x if self.batched else x.unsqueeze(0)
        return image.permute(0, 2, 3, 1) if self.name == "NHWC" else image

    def leave(self, x: Any) -> Any:
        """Return a result of this layout in PyTorch's order of axes."""
        image = x.permute(0, 3, 1, 2) if self.name == "NHWC" else x
        return image if self.batched else image.squeeze(0)


def both(values: Any) -> tuple[int, int]:
    """Return a parameter of height and width, which PyTorch passes as one integer or two."""
    return (values[0], values[-1])
