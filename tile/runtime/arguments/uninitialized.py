"""Uninitialized arrays: arrays that track which elements were written, for the check `undef`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, SupportsIndex

import numpy as np
from numpy.lib.stride_tricks import as_strided

from tile.backends.base import footprint
from tile.errors import ArgumentTypeError, ArgumentValueError
from tile.runtime.arguments.device_arrays import Array


@dataclass(frozen=True, eq=False)
class WrittenMap:
    """The mask of written elements of an allocation, in the order of its bytes.

    It keeps `memory`, the whole allocation, alive, so that its addresses are not reused.
    """

    memory: Array
    written: Array

    def mask_of(self, array: Array) -> Array | None:
        """Return the mask of a view; None if the view is not in this memory."""
        size = self.memory.itemsize
        if array.itemsize != size:
            return None
        first = (array.ctypes.data - self.memory.ctypes.data) // size
        steps = [stride // size for stride in array.strides]
        low, high = footprint(array.shape, steps, 1)
        if first + low < 0 or first + high > len(self.written):
            return None
        return as_strided(self.written[first:], array.shape, steps)

    def mask_span(self, array: Array) -> Array | None:
        """Return the mask from the lowest to the highest address of a view, in memory order."""
        if self.mask_of(array) is None or not array.size:
            return None
        upwards = [slice(None, None, -1) if s < 0 else slice(None) for s in array.strides]
        corner: Array = array.__getitem__(tuple(upwards)) if upwards else array
        size = self.memory.itemsize
        first = (corner.ctypes.data - self.memory.ctypes.data) // size
        reach = sum(s * (n - 1) for s, n in zip(corner.strides, corner.shape, strict=True))
        return self.written[first : first + reach // size + 1]


class EmptyArray(np.ndarray[Any, np.dtype[Any]]):
    """An array whose elements are undefined until they are written.

    Kernels write it, and so do assignments to elements (`x[...] = 0`), `fill`, `np.copyto`
    and `out=` of NumPy's functions; after any other write call `mark_written`. Views share the mask
    of written elements. A copy, also one by assignment, has its own mask with the same contents as
    the original. Results of arithmetic are plain arrays.
    """

    written_map: WrittenMap | None = None

    def __array_finalize__(self, obj: object) -> None:
        self.written_map = getattr(obj, "written_map", None)

    def __setitem__(self, key: Any, value: Any) -> None:
        super().__setitem__(key, value)
        mask = self.written
        if mask is not None:
            mask[key] = _written(value)

    def __getitem__(self, key: Any) -> Any:
        return _rearranged(self, lambda array: array[_plain(key)])

    def __reduce_ex__(self, protocol: SupportsIndex, /) -> Any:
        """Return the recipe to pickle the elements and the mask of written ones."""
        mask = self.written
        values = np.ascontiguousarray(self.view(np.ndarray)).reshape(self.shape)
        return _restored, (values, None if mask is None else np.array(mask))

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> Any:
        return self.copy()

    def copy(self, order: Any = "C") -> Any:
        """Return a copy with the same elements written."""
        return _rearranged(self, lambda array: array.copy(order))

    def flatten(self, order: Any = "C") -> Any:
        """Return a flattened copy."""
        return _rearranged(self, lambda array: array.flatten(order))

    def ravel(self, order: Any = "C") -> Any:
        """Return the flattened array, a view if possible."""
        return _rearranged(self, lambda array: array.ravel(order))

    def reshape(self, *shape: Any, **options: Any) -> Any:
        """Return the elements in another shape."""
        return _rearranged(self, lambda array: array.reshape(*shape, **options))

    def take(self, indices: Any, axis: Any = None, out: Any = None, mode: Any = "raise") -> Any:
        """Return the elements at some indices."""
        if out is not None:
            return super().take(indices, axis, out, mode)
        return _rearranged(self, lambda array: array.take(_plain(indices), axis, mode=mode))

    def repeat(self, repeats: Any, axis: Any = None) -> Any:
        """Return each element several times."""
        return _rearranged(self, lambda array: array.repeat(repeats, axis))

    def astype(self, dtype: Any, *args: Any, **options: Any) -> Any:
        """Return the elements cast to another type, with the same elements written."""
        return _rearranged(self, lambda array: array.astype(dtype, *args, **options), np.asarray)

    def fill(self, value: Any) -> None:
        """Write one value to all elements."""
        self[...] = value

    def mark_written(self) -> None:
        """Mark all elements as written."""
        mask = self.written
        if mask is not None:
            mask[...] = True

    @property
    def written(self) -> Array | None:
        """The mutable mask of written elements; None if it is not known."""
        return None if self.written_map is None else self.written_map.mask_of(self)

    def written_span(self) -> Array | None:
        """Return the mask of written elements in memory order, from the lowest address."""
        return (
            None if self.written_map is None else self.written_map.mask_span(self.view(np.ndarray))
        )

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        """Compute on plain arrays, and mark the elements of `out` as written."""
        outs = options.pop("out", ())
        if outs:
            options["out"] = tuple(map(_plain, outs))
        if "where" in options:
            options["where"] = _plain(options["where"])
        result = getattr(ufunc, method)(*map(_plain, inputs), **options)
        for out in outs:
            mask = out.written if isinstance(out, EmptyArray) else None
            if mask is not None:
                np.copyto(mask, True, where=options.get("where", True) if _maps(method) else True)
        return outs[0] if len(outs) == 1 else result

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        """Track written elements through functions that copy or rearrange; defer to NumPy else."""
        if function is np.copyto:
            return _copy_to(*args, **kwargs)
        if function in _REARRANGING and args and kwargs.get("out") is None:
            return _rearrange(function, *args, **kwargs)
        return super().__array_function__(function, types, args, kwargs)


# Functions that rearrange elements of their first argument without calling methods of it.
_REARRANGING = frozenset({np.copy, np.concatenate, np.tile, np.roll, np.broadcast_to})
# Their options that apply to values, and not to masks.
_OF_VALUES = ("dtype", "casting")


def _maps(method: str) -> bool:
    """Return True if a ufunc's `where` refers to the elements of its result."""
    return method == "__call__"


