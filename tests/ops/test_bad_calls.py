"""Every op, with each argument made wrong in turn: an error that names it, and nothing written.

The first case of each op in `tests/ops/cases.py` is right; each table below changes one argument.
Changes of layout may also be right: then the results are those of the reference. So may changes of
shape, of which results have the shapes of the reference's: results without elements are results.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import tile
from tests.ops.cases import FIRST, Case, assert_close, function_of, reference_of, several
from tests.runtime.fake_cuda import CudaArray
from tests.sampling import sample
from tile.errors import ArgumentError, DeviceAssertionError

Array = np.ndarray[Any, Any]
Arguments = dict[str, Any]
OUTPUTS = [case for case in FIRST if "out" in inspect.signature(function_of(case.op)).parameters]


def read_only(array: Array) -> Array:
    copy = array.copy()
    copy.flags.writeable = False
    return copy


def every_other(array: Array) -> Array:
    """Return an equal array whose elements are two apart in memory."""
    memory = np.zeros((*array.shape, 2), array.dtype)
    memory[..., 0] = array
    return memory[..., 0]


NO_ARRAYS: dict[str, Callable[[Array], Any]] = {
    "a list": lambda array: array.tolist(),
    "a number": lambda array: 3,
    "text": lambda array: "x",
    "complex": lambda array: array.astype(np.complex64),
    "bool": lambda array: array.astype(np.bool_),
}
LAYOUTS: dict[str, Callable[[Array], Array]] = {
    "every other element": every_other,
    "backwards": lambda array: array[..., ::-1].copy()[..., ::-1],
    "columns first": lambda array: np.asfortranarray(array),
}
SHAPES: dict[str, Callable[[Array], Array]] = {
    "more axes": lambda array: array[(None,) * 6],
    "longer": lambda array: np.concatenate([array, array[:1]]),
    "longer rows": lambda array: np.concatenate([array, array[..., :1]], -1),
    "no elements": lambda array: array[:0],
    "no columns": lambda array: array[..., :0],
}
NO_VALUES = ("x", float("nan"), [1.0, 2.0, 3.0], {}, object(), np.ones(2), np.ones((2, 2)), 1j)
NO_INTEGERS = (1.5, 2**70)
NO_FLOATS = (1e39, -1e300, 10**400, float("inf"))  # beyond float32
NO_FLAGS = ("x", None, 2, 0.5, [1], np.ones(2), object())
# The arguments that are probabilities, or elements of which are.
PROBABILITIES: dict[str, tuple[str, ...]] = {
    "adamw": ("betas",),
    "binary_cross_entropy": ("target",),
    "binary_cross_entropy_backward": ("target",),
    "bce_loss": ("x", "target"),
    "bce_loss_backward": ("x", "target"),
    "dropout": ("p",),
    "kl_div": ("target",),
    "kl_div_backward": ("target",),
}


def arguments_of(case: Case) -> Arguments:
    args, kwargs = case.arguments("float32" if "float32" in case.dtypes else case.dtypes[0])
    names = list(inspect.signature(function_of(case.op)).parameters)
    return dict(zip(names, args, strict=False)) | kwargs


def arrays_in(value: Any) -> Iterator[Array]:
    """Yield the arrays of an argument: itself, or those of a list."""
    for leaf in value if isinstance(value, list | tuple) else [value]:
        if isinstance(leaf, np.ndarray):
            yield leaf


def arrays_of(arguments: Arguments, axes: int = 0) -> dict[str, Array]:
    """Return the arguments that are arrays, of so many axes or more."""
    arrays = {name: v for name, v in arguments.items() if isinstance(v, np.ndarray)}
    return {name: array for name, array in arrays.items() if array.ndim >= axes}


def call(case: Case, arguments: Arguments, function: Any = None) -> Any:
    """Return the results of a call, or the message of its error: then nothing is written.

    function: another one than the op itself.
    """
    arrays = [array for value in arguments.values() for array in arrays_in(value)]
    before = [array.copy() for array in arrays]
    try:
        with tile.backend("interp"):
            return several((function or function_of(case.op))(**arguments))
    except ArgumentError as error:
        for array, copy in zip(arrays, before, strict=True):
            assert array.tobytes() == copy.tobytes(), "a refused call wrote an array"
        return str(error)


def refused(case: Case, arguments: Arguments, name: str | None = None) -> None:
    """The call is refused, by a message that names the op and the argument."""
    message = call(case, arguments)
    assert isinstance(message, str), f"{name} was accepted"
    names = arguments if name is None else [name]
    assert case.op in message and any(f"`{each}" in message for each in names), message


def expected(case: Case, arguments: Arguments) -> tuple[Array, ...]:
    copies = {n: v.copy() if isinstance(v, np.ndarray) else v for n, v in arguments.items()}
    parameters = inspect.signature(reference_of(case.op)).parameters
    results = several(reference_of(case.op)(**{n: v for n, v in copies.items() if n in parameters}))
    return tuple(np.asarray(result) for result in results)


def refused_or_right(case: Case, arguments: Arguments) -> None:
    wanted = expected(case, arguments)
    results = call(case, arguments)
    if isinstance(results, str):
        assert any(f"`{each}" in results for each in arguments), results
        return
    for index, (result, right) in enumerate(zip(results, wanted, strict=True)):
        assert_close(result, right, case.ulps, f"result {index}", case.floor)


def each_op(cases: list[Case]) -> Any:
    return pytest.mark.parametrize("case", cases, ids=lambda case: case.op)


def each_op_by(changes: Iterable[str], each: int) -> Any:
    """Each op with so many of the changes, in rotation; nightly with all."""
    pairs = sample(FIRST, list(changes), each)
    return pytest.mark.parametrize(
        ("case", "change"), pairs, ids=lambda value: value.op if isinstance(value, Case) else value
    )


@each_op_by(NO_ARRAYS, 2)
def test_no_arrays(case: Case, change: str) -> None:
    arguments = arguments_of(case)
    for name, array in arrays_of(arguments).items():
        refused(case, {**arguments, name: NO_ARRAYS[change](array)}, name)


@each_op(FIRST)
def test_lists_of_no_arrays(case: Case) -> None:
    arguments = arguments_of(case)
    for name, value in arguments.items():
        if isinstance(value, list) and list(arrays_in(value)):
            for wrong in (3, [3], [*value[:-1], value[-1].astype(np.complex64)]):
                refused(case, {**arguments, name: wrong}, name)


@each_op(FIRST)
def test_mixed_dtypes(case: Case) -> None:
    """An array of another float type than the others is refused, or the results are right."""
    arguments = arguments_of(case)
    for name, array in arrays_of(arguments).items():
        if array.dtype.kind == "f":
            other = np.float16 if array.dtype == np.float32 else np.float32
            refused_or_right(case, {**arguments, name: array.astype(other)})


@each_op(FIRST)
def test_mixed_dtypes_of_lists(case: Case) -> None:
    arguments = arguments_of(case)
    for name, value in arguments.items():
        if isinstance(value, list) and len([*arrays_in(value)]) > 1:
            mixed = [*value[:-1], value[-1].astype(np.float16)]
            refused(case, {**arguments, name: mixed}, name)


@each_op([case for case in FIRST if any(isinstance(v, list) for v in arguments_of(case).values())])
@pytest.mark.parametrize("change", [*SHAPES, *LAYOUTS, "another device", "another list"])
def test_arrays_of_lists(case: Case, change: str) -> None:
    """A list in which an array differs from the others is refused, or the results are right."""
    make = {**SHAPES, **LAYOUTS, "another device": CudaArray, "another list": lambda array: [array]}
    arguments = arguments_of(case)
    for name, value in arguments.items():
        if isinstance(value, list):
            for at in (0, len(value) - 1):
                changed = [*value[:at], make[change](value[at]), *value[at + 1 :]]
                results = call(case, {**arguments, name: changed})
                if isinstance(results, str):
                    assert f"[{at}]`" in results or at == 0, results
                else:
                    refused_or_right(case, {**arguments, name: changed})


CHANGES: dict[str, Callable[[Array], Any]] = {
    **LAYOUTS,
    **SHAPES,
    "another dtype": lambda array: array.astype("f2" if array.dtype != np.float16 else "f4"),
    "another device": CudaArray,
    "a list": lambda array: array.tolist(),
}


@each_op_by(CHANGES, 1)
def test_calls_after_a_right_one(case: Case, change: str) -> None:
    """The plan of a call is for no other one: errors and results are those of the op itself."""
    function = inspect.unwrap(function_of(case.op))
    for _ in range(2):
        assert not isinstance(call(case, arguments_of(case)), str)
    for name, array in arrays_of(arguments_of(case), axes=1).items():
        results = call(case, arguments_of(case) | {name: CHANGES[change](array)})
        expected = call(case, arguments_of(case) | {name: CHANGES[change](array)}, function)
        if isinstance(expected, str):
            assert results == expected
        else:
            for result, right in zip(results, expected, strict=True):
                np.testing.assert_array_equal(result, right)


@each_op(FIRST)
def test_other_devices(case: Case) -> None:
    arguments = arguments_of(case)
    arrays = arrays_of(arguments)
    for name, array in arrays.items() if len(arrays) > 1 else ():
        message = call(case, {**arguments, name: CudaArray(array)})
        assert isinstance(message, str), f"{name} was accepted"
        assert "the arrays of a call are on one device" in message and f"`{name}`" in message


@each_op_by(LAYOUTS, 1)
def test_layouts(case: Case, change: str) -> None:
    arguments = arguments_of(case)
    for name, array in arrays_of(arguments, axes=1).items():
        refused_or_right(case, {**arguments, name: LAYOUTS[change](array)})


@each_op_by(SHAPES, 2)
def test_shapes(case: Case, change: str) -> None:
    arguments = arguments_of(case)
    for name, array in arrays_of(arguments, axes=1).items():
        changed = {**arguments, name: SHAPES[change](array)}
        results = call(case, changed)
        if isinstance(results, str):
            assert any(f"`{each}" in results for each in arguments), results
        else:
            wanted = [right.shape for right in expected(case, changed)]
            assert [result.shape for result in results] == wanted, name


@each_op(FIRST)
def test_values(case: Case) -> None:
    arguments = arguments_of(case)
    for name, parameter in inspect.signature(function_of(case.op)).parameters.items():
        value, kind = arguments.get(name, parameter.default), str(parameter.annotation)
        if name == "out" or list(arrays_in(value)):
            continue
        values = NO_FLAGS if kind == "bool" else NO_VALUES
        if kind != "bool":
            values = (*values, *(NO_FLOATS if kind.startswith("float") else NO_INTEGERS))
        for wrong in values:
            refused(case, {**arguments, name: wrong}, name)


@each_op([case for case in FIRST if case.op in PROBABILITIES])
def test_probabilities_beyond_their_range(case: Case) -> None:
    """A number that is not from 0 to 1, as one or as an element, has no result."""
    arguments = arguments_of(case)
    defaults = inspect.signature(function_of(case.op)).parameters
    for name in PROBABILITIES[case.op]:
        value = arguments.get(name, defaults[name].default)
        for wrong in (-0.25, 1.25, float("nan"), float("inf")):
            changed = wrong
            if isinstance(value, np.ndarray):
                changed = value.copy()
                changed.flat[value.size // 2] = wrong
            elif isinstance(value, tuple):
                changed = (wrong, *value[1:])
            refused(case, {**arguments, name: changed}, name)


@each_op(
    [
        case
        for case in FIRST
        if any(a.dtype.kind == "i" for a in arrays_of(arguments_of(case)).values())
    ]
)
def test_integers_beyond_their_range(case: Case) -> None:
    arguments = arguments_of(case)
    for name, array in arrays_of(arguments).items():
        if array.dtype.kind == "i" and array.dtype != np.int8:
            for wrong in (np.iinfo(array.dtype).min, np.iinfo(array.dtype).max):
                changed = array.copy()
                changed.flat[array.size // 2] = wrong
                refused(case, {**arguments, name: changed})


# What an index out of range, in device memory, has as its result there.
UNCHECKED = {
    "shift_conv": "a channel shifted out of the image is 0",
    "shift_conv_dgrad": "a channel shifted out of the image is 0",
    "shift_conv_wgrad": "a channel shifted out of the image is 0",
    "max_pool2d_backward": "a maximum at no pixel has no gradient",
    "adaptive_max_pool2d_backward": "a maximum at no pixel has no gradient",
    "linear_cross_entropy_backward": "a class that does not exist has no gradient",
}


@each_op(
    [
        case
        for case in FIRST
        if case.op not in UNCHECKED
        and any(a.dtype.kind == "i" for a in arrays_of(arguments_of(case)).values())
        and not any(a.dtype == np.int8 for a in arrays_of(arguments_of(case)).values())
    ]
)
def test_indices_in_device_memory(case: Case, device: type[CudaArray]) -> None:
    """They are not read before the launch: the kernel stops at one that is out of range."""
    arguments = arguments_of(case)
    for name, array in arrays_of(arguments).items():
        if array.dtype.kind == "i":
            for wrong in (-(2**30), 2**30):
                changed = array.copy()
                changed.flat[array.size // 2] = wrong
                arrays = {
                    n: device(np.ascontiguousarray(a)) for n, a in arrays_of(arguments).items()
                }
                arrays[name] = device(changed)
                with pytest.raises(DeviceAssertionError), tile.backend("interp"):
                    function_of(case.op)(**{**arguments, **arrays})


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> type[CudaArray]:
    """The class of arrays in device memory, of a library that makes more by `empty`."""
    library = ModuleType("cupyish")
    kind = type("ndarray", (CudaArray,), {"__module__": "cupyish"})
    library.empty = lambda shape, dtype: kind(np.empty(shape, dtype))
    monkeypatch.setitem(sys.modules, "cupyish", library)
    return kind


def results_of(case: Case) -> Any:
    with tile.backend("interp"):
        return function_of(case.op)(**arguments_of(case))


def mapped(function: Callable[[Array], Any], results: Any) -> Any:
    """Return a function's results for an array, or for each of a tuple."""
    return tuple(map(function, results)) if isinstance(results, tuple) else function(results)


