"""Arguments as command lines spell them."""

from __future__ import annotations

import numpy as np
import pytest

from tile.errors import ArgumentValueError
from tile.runtime.arguments.tensor_descriptor import ALIGNMENT, TensorDescriptor
from tile.tools.arguments import parse_arguments


def test_descriptors() -> None:
    parsed = parse_arguments(["x=fp16[3,5,7]:2/1,4,8,nan", "y=fp32[10]/4", "z=fp32[10]"])
    x, y, z = parsed["x"], parsed["y"], parsed["z"]
    assert isinstance(x, TensorDescriptor) and isinstance(y, TensorDescriptor)
    assert (x.shape, x.strides, x.block_shape, x.padding) == (
        (3, 5, 7),
        (40, 8, 1),
        [1, 4, 8],
        "nan",
    )
    assert (y.shape, y.block_shape, y.padding) == ((10,), [4], "zero")
    assert (x.base == 2).all() and x.base.dtype == np.float16
    assert x.base.ctypes.data % ALIGNMENT == y.base.ctypes.data % ALIGNMENT == 0
    numbers = np.random.default_rng(0).standard_normal(20).astype(np.float32)
    np.testing.assert_array_equal(np.concatenate([y.base, z]), numbers)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x=fp32[4,4]/4", "2 extents, 2 strides and 1 extents of a block"),
        ("x=fp32[4,4]/2,4,odd", 'padding of a TensorDescriptor is "zero" or "nan", not \'odd\''),
        ("x=fp32[4,4]:y", "x is filled with a number, not 'y'"),
        ("x=fp32[4,4]/", "a descriptor such as fp32[64,64]/16,32, not 'fp32[4,4]/'"),
        ("x=fp33[4]/4", "x has elements of .*, not 'fp33'"),
        ("--grid", "name=value, not '--grid'\n.*options come before the kernel"),
    ],
)
def test_what_cannot_be_read(text: str, message: str) -> None:
    with pytest.raises(ArgumentValueError, match=message.replace("[", r"\[")):
        parse_arguments([text])
