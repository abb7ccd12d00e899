"""PyTorch's convolution and its gradients, of images and of sequences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tile.ops.aten.arguments import Implementation, Layout, convolution_precision, require
from tile.ops.channels.channel_sums import channel_sums
from tile.ops.image.conv2d import conv2d
from tile.ops.image.conv2d_dgrad import conv2d_dgrad
from tile.ops.image.conv2d_wgrad import conv2d_wgrad
from tile.ops.image.conv_transpose2d import conv_transpose2d
from tile.ops.image.images import spatial


@dataclass(frozen=True)
class Geometry:
    """The windows of a convolution along two axes; the height of a sequence is 1."""

    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    output_padding: tuple[int, int]
    flat: bool  # sequences: height is no axis of the tensors

    @classmethod
    def of(cls, x: Any, *parameters: Sequence[int]) -> Geometry:
        """Return the geometry of an image or a sequence with a batch."""
        require(x.dim() in (3, 4), "a convolution is of 1 or 2 dimensions")
        flat = x.dim() == 3
        stride, padding, dilation, output_padding = (
            (none, values[0]) if flat else (values[0], values[-1])
            for none, values in zip((1, 0, 1, 0), parameters, strict=True)
        )
        return cls(stride, padding, dilation, output_padding, flat)

    def image(self, x: Any) -> Any:
        return x.unsqueeze(2) if self.flat else x

    def result(self, x: Any) -> Any:
        return x.squeeze(2) if self.flat else x

    @property
    def windows(self) -> dict[str, Any]:
        return {"stride": self.stride, "padding": self.padding, "dilation": self.dilation}


def convolution(
    input: Any,
    weight: Any,
    bias: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Any:
    geometry = Geometry.of(input, stride, padding, dilation, output_padding)
    image = geometry.image(input)
    layout = Layout.of(image)
    x, filters = layout.enter(image), layout.enter(geometry.image(weight))
    options: dict[str, Any] = {
        **geometry.windows,
        "groups": groups,
        "layout": layout.name,
        "precision": convolution_precision(input),
    }
    if transposed:
        options["output_padding"] = geometry.output_padding
        result = conv_transpose2d(x, filters, bias, **options)
    else:
        result = conv2d(x, filters, bias, **options)
    return geometry.result(layout.leave(result))


def convolution_backward(
    grad_output: Any,
    input: Any,
    weight: Any,
    bias_sizes: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Any, Any, Any]:
    geometry = Geometry.of(input, stride, padding, dilation, output_padding)
    image = geometry.image(input)
    layout = Layout.of(image)
    x, filters, dy = map(layout.enter, (image, *map(geometry.image, (weight, grad_output))))
    options: dict[str, Any] = {
        **geometry.windows,
        "groups": groups,
        "layout": layout.name,
        "precision": convolution_precision(input),
    }
    dx = dfilters = dbias = None
    window = spatial(filters.shape, layout.name)
    if output_mask[0]:
        if transposed:
            dx = conv2d(dy, filters, **options)
        else:
            dx = conv2d_dgrad(dy, filters, spatial(x.shape, layout.name), **options)
        dx = geometry.result(layout.leave(dx))
    if output_mask[1]:
        result_and_image = (x, dy) if transposed else (dy, x)
        dfilters = conv2d_wgrad(*result_and_image, window, **options)
        dfilters = geometry.result(layout.leave(dfilters))
    if output_mask[2]:
        dbias = channel_sums(dy, 1 if layout.name == "NCHW" else -1).to(weight.dtype)
    return dx, dfilters, dbias


OPERATORS: Mapping[str, Implementation] = MappingProxyType(
    {"aten::convolution": convolution, "aten::convolution_backward": convolution_backward}
)
