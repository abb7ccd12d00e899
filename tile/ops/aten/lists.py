"""PyTorch's operators on lists of tensors: elementwise ones, norms, and steps of AdamW."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from tile.ops.aten.arguments import Arguments, Implementation, Operators, require, torch_module
from tile.ops.lists.foreach import foreach_apply
from tile.ops.lists.foreach_norms import foreach_norms
from tile.ops.training.adamw import adamw

# By operator and overload: the function, and the arguments that are its `ys` and `alpha`.
FUNCTIONS = {
    ("add", "List"): ("add", "other", "alpha"),
    ("mul", "List"): ("mul", "other", ""),
    ("mul", "Scalar"): ("scale", "", "scalar"),
    ("lerp", "Scalar"): ("lerp", "tensors1", "weight"),
}


def _apply(function: str, ys: str, alpha: str, in_place: bool) -> Implementation:
    def compute(args: Arguments) -> list[Any] | None:
        scalar = getattr(args, alpha, 1)
        require(isinstance(scalar, int | float), "a scalar is complex")
        out = args.self if in_place else None
        results = foreach_apply(function, args.self, getattr(args, ys, None), scalar, out=out)
        return None if in_place else [*results]

    return compute


def _norms(args: Arguments) -> list[Any]:
    require(args.ord == 2, "norms are not Euclidean")
    float32 = torch_module().float32
    narrow = any(x.dtype != float32 for x in args.self)
    require(not narrow and args.dtype in (None, float32), "norms have another type")
    return [*foreach_norms(args.self).unbind()]


def _fused_adamw(args: Arguments) -> None:
    require(not args.amsgrad and not args.maximize, "`amsgrad` or `maximize` is given")
    require(args.grad_scale is None and args.found_inf is None, "gradients are scaled")
    parameters = [*zip(args.self, args.grads, args.exp_avgs, args.exp_avg_sqs, strict=True)]
    float32 = torch_module().float32
    for tensors in parameters:  # all of them, since a step is not done again
        require(all(x.dtype == float32 and x.dim() for x in tensors), "types are not float32")
        require(all(x.is_contiguous() for x in tensors), "a tensor is not contiguous")
        require(all(x.shape == tensors[0].shape for x in tensors), "shapes differ")
    steps = torch_module().stack([*args.state_steps]).tolist() if parameters else []
    lr, betas = float(args.lr), (args.beta1, args.beta2)
    for tensors, step in zip(parameters, steps, strict=True):
        adamw(*tensors, int(step), lr, betas, args.eps, args.weight_decay)


OPERATORS: Operators = MappingProxyType(
    {
        f"aten::_foreach_{operator}{suffix}.{overload}": _apply(*function, in_place=bool(suffix))
        for (operator, overload), function in FUNCTIONS.items()
        for suffix in ("", "_")
    }
    | {
        "aten::_foreach_norm.Scalar": _norms,
        "aten::_fused_adamw_": _fused_adamw,
        "aten::_fused_adamw_.tensor_lr": _fused_adamw,
    }
)