def _restored(values: Array, written: Array | None) -> EmptyArray:
    if written is None:
        return values.view(EmptyArray)
    result = uninitialized(values)
    mask = result.written
    assert mask is not None
    mask[...] = written
    return result


def _plain(value: Any) -> Any:
    return value.view(np.ndarray) if isinstance(value, EmptyArray) else value


def _written(value: Any) -> Any:
    """Return the mask of written elements of a value; True if all are, or it has no mask."""
    mask = value.written if isinstance(value, EmptyArray) else None
    return True if mask is None else mask


def _rearranged(
    array: EmptyArray,
    move: Callable[[Array], Any],
    move_mask: Callable[[Array], Any] | None = None,
) -> Any:
    """Return `move` of the elements, with a mask of written elements.

    A view shares the mask of the array. A copy has its own mask, `move_mask` of the array's mask;
    the default is `move`.
    """
    result, mask = move(array.view(np.ndarray)), array.written
    if mask is None or not isinstance(result, np.ndarray):
        return result
    assert array.written_map is not None
    if array.written_map.mask_of(result) is not None:
        view = result.view(EmptyArray)
        view.written_map = array.written_map
        return view
    return _with_own_map(result, (move_mask or move)(mask))


def _with_own_map(result: Array, written: Array) -> EmptyArray:
    """Return a new array with its own mask of written elements."""
    owner = result if result.base is None else result.copy("K")
    tracked = owner.view(EmptyArray)
    tracked.written_map = WrittenMap(owner, np.zeros(owner.size, np.bool_))
    mask = tracked.written
    if mask is not None:
        mask[...] = written
    return tracked


def _rearrange(function: Any, source: Any, *args: Any, **options: Any) -> Any:
    """Apply a function that rearranges elements to one array, or to several, and to the masks."""
    if isinstance(source, EmptyArray):
        return _rearranged(source, lambda array: function(array, *args, **options))
    if not isinstance(source, list | tuple):
        return function(source, *args, **options)
    result = function([_plain(part) for part in source], *args, **options)
    truths = [np.broadcast_to(_written(part), np.shape(part)) for part in source]
    about = {name: value for name, value in options.items() if name not in _OF_VALUES}
    return _with_own_map(result, function(truths, *args, **about))


def _copy_to(to: Any, source: Any, casting: Any = "same_kind", where: Any = True) -> None:
    """Copy elements like `np.copyto`, together with the mask of written ones."""
    np.copyto(_plain(to), _plain(source), casting=casting, where=_plain(where))
    mask = to.written if isinstance(to, EmptyArray) else None
    if mask is not None:
        np.copyto(mask, _written(source), where=_plain(where))


def empty(shape: int | tuple[int, ...], dtype: Any = np.float32) -> EmptyArray:
    """Return a new array in host memory with uninitialized elements.

    Under the check `undef`, a kernel that uses an element before it is written is reported. Raises
    `ArgumentError` for an invalid shape or dtype.
    """
    try:
        plain = np.zeros(shape, dtype)
        return uninitialized(plain)
    except MemoryError as error:
        raise ArgumentValueError(f"tile.empty: out of memory: {error}") from None
    except TypeError as error:
        raise ArgumentTypeError(f"tile.empty: {error}") from None
    except ValueError as error:
        raise ArgumentValueError(f"tile.empty: {error}") from None


def uninitialized(array: Array) -> EmptyArray:
    """Return a view of an array whose elements count as uninitialized, as in `tile.empty`.

    The contents do not change. Raises `ArgumentTypeError` for an object that is not a NumPy array
    (for a tensor on the CPU, pass `x.numpy()`), and `ArgumentValueError` for an array that is not
    contiguous.
    """
    if not isinstance(array, np.ndarray):
        raise ArgumentTypeError(
            f"tile.uninitialized takes a NumPy array, not a {type(array).__name__}; for a tensor, "
            "pass x.numpy()"
        )
    if not array.flags.c_contiguous:
        raise ArgumentValueError(
            f"tile.uninitialized takes a contiguous array; this one has strides {array.strides}"
        )
    plain = array.view(np.ndarray)
    result = plain.view(EmptyArray)
    result.written_map = WrittenMap(plain, np.zeros(plain.size, np.bool_))
    return result
