"""Images whose channels are adjacent in memory, though their axes are in the order "NCHW".

PyTorch calls this memory format `channels_last`. Such images are passed on as the views in the
order "NHWC" that they are, and the results are returned as such views, as PyTorch's are. Results
whose pixels are adjacent would be stored one by one by lanes that have adjacent channels: 374 us in
place of 50 for a depthwise convolution of 32 x 64 x 112 x 112 (H200, float16, 2026-11-30).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

from tile.errors import ArgumentError
from tile.ops.image.images import LAYOUTS

P = ParamSpec("P")
R = TypeVar("R")
TO_NHWC = LAYOUTS["NCHW"]
TO_NCHW = tuple(TO_NHWC.index(axis) for axis in range(4))


def keeps_channels_last(*names: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate an op that takes images with these names, and their `layout` by keyword.

    The memory format of the first image decides.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        order = list(inspect.signature(function).parameters)
        positions = [order.index(name) for name in names]
        op: Callable[..., Any] = function

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            layout, image = kwargs.get("layout"), args[0] if args else kwargs.get(names[0])
            if type(layout) is not str or layout != "NCHW" or not _is_channels_last(image):
                return op(*args, **kwargs)
            passed = [_view(x, TO_NHWC) if i in positions else x for i, x in enumerate(args)]
            named = {**kwargs, "layout": "NHWC"}
            named |= {
                name: _view(named[name], TO_NHWC) for name in (*names, "out") if name in named
            }
            try:
                results = op(*passed, **named)
            except ArgumentError:  # the message is to be about the arguments that were passed
                return op(*args, **kwargs)
            several = results if isinstance(results, tuple) else (results,)
            views = [_view(result, TO_NCHW) for result in several]
            if kwargs.get("out") is not None:
                views[0] = kwargs["out"]
            return tuple(views) if isinstance(results, tuple) else views[0]

        return cast("Callable[P, R]", call)

    return decorate


def _is_channels_last(x: Any) -> bool:
    """Return True for an array of four axes with adjacent channels and pixels that are apart."""
    shape: tuple[int, ...] = getattr(x, "shape", ())
    if len(shape) != 4 or shape[1] == 1:
        return False
    if hasattr(x, "stride"):
        return bool(x.stride(1) == 1 != x.stride(3))
    strides = getattr(x, "strides", None)  # in bytes; arrays of JAX have none
    return strides is not None and bool(strides[1] == x.itemsize != strides[3])


def _view(x: Any, axes: tuple[int, ...]) -> Any:
    """Return the view of an array of four axes whose axes are in this order; others as they are."""
    if len(getattr(x, "shape", ())) != 4:
        return x
    return x.permute(axes) if hasattr(x, "permute") else x.transpose(axes)
