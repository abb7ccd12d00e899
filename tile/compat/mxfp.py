"""`triton.tools.mxfp`: tensors of the elements and scales of microscaling formats, in PyTorch.

The formats are those of the OCP Microscaling Formats (MX) Specification 1.0: elements of 4 bits
(e2m1, section 5.3.3) and scales of 8 bits, which are powers of two (e8m0, section 5.4.1).
`tl.dot_scaled` takes both.
"""

from __future__ import annotations

import importlib
import itertools
import math
from collections.abc import Sequence
from typing import Any

from tile.errors import ArgumentTypeError, ArgumentValueError
from tile.short_repr import short_repr

__all__ = ["MXFP4Tensor", "MXScaleTensor", "fp8e8m0_to_float32"]

MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)  # of the codes 0 to 7; bit 3 is the sign
MIDDLES = tuple((low + high) / 2 for low, high in itertools.pairwise(MAGNITUDES))
BIAS = 127
NAN = 255  # the scale that is not a number


class _Codes:
    """A tensor of codes, `data` of type uint8, made from numbers or of a size.

    Raises `ArgumentTypeError` for `data` that is no tensor, and `ArgumentValueError` without both.
    """

    def __init__(self, data: Any = None, size: Any = None, device: Any = None) -> None:
        if data is None and size is None:
            raise ArgumentValueError(f"{type(self).__name__} takes data or a size")
        self.device = device
        self.data: Any = None
        if data is None:
            self.size = size if isinstance(size, tuple) else (size,)
            return
        if not isinstance(data, _torch().Tensor):
            raise ArgumentTypeError(
                f"the data of {type(self).__name__} is a torch tensor, not {short_repr(data)}"
            )
        self.device = data.device
        self.data = self._from_float(data)

    def _from_float(self, values: Any) -> Any:
        raise NotImplementedError

    def _random(self, low: int, high: int) -> Any:
        """Return random codes from `low` to `high`, both included."""
        torch = _torch()
        return torch.randint(low, high + 1, self.size, dtype=torch.uint8, device=self.device)

    def _check_dtype(self, dtype: Any) -> None:
        if dtype != _torch().float32:
            raise ArgumentValueError(
                f"{type(self).__name__} converts to torch.float32, not to {dtype}"
            )


class MXFP4Tensor(_Codes):
    """Numbers of 4 bits (e2m1), one in each byte of `data`; float32 rounds to nearest even.

    Numbers beyond 6, infinities and NaN become 6 with their sign.
    """

    def random(self) -> MXFP4Tensor:
        """Fill the tensor with random codes, and return it."""
        self.data = self._random(0, 15)
        return self

    def to(self, dtype: Any) -> Any:
        """Return the numbers as a tensor of `torch.float32`."""
        self._check_dtype(dtype)
        magnitudes = _torch().tensor(MAGNITUDES, dtype=dtype, device=self.data.device)
        numbers = magnitudes[(self.data & 7).long()]
        return numbers.where(self.data < 8, -numbers)

    def to_packed_tensor(self, dim: int) -> Any:
        """Return bytes of two codes along `dim`, the first in the low bits; an odd end is padded.

        Raises `ArgumentValueError` for a `dim` that the tensor does not have.
        """
        codes = self.data
        if not 0 <= dim < codes.ndim:
            raise ArgumentValueError(f"a tensor of rank {codes.ndim} has no dimension {dim}")
        low, high = (codes[_every_second(dim, first)] for first in (0, 1))
        packed = low.clone()
        packed.narrow(dim, 0, high.shape[dim]).bitwise_or_(high << 4)
        return packed

    def unpack_packed_tensor(
        self, packed_tensor: Any, dim: int, original_shape: Sequence[int]
    ) -> Any:
        """Return the codes in a packed tensor, which had this shape before `to_packed_tensor`."""
        codes = packed_tensor.new_empty(tuple(original_shape))
        codes[_every_second(dim, 0)] = packed_tensor & 15
        odd = codes[_every_second(dim, 1)]
        odd.copy_(packed_tensor.narrow(dim, 0, odd.shape[dim]) >> 4)
        return codes

    def _from_float(self, values: Any) -> Any:
        torch = _torch()
        sizes = values.abs().nan_to_num(nan=math.inf)
        codes = torch.zeros_like(values, dtype=torch.uint8)
        for code, middle in enumerate(MIDDLES):
            # A middle between two numbers belongs to the even code.
            codes += sizes > middle if code % 2 == 0 else sizes >= middle
        return codes | torch.signbit(values).to(torch.uint8) << 3


class MXScaleTensor(_Codes):
    """Scales of 8 bits (e8m0): 2 to the power of the code minus 127; 255 is NaN.

    float32 rounds down to a power of two. Numbers that are not positive and finite become NaN.
    """

    def random(self, low: float | None = None, high: float | None = None) -> MXScaleTensor:
        """Fill the tensor with random scales from `low` to `high`, none of them NaN; return it."""
        first = 0 if low is None else max(0, int(math.log2(low)) + BIAS)
        last = NAN - 1 if high is None else min(NAN - 1, max(0, int(math.log2(high)) + BIAS))
        if first > last:
            raise ArgumentValueError(f"the least scale {low} is greater than {high}")
        self.data = self._random(first, last)
        return self

    def to(self, dtype: Any) -> Any:
        """Return the scales as a tensor of `torch.float32`."""
        self._check_dtype(dtype)
        torch = _torch()
        one = torch.ones((), dtype=torch.float64, device=self.data.device)
        numbers = torch.ldexp(one, self.data.int() - BIAS).to(dtype)
        return numbers.masked_fill(self.data == NAN, math.nan)

    def _from_float(self, values: Any) -> Any:
        torch = _torch()
        valid = values.isfinite() & (values > 0)
        _, exponents = torch.frexp(values.to(torch.float64))
        codes = (exponents - 1 + BIAS).clamp(0, NAN - 1).to(torch.uint8)
        return codes.masked_fill(~valid, NAN)


def fp8e8m0_to_float32(scale: Any) -> Any:
    """Return scales of 8 bits as float32, by a shift of their bits: 0 is 0 and 255 infinity."""
    torch = _torch()
    return (scale.view(torch.uint8).to(torch.int32) << 23).view(torch.float32)


def _every_second(dim: int, first: int) -> tuple[slice, ...]:
    """Return the index of every second element along a dimension."""
    return (*[slice(None)] * dim, slice(first, None, 2))


def _torch() -> Any:
    return importlib.import_module("torch")