@each_op(OUTPUTS)
def test_outputs(case: Case) -> None:
    arguments, results = arguments_of(case), results_of(case)
    for wrong in (
        lambda array: array.tolist(),
        lambda array: array.astype(np.complex64),
        lambda array: array[None],
        lambda array: np.concatenate([array, array[:1]]) if array.ndim else array[None],
        read_only,
    ):
        refused(case, {**arguments, "out": mapped(wrong, results)}, "out")
    refused(case, {**arguments, "out": 3}, "out")


@pytest.mark.parametrize(
    ("case", "change"),
    sample(OUTPUTS, list(LAYOUTS)),
    ids=lambda value: value.op if isinstance(value, Case) else value,
)
def test_layouts_of_outputs(case: Case, change: str) -> None:
    results = results_of(case)
    if all(result.ndim for result in several(results)):
        refused_or_right(case, {**arguments_of(case), "out": mapped(LAYOUTS[change], results)})


@each_op(OUTPUTS)
def test_outputs_in_the_memory_of_inputs(case: Case) -> None:
    results = results_of(case)
    for name, array in arrays_of(arguments_of(case)).items():
        for result in several(results):
            if (array.shape, array.dtype) == (result.shape, result.dtype):
                same = arguments_of(case)
                refused_or_right(case, {**same, "out": same[name]})
                memory = np.zeros(array.size + 1, array.dtype)
                memory[:-1] = array.ravel()
                ends = memory[:-1].reshape(array.shape), memory[1:].reshape(array.shape)
                refused(case, {**arguments_of(case), name: ends[0], "out": ends[1]}, "out")
