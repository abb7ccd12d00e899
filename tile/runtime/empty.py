"""Arrays that keep account of what was written to them, for the check of undefined values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tile.errors import ArgumentTypeError, ArgumentValueError
from tile.runtime.elements import Array


@dataclass(frozen=True, eq=False)
class Account:
    """Which elements of an allocation were written.

    It keeps the `memory` alive, so that no other array comes to lie there.
    """

    memory: Array
    written: Array

    def of(self, array: Array) -> Array | None:
        """The same for each element of a view; None if the account does not know its memory."""
        size = self.memory.itemsize
        if array.itemsize != size:
            return None
        first = (array.ctypes.data - self.memory.ctypes.data) // size
        steps = [stride // size for stride in array.strides]
        reach = [step * (n - 1) for step, n in zip(steps, array.shape, strict=True)]
        low, high = sum(r for r in reach if r < 0), sum(r for r in reach if r > 0)
        if first + low < 0 or first + high >= len(self.written):
            return None
        return as_strided(self.written[first:], array.shape, steps)

    def span(self, array: Array) -> Array | None:
        """The account from the least to the greatest address of a view, in memory's order."""
        if self.of(array) is None or not array.size:
            return None
        upwards = [slice(None, None, -1) if s < 0 else slice(None) for s in array.strides]
        corner: Array = array.__getitem__(tuple(upwards)) if upwards else array
        size = self.memory.itemsize
        first = (corner.ctypes.data - self.memory.ctypes.data) // size
        reach = sum(s * (n - 1) for s, n in zip(corner.strides, corner.shape, strict=True))
        return self.written[first : first + reach // size + 1]


class EmptyArray(np.ndarray[Any, np.dtype[Any]]):
    """An array whose elements have no value until they are written.

    Kernels write it, and so do assignments to elements (`x[...] = 0`), `fill` and `out=` of NumPy's
    functions; after anything else `mark_written` says so. Views share the account; results of
    arithmetic are plain arrays.
    """

    account: Account | None = None

    def __array_finalize__(self, obj: object) -> None:
        self.account = getattr(obj, "account", None)

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        known = self.written
        if known is not None:
            known[key] = True

    def fill(self, value: Any) -> None:
        """Write one value to all elements."""
        self[...] = value

    def mark_written(self) -> None:
        """Say that all elements have values."""
        known = self.written
        if known is not None:
            known[...] = True

    @property
    def written(self) -> Array | None:
        """Whether each element was written, to be read and changed; None if that is not known."""
        return None if self.account is None else self.account.of(self)

    def written_span(self) -> Array | None:
        """Whether each element was written, from the one at the least address on."""
        return None if self.account is None else self.account.span(self.view(np.ndarray))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **known: Any) -> Any:
        """Compute on plain arrays; elements of `out` are written."""
        outs = known.pop("out", ())
        if outs:
            known["out"] = tuple(map(_plain, outs))
        result = getattr(ufunc, method)(*map(_plain, inputs), **known)
        for out in outs:
            if isinstance(out, EmptyArray):
                out.mark_written()
        return outs[0] if len(outs) == 1 else result


def _plain(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, EmptyArray) else value


def empty(shape: int | tuple[int, ...], dtype: Any = np.float32) -> EmptyArray:
    """A new array in the host's memory whose elements nobody has written.

    Under the check `undef` a kernel that uses an element of it before one was written is reported.
    Raises `ArgumentError` for what is no shape or dtype.
    """
    try:
        plain = np.zeros(shape, dtype)
    except TypeError as error:
        raise ArgumentTypeError(f"tile.empty: {error}") from None
    except ValueError as error:
        raise ArgumentValueError(f"tile.empty: {error}") from None
    return uninitialised(plain)


def uninitialised(array: Array) -> EmptyArray:
    """An array's memory again, none of whose elements counts as written, as in one of `tile.empty`.

    What it holds stays. Raises `ArgumentTypeError` for what is no array of NumPy (of a tensor on
    the CPU, pass `x.numpy()`), and `ArgumentValueError` for one with gaps between its elements.
    """
    if not isinstance(array, np.ndarray):
        raise ArgumentTypeError(
            f"tile.uninitialised takes an array of NumPy, not a {type(array).__name__}; a tensor's "
            "memory is that of x.numpy()"
        )
    if not array.flags.c_contiguous:
        raise ArgumentValueError(
            f"tile.uninitialised takes an array without gaps; this one has strides {array.strides}"
        )
    plain = array.view(np.ndarray)
    marked = plain.view(EmptyArray)
    marked.account = Account(plain, np.zeros(plain.size, np.bool_))
    return marked
