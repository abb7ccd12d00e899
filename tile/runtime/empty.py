"""Arrays that keep account of what was written to them, for the check of undefined values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, SupportsIndex

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tile.errors import ArgumentTypeError, ArgumentValueError
from tile.runtime.elements import Array


@dataclass(frozen=True, eq=False)
class Account:
    """Which elements of an allocation were written, in the order of its bytes.

    It keeps the `memory`, all of the allocation, alive, so that no other array comes to lie there.
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

    Kernels write it, and so do assignments to elements (`x[...] = 0`), `fill`, `np.copyto` and
    `out=` of NumPy's functions; after anything else `mark_written` says so. Views share the
    account. Copies have one of their own, in which elements are written that were in the original,
    and so has what an assignment copies. Results of arithmetic are plain arrays.
    """

    account: Account | None = None

    def __array_finalize__(self, obj: object) -> None:
        self.account = getattr(obj, "account", None)

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        known = self.written
        if known is not None:
            known[key] = _written(value)

    def __getitem__(self, key: Any) -> Any:
        return _moved(self, lambda array: array[_plain(key)])

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> Any:
        """The elements, and which of them are written."""
        known = self.written
        values = np.ascontiguousarray(self.view(np.ndarray)).reshape(self.shape)
        return _restored, (values, None if known is None else np.array(known))

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Any:
        return self.copy()

    def copy(self, order: Any = "C") -> Any:
        """Return a copy, whose elements are written where these are."""
        return _moved(self, lambda array: array.copy(order))

    def flatten(self, order: Any = "C") -> Any:
        """Return the elements as a copy of one axis."""
        return _moved(self, lambda array: array.flatten(order))

    def ravel(self, order: Any = "C") -> Any:
        """Return the elements along one axis."""
        return _moved(self, lambda array: array.ravel(order))

    def reshape(self, *shape: Any, **options: Any) -> Any:
        """Return the elements in another shape."""
        return _moved(self, lambda array: array.reshape(*shape, **options))

    def take(self, indices: Any, axis: Any = None, out: Any = None, mode: Any = "raise") -> Any:
        """Return the elements at some indices."""
        if out is not None:
            return super().take(indices, axis, out, mode)
        return _moved(self, lambda array: array.take(_plain(indices), axis, mode=mode))

    def repeat(self, repeats: Any, axis: Any = None) -> Any:
        """Return each element several times."""
        return _moved(self, lambda array: array.repeat(repeats, axis))

    def astype(self, dtype: Any, *args: Any, **options: Any) -> Any:
        """Return the elements as another type, written where these are."""
        return _moved(self, lambda array: array.astype(dtype, *args, **options), np.asarray)

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

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Compute on plain arrays; elements of `out` are written."""
        outs = options.pop("out", ())
        if outs:
            options["out"] = tuple(map(_plain, outs))
        if "where" in options:
            options["where"] = _plain(options["where"])
        result = getattr(ufunc, method)(*map(_plain, inputs), **options)
        for out in outs:
            known = out.written if isinstance(out, EmptyArray) else None
            if known is not None:
                np.copyto(known, True, where=options.get("where", True) if _maps(method) else True)
        return outs[0] if len(outs) == 1 else result

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Copy with what is known of the elements; let NumPy do the rest."""
        if function is np.copyto:
            return _copy_to(*args, **kwargs)
        if function in _MOVING and args and kwargs.get("out") is None:
            return _gathered(function, *args, **kwargs)
        return super().__array_function__(function, types, args, kwargs)


# Functions that move elements of their first argument, and do not come to methods of an array.
_MOVING = frozenset({np.copy, np.concatenate, np.tile, np.roll, np.broadcast_to})
# Options of theirs that concern values.
_OF_VALUES = ("dtype", "casting")


def _maps(method: str) -> bool:
    """Return True if a ufunc's `where` is about the elements of its result."""
    return method == "__call__"


def _restored(values: Array, written: Array | None) -> EmptyArray:
    if written is None:
        return values.view(EmptyArray)
    result = uninitialised(values)
    known = result.written
    assert known is not None
    known[...] = written
    return result


def _plain(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, EmptyArray) else value


def _written(value: Any) -> Any:
    """Return which elements of a value are written: all, if nothing else is known."""
    known = value.written if isinstance(value, EmptyArray) else None
    return True if known is None else known


def _moved(
    array: EmptyArray,
    move: Callable[[Array], Any],
    mark: Callable[[Array], Any] | None = None,
) -> Any:
    """Return what `move` makes of the elements, with an account of them.

    It is that of the array for a view, and another one for a copy, in which those elements are
    written that `mark` (by default `move`) makes of the account.
    """
    result, known = move(array.view(np.ndarray)), array.written
    if known is None or not isinstance(result, np.ndarray):
        return result
    assert array.account is not None
    if array.account.of(result) is not None:
        view = result.view(EmptyArray)
        view.account = array.account
        return view
    return _fresh(result, (mark or move)(known))


def _fresh(result: Array, written: Array) -> EmptyArray:
    """Return a new array with an account of its own."""
    owner = result if result.base is None else result.copy("K")
    marked = owner.view(EmptyArray)
    marked.account = Account(owner, np.zeros(owner.size, np.bool_))
    known = marked.written
    if known is not None:
        known[...] = written
    return marked


def _gathered(function: Any, source: Any, *args: Any, **options: Any) -> Any:
    """Return what a function that moves elements makes of one array, or of several."""
    if isinstance(source, EmptyArray):
        return _moved(source, lambda array: function(array, *args, **options))
    if not isinstance(source, list | tuple):
        return function(source, *args, **options)
    result = function([_plain(part) for part in source], *args, **options)
    truths = [np.broadcast_to(_written(part), np.shape(part)) for part in source]
    about = {name: value for name, value in options.items() if name not in _OF_VALUES}
    return _fresh(result, function(truths, *args, **about))


def _copy_to(to: Any, source: Any, casting: Any = "same_kind", where: Any = True) -> None:
    """Copy elements as `np.copyto` does; those that were not written are not in the copy either."""
    np.copyto(_plain(to), _plain(source), casting=casting, where=_plain(where))
    known = to.written if isinstance(to, EmptyArray) else None
    if known is not None:
        np.copyto(known, _written(source), where=_plain(where))


def empty(shape: int | tuple[int, ...], dtype: Any = np.float32) -> EmptyArray:
    """A new array in the host's memory whose elements nobody has written.

    Under the check `undef` a kernel that uses an element of it before one was written is reported.
    Raises `ArgumentError` for what is no shape or dtype.
    """
    try:
        plain = np.zeros(shape, dtype)
        return uninitialised(plain)
    except MemoryError as error:
        raise ArgumentValueError(f"tile.empty: there is no memory for it: {error}") from None
    except TypeError as error:
        raise ArgumentTypeError(f"tile.empty: {error}") from None
    except ValueError as error:
        raise ArgumentValueError(f"tile.empty: {error}") from None


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
