"""PyTorch's operators on lists of tensors: elementwise ones, norms, and steps of AdamW."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tile.ops.aten.arguments import Implementation, require, torch_module
from tile.ops.lists.foreach import foreach_apply
from tile.ops.lists.foreach_norms import foreach_norms
from tile.ops.training.adamw import adamw

Tensors = Sequence[Any]


def _new(function: str) -> Implementation:
    """Return the operator that makes new tensors."""

    def compute(self: Tensors, other: Tensors, *, alpha: Any = 1) -> list[Any]:
        return [*foreach_apply(function, self, other, float(alpha))]

    return compute


def _in_place(function: str) -> Implementation:
    def compute(self: Tensors, other: Tensors, *, alpha: Any = 1) -> None:
        foreach_apply(function, self, other, float(alpha), out=self)

    return compute


def _scaled(self: Tensors, scalar: Any) -> list[Any]:
    require(isinstance(scalar, int | float), "the scalar is complex")
    return [*foreach_apply("scale", self, None, scalar)]


def _scale(self: Tensors, scalar: Any) -> None:
    require(isinstance(scalar, int | float), "the scalar is complex")
    foreach_apply("scale", self, None, scalar, out=self)


def _lerped(self: Tensors, tensors1: Tensors, weight: Any) -> list[Any]:
    require(isinstance(weight, int | float), "the weight is complex")
    return [*foreach_apply("lerp", self, tensors1, weight)]


def _lerp(self: Tensors, tensors1: Tensors, weight: Any) -> None:
    require(isinstance(weight, int | float), "the weight is complex")
    foreach_apply("lerp", self, tensors1, weight, out=self)


def _norms(self: Tensors, ord: Any = 2, dtype: Any = None) -> list[Any]:  # noqa: A002 - PyTorch's name
    require(ord == 2, "norms are not Euclidean")
    float32 = torch_module().float32
    narrow = any(x.dtype != float32 for x in self)
    require(not narrow and dtype in (None, float32), "norms have another type")
    return [*foreach_norms(self).unbind()]


def _fused_adamw(
    self: Tensors,
    grads: Tensors,
    exp_avgs: Tensors,
    exp_avg_sqs: Tensors,
    max_exp_avg_sqs: Tensors,
    state_steps: Tensors,
    *,
    lr: Any,
    beta1: float,
    beta2: float,
    weight_decay: float,
    eps: float,
    amsgrad: bool,
    maximize: bool,
    grad_scale: Any = None,
    found_inf: Any = None,
) -> None:
    require(not amsgrad and not maximize, "`amsgrad` or `maximize` is given")
    require(grad_scale is None and found_inf is None, "gradients are scaled")
    parameters = [*zip(self, grads, exp_avgs, exp_avg_sqs, strict=True)]
    float32 = torch_module().float32
    for tensors in parameters:  # all of them, since a step is not done again
        require(all(x.dtype == float32 and x.dim() for x in tensors), "types are not float32")
        require(all(x.is_contiguous() for x in tensors), "a tensor is not contiguous")
        require(all(x.shape == tensors[0].shape for x in tensors), "shapes differ")
    steps = torch_module().stack([*state_steps]).tolist() if parameters else []
    for (p, g, m, v), step in zip(parameters, steps, strict=True):
        adamw(p, g, m, v, int(step), float(lr), (beta1, beta2), eps, weight_decay)


OPERATORS: Mapping[str, Implementation] = MappingProxyType(
    {
        "aten::_foreach_add.List": _new("add"),
        "aten::_foreach_add_.List": _in_place("add"),
        "aten::_foreach_mul.List": _new("mul"),
        "aten::_foreach_mul_.List": _in_place("mul"),
        "aten::_foreach_mul.Scalar": _scaled,
        "aten::_foreach_mul_.Scalar": _scale,
        "aten::_foreach_lerp.Scalar": _lerped,
        "aten::_foreach_lerp_.Scalar": _lerp,
        "aten::_foreach_norm.Scalar": _norms,
        "aten::_fused_adamw_": _fused_adamw,
        "aten::_fused_adamw_.tensor_lr": _fused_adamw,
    }
)
