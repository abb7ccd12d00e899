"""PyTorch's convolution and its gradients, of images and of sequences."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from tile.ops.aten.arguments import (
    Arguments,
    Layout,
    Operators,
    both,
    convolution_precision,
    require,
)
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
    def of(cls, args: Arguments) -> Geometry:
        """Return the geometry of an image or a sequence with a batch."""
        require(args.input.dim() in (3, 4), "a convolution is of 1 or 2 dimensions")
        flat = args.input.dim() == 3
        parameters = args.stride, args.padding, args.dilation, args.output_padding
        stride, padding, dilation, output_padding = (
            (none, values[0]) if flat else both(values)
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


def _options(args: Arguments, geometry: Geometry, layout: Layout) -> dict[str, Any]:
    return {
        **geometry.windows,
        "groups": args.groups,
        "layout": layout.name,
        "precision": convolution_precision(args.input),
    }


def _convolution(args: Arguments) -> Any:
    geometry = Geometry.of(args)
    image = geometry.image(args.input)
    layout = Layout.of(image)
    x, filters = layout.enter(image), layout.enter(geometry.image(args.weight))
    options = _options(args, geometry, layout)
    if args.transposed:
        options["output_padding"] = geometry.output_padding
    function = conv_transpose2d if args.transposed else conv2d
    return geometry.result(layout.leave(function(x, filters, args.bias, **options)))


def _convolution_backward(args: Arguments) -> tuple[Any, Any, Any]:
    geometry = Geometry.of(args)
    images = [geometry.image(tensor) for tensor in (args.input, args.weight, args.grad_output)]
    layout = Layout.of(images[0])
    x, filters, dy = map(layout.enter, images)
    options = _options(args, geometry, layout)
    dx = dfilters = dbias = None
    window = spatial(filters.shape, layout.name)
    if args.output_mask[0]:
        if args.transposed:
            dx = conv2d(dy, filters, **options)
        else:
            dx = conv2d_dgrad(dy, filters, spatial(x.shape, layout.name), **options)
        dx = geometry.result(layout.leave(dx))
    if args.output_mask[1]:
        result_and_image = (x, dy) if args.transposed else (dy, x)
        dfilters = conv2d_wgrad(*result_and_image, window, **options)
        dfilters = geometry.result(layout.leave(dfilters))
    if args.output_mask[2]:
        dbias = channel_sums(dy, 1 if layout.name == "NCHW" else -1).to(args.weight.dtype)
    return dx, dfilters, dbias


OPERATORS: Operators = MappingProxyType(
    {"aten::convolution": _convolution, "aten::convolution_backward": _convolution_backward}
)
