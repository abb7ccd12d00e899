"""PyTorch's pooling and bilinear interpolation of images, forward and backward."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from tile.ops.aten.arguments import Implementation, Layout, both, require, torch_module
from tile.ops.image.adaptive_pooling import (
    adaptive_avg_pool2d,
    adaptive_avg_pool2d_backward,
    adaptive_max_pool2d,
    adaptive_max_pool2d_backward,
)
from tile.ops.image.pooling import (
    avg_pool2d,
    avg_pool2d_backward,
    max_pool2d,
    max_pool2d_backward,
)
from tile.ops.image.resize import resize_bilinear
from tile.ops.image.resize_backward import resize_bilinear_backward

Integers = Sequence[int]
Pair = tuple[int, int]


def _windows(
    x: Any, kernel_size: Integers, stride: Integers, padding: Integers, ceil_mode: bool
) -> tuple[Pair, Pair, Pair]:
    """Return window, stride and padding; leave windows that begin or end outside to PyTorch."""
    window, edges = both(kernel_size), both(padding)
    steps = both(stride) if stride else window
    if ceil_mode:
        rests = (
            (size + 2 * edge - extent) % step
            for size, extent, step, edge in zip(x.shape[-2:], window, steps, edges, strict=True)
        )
        require(not any(rests), "`ceil_mode` adds windows that reach beyond the padding")
    return window, steps, edges


def _size(x: Any) -> tuple[int, int]:
    return x.shape[-2], x.shape[-1]


def _with_indices(layout: Layout, results: tuple[Any, Any]) -> tuple[Any, Any]:
    """Return maxima and their indices, which are 64-bit in PyTorch."""
    values, index = map(layout.leave, results)
    return values, index.to(torch_module().int64)


def _index(layout: Layout, indices: Any) -> Any:
    return layout.enter(indices).to(torch_module().int32)


def max_pool2d_with_indices(
    self: Any,
    kernel_size: Integers,
    stride: Integers = (),
    padding: Integers = (0,),
    dilation: Integers = (1,),
    ceil_mode: bool = False,
) -> tuple[Any, Any]:
    require(both(dilation) == (1, 1), "`dilation` is not 1")
    windows = _windows(self, kernel_size, stride, padding, ceil_mode)
    layout = Layout.of(self)
    return _with_indices(layout, max_pool2d(layout.enter(self), *windows, True, layout=layout.name))


def max_pool2d_with_indices_backward(
    grad_output: Any,
    self: Any,
    kernel_size: Integers,
    stride: Integers,
    padding: Integers,
    dilation: Integers,
    ceil_mode: bool,
    indices: Any,
) -> Any:
    require(both(dilation) == (1, 1), "`dilation` is not 1")
    windows = _windows(self, kernel_size, stride, padding, ceil_mode)
    layout = Layout.of(self)
    dy, index = layout.enter(grad_output), _index(layout, indices)
    return layout.leave(max_pool2d_backward(dy, index, _size(self), *windows, layout=layout.name))


def _avg_pool2d(
    self: Any,
    kernel_size: Integers,
    stride: Integers = (),
    padding: Integers = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Any:
    require(divisor_override is None, "`divisor_override` is given")
    windows = _windows(self, kernel_size, stride, padding, ceil_mode)
    layout = Layout.of(self)
    return layout.leave(
        avg_pool2d(layout.enter(self), *windows, count_include_pad, layout=layout.name)
    )


def _avg_pool2d_backward(
    grad_output: Any,
    self: Any,
    kernel_size: Integers,
    stride: Integers,
    padding: Integers,
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Any:
    require(divisor_override is None, "`divisor_override` is given")
    windows = _windows(self, kernel_size, stride, padding, ceil_mode)
    layout = Layout.of(self)
    dy, size = layout.enter(grad_output), _size(self)
    return layout.leave(
        avg_pool2d_backward(dy, size, *windows, count_include_pad, layout=layout.name)
    )


def _adaptive_avg_pool2d(self: Any, output_size: Integers) -> Any:
    layout = Layout.of(self)
    size = both(output_size)
    return layout.leave(adaptive_avg_pool2d(layout.enter(self), size, layout=layout.name))


def _adaptive_avg_pool2d_backward(grad_output: Any, self: Any) -> Any:
    layout = Layout.of(self)
    dy = layout.enter(grad_output)
    return layout.leave(adaptive_avg_pool2d_backward(dy, _size(self), layout=layout.name))


def _adaptive_max_pool2d(self: Any, output_size: Integers) -> tuple[Any, Any]:
    layout = Layout.of(self)
    size = both(output_size)
    return _with_indices(
        layout, adaptive_max_pool2d(layout.enter(self), size, True, layout=layout.name)
    )


def _adaptive_max_pool2d_backward(grad_output: Any, self: Any, indices: Any) -> Any:
    layout = Layout.of(self)
    dy, index = layout.enter(grad_output), _index(layout, indices)
    return layout.leave(adaptive_max_pool2d_backward(dy, index, _size(self), layout=layout.name))


def _require_scales(sizes: Integers, results: Integers, scales: Sequence[float | None]) -> None:
    """Leave a resizing to PyTorch unless its scales are the quotients of the sizes."""
    exact = all(
        scale is None or size * scale == result
        for size, result, scale in zip(sizes, results, scales, strict=True)
    )
    require(exact, "a scale is not the quotient of the sizes")


def upsample_bilinear2d(
    self: Any,
    output_size: Integers,
    align_corners: bool,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Any:
    size = both(output_size)
    if not align_corners:
        _require_scales(_size(self), size, (scales_h, scales_w))
    layout = Layout.of(self)
    return layout.leave(
        resize_bilinear(layout.enter(self), size, align_corners, layout=layout.name)
    )


def upsample_bilinear2d_backward(
    grad_output: Any,
    output_size: Integers,
    input_size: Integers,
    align_corners: bool,
    scales_h: float | None = None,
    scales_w: float | None = None,
) -> Any:
    size = (input_size[-2], input_size[-1])
    if not align_corners:
        _require_scales(size, both(output_size), (scales_h, scales_w))
    layout = Layout.of(grad_output)
    dy = layout.enter(grad_output)
    return layout.leave(resize_bilinear_backward(dy, size, align_corners, layout=layout.name))


OPERATORS: Mapping[str, Implementation] = MappingProxyType(
    {
        "aten::max_pool2d_with_indices": max_pool2d_with_indices,
        "aten::max_pool2d_with_indices_backward": max_pool2d_with_indices_backward,
        "aten::avg_pool2d": _avg_pool2d,
        "aten::avg_pool2d_backward": _avg_pool2d_backward,
        "aten::_adaptive_avg_pool2d": _adaptive_avg_pool2d,
        "aten::_adaptive_avg_pool2d_backward": _adaptive_avg_pool2d_backward,
        "aten::adaptive_max_pool2d": _adaptive_max_pool2d,
        "aten::adaptive_max_pool2d_backward": _adaptive_max_pool2d_backward,
        "aten::upsample_bilinear2d": upsample_bilinear2d,
        "aten::upsample_bilinear2d_backward": upsample_bilinear2d_backward,
    }
)
