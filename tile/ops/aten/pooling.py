"""PyTorch's pooling and bilinear interpolation of images, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Any

from tile.ops.aten.arguments import (
    Arguments,
    Implementation,
    Layout,
    Operators,
    both,
    require,
    torch_module,
)
from tile.ops.image.adaptive_pooling import (
    adaptive_avg_pool2d,
    adaptive_avg_pool2d_backward,
    adaptive_max_pool2d,
    adaptive_max_pool2d_backward,
)
from tile.ops.image.avg_pool2d import avg_pool2d, avg_pool2d_backward
from tile.ops.image.max_pool2d import max_pool2d, max_pool2d_backward
from tile.ops.image.resize import resize_bilinear
from tile.ops.image.resize_backward import resize_bilinear_backward

Options = Callable[[Arguments], tuple[Any, ...]]


def _forward(function: Callable[..., Any], options: Options) -> Implementation:
    """Return the implementation of an operator by a function of an image and the options."""

    def compute(args: Arguments) -> Any:
        selected, layout = options(args), Layout.of(args.self)
        results = function(layout.enter(args.self), *selected, layout=layout.name)
        if not isinstance(results, tuple):
            return layout.leave(results)
        values, index = map(layout.leave, results)
        return values, index.to(torch_module().int64)  # as PyTorch has indices

    return compute


def _backward(function: Callable[..., Any], options: Options) -> Implementation:
    """Return the implementation of a gradient, by a function of that of the result.

    The function also takes the indices of maxima, the size of the image, and the options.
    """

    def compute(args: Arguments) -> Any:
        selected, layout = options(args), Layout.of(args.grad_output)
        arrays, size = [layout.enter(args.grad_output)], (args.self.shape[-2], args.self.shape[-1])
        if hasattr(args, "indices"):
            arrays.append(layout.enter(args.indices).to(torch_module().int32))
        return layout.leave(function(*arrays, size, *selected, layout=layout.name))

    return compute


def _windows(args: Arguments) -> tuple[Any, ...]:
    """Return window, stride and padding; leave windows that begin or end outside to PyTorch."""
    require(both(getattr(args, "dilation", (1,))) == (1, 1), "`dilation` is not 1")
    require(getattr(args, "divisor_override", None) is None, "`divisor_override` is given")
    window, edges = both(args.kernel_size), both(args.padding)
    steps = both(args.stride) if args.stride else window
    if args.ceil_mode:
        sizes = zip(args.self.shape[-2:], window, steps, edges, strict=True)
        rests = ((size + 2 * edge - extent) % step for size, extent, step, edge in sizes)
        require(not any(rests), "`ceil_mode` adds windows that reach beyond the padding")
    return window, steps, edges


def _padded_windows(args: Arguments) -> tuple[Any, ...]:
    return (*_windows(args), args.count_include_pad)


def _require_scales(args: Arguments, size: Any, result: Any) -> None:
    """Leave a resizing to PyTorch unless its scales are the quotients of the sizes."""
    exact = all(
        scale is None or n * scale == count
        for n, count, scale in zip(size, result, (args.scales_h, args.scales_w), strict=True)
    )
    require(exact or args.align_corners, "a scale is not the quotient of the sizes")


def _resized(args: Arguments) -> tuple[Any, ...]:
    size = both(args.output_size)
    _require_scales(args, args.self.shape[-2:], size)
    return size, args.align_corners


def _resize_backward(args: Arguments) -> Any:
    size = (args.input_size[-2], args.input_size[-1])
    _require_scales(args, size, both(args.output_size))
    layout = Layout.of(args.grad_output)
    dy = layout.enter(args.grad_output)
    return layout.leave(resize_bilinear_backward(dy, size, args.align_corners, layout=layout.name))


OPERATORS: Operators = MappingProxyType(
    {
        "aten::max_pool2d_with_indices": _forward(max_pool2d, lambda a: (*_windows(a), True)),
        "aten::max_pool2d_with_indices_backward": _backward(max_pool2d_backward, _windows),
        "aten::avg_pool2d": _forward(avg_pool2d, _padded_windows),
        "aten::avg_pool2d_backward": _backward(avg_pool2d_backward, _padded_windows),
        "aten::_adaptive_avg_pool2d": _forward(
            adaptive_avg_pool2d, lambda args: (both(args.output_size),)
        ),
        "aten::_adaptive_avg_pool2d_backward": _backward(
            adaptive_avg_pool2d_backward, lambda args: ()
        ),
        "aten::adaptive_max_pool2d": _forward(
            adaptive_max_pool2d, lambda args: (both(args.output_size), True)
        ),
        "aten::adaptive_max_pool2d_backward": _backward(
            adaptive_max_pool2d_backward, lambda args: ()
        ),
        "aten::upsample_bilinear2d": _forward(resize_bilinear, _resized),
        "aten::upsample_bilinear2d_backward": _resize_backward,
    }
)
