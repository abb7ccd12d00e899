"""Common parts of subcommands: kernels and arguments, tables, programs.

A command line names a kernel, its arguments and its grid.

    kernel.py:add                    the kernel `add` of a file
    x=fp32[1823,781]                 an array of random numbers (integers: 0 to 99)
    y=i32[64]:0                      an array filled with a number
    d=fp16[300,200]/64,32            a descriptor of an array, with blocks of 64 x 32
    d=fp16[300,200]:1/64,32,nan      a descriptor of an array of ones, padded with NaN
    n=781   scale=0.5   CAUSAL=true  a number or a constant

The arrays of a command line are drawn in order from one random generator.

`run_program` runs a user's program as Python would.
"""

from __future__ import annotations

import importlib.util
import math
import re
import runpy
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from tile.errors import ArgumentValueError
from tile.ir import semantics
from tile.ir.types import ALIASES, Padding, Scalar
from tile.runtime.arguments.tensor_descriptor import ALIGNMENT, TensorDescriptor
from tile.runtime.grid import cdiv

_ARRAY = re.compile(
    r"(?P<type>\w+)\[(?P<shape>[\d,\s]+)\](?::(?P<fill>[^\s/]+))?"
    r"(?:/(?P<block>\d+(?:,\d+)*)(?:,(?P<padding>[a-z]+))?)?"
)
_KEYWORDS = {"true": True, "false": False, "none": None}


def load_kernel(text: str) -> Any:
    """Return the object that `file.py:name` names.

    Raises `ArgumentValueError` if there is no such file or name, or if the file ends the process.
    """
    file, colon, name = text.rpartition(":")
    path = Path(file)
    if not colon or not name.isidentifier():
        raise ArgumentValueError(f"a kernel is named as in file.py:function, not {text!r}")
    if not path.is_file():
        raise ArgumentValueError(f"there is no file {file}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ArgumentValueError(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent))  # as if Python ran the file
    sys.modules[path.stem] = module
    try:
        spec.loader.exec_module(module)
    except SystemExit as ending:
        raise ArgumentValueError(
            f"{file} ends the process when it is imported; code that runs it as a program belongs"
            " under `if __name__ == '__main__':`"
        ) from ending
    if not hasattr(module, name):
        raise ArgumentValueError(f"{file} has no {name}")
    return getattr(module, name)


def parse_arguments(texts: Sequence[str], seed: int = 0) -> dict[str, Any]:
    """Return the arguments by name. Raises `ArgumentValueError` for text that cannot be parsed."""
    random = np.random.default_rng(seed)
    arguments = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise ArgumentValueError(f"an argument is given as in name=value, not {text!r}")
        arguments[name] = _value(name, value, random)
    return arguments


def _value(name: str, text: str, random: np.random.Generator) -> Any:
    match = _ARRAY.fullmatch(text)
    if match is None:
        return parse_constant(name, text)
    shape = tuple(int(extent) for extent in match["shape"].split(",") if extent.strip())
    array = _array(name, match["type"], shape, match["fill"], random)
    if match["block"] is None:
        return array
    block = [int(extent) for extent in match["block"].split(",")]
    padding = match["padding"] or Padding.ZERO.value
    return TensorDescriptor.from_tensor(_with_aligned_rows(array), block, padding)


def _with_aligned_rows(array: Any) -> Any:
    """Return a copy of an array whose base address and rows have the alignment of descriptors."""
    step = ALIGNMENT // array.itemsize
    *outer, columns = array.shape
    pitch = -(-columns // step) * step
    memory = np.zeros(math.prod(outer) * pitch + step, array.dtype)
    first = -memory.ctypes.data % ALIGNMENT // array.itemsize
    rows = memory[first : first + math.prod(outer) * pitch].reshape(*outer, pitch)
    rows[..., :columns] = array
    return rows[..., :columns]


def parse_constant(name: str, text: str) -> Any:
    """Return a number, True, False or None. Raises `ArgumentValueError` for other text."""
    if text.lower() in _KEYWORDS:
        return _KEYWORDS[text.lower()]
    for parse in (int, float):
        try:
            return parse(text)
        except ValueError:
            continue
    raise ArgumentValueError(
        f"{name} is a number, true, false, none, an array such as fp32[64,64] or a descriptor "
        f"such as fp32[64,64]/16,32, not {text!r}"
    )


def parse_grid(text: str) -> Any:
    """Return a grid: extents, as in 8 or 4,2, or a function of the arguments, as in cdiv(n, BLOCK).

    Raises `ArgumentValueError` for text that is no expression; so does the function if evaluating
    the expression fails.
    """
    try:
        return tuple(int(extent) for extent in text.split(","))
    except ValueError:
        pass
    try:
        code = compile(text, "--grid", "eval")
    except SyntaxError as error:
        raise ArgumentValueError(
            f"a grid is as in 8, 4,2 or cdiv(n, BLOCK), not {text!r}: {error.msg}"
        ) from None

    def grid(meta: dict[str, Any]) -> Any:
        try:
            return eval(code, {"__builtins__": {}, "cdiv": cdiv}, meta)
        except (NameError, TypeError, ArithmeticError) as error:
            raise ArgumentValueError(f"the grid {text} has no value: {error}") from error

    return grid


def _array(
    name: str, alias: str, shape: tuple[int, ...], fill: str | None, random: np.random.Generator
) -> Any:
    element = ALIASES.get(alias)
    if not isinstance(element, Scalar):
        raise ArgumentValueError(f"{name} has elements of {', '.join(ALIASES)}, not {alias!r}")
    dtype = semantics.numpy_dtype(element)
    if fill is not None:
        try:
            return np.full(shape, float(fill)).astype(dtype)
        except ValueError:
            raise ArgumentValueError(f"{name} is filled with a number, not {fill!r}") from None
    if element.is_floating():
        return random.standard_normal(shape).astype(dtype)
    return (
        random.integers(0, 2 if element.is_bool() else 100, math.prod(shape))
        .reshape(shape)
        .astype(dtype)
    )


def table(header: Sequence[str], rows: Sequence[Sequence[str]], left: Sequence[int] = ()) -> str:
    """Format a table: columns are right-aligned, except those whose indices are in `left`."""
    lines = [list(header), *map(list, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]

    def text(line: list[str]) -> str:
        cells = [
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        return "  ".join(cells).rstrip()

    return "\n".join([text(lines[0]), "  ".join("-" * w for w in widths), *map(text, lines[1:])])


@contextmanager
def _started_with(arguments: Sequence[str], folder: str) -> Iterator[None]:
    """Set `sys.argv` and the first entry of `sys.path` inside the `with` block."""
    argv, path = sys.argv[:], sys.path[:]
    sys.argv[:] = arguments
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.argv[:], sys.path[:] = argv, path


def run_program(name: str, arguments: Sequence[str], *, module: bool = False) -> int:
    """Run a file, or a module by its name, as the main program; return its exit status.

    Raises what the program raises, and `ArgumentValueError` if there is no such file.
    """
    try:
        if module:
            with _started_with([name, *arguments], ""):
                runpy.run_module(name, run_name="__main__", alter_sys=True)
        else:
            path = Path(name)
            if not path.is_file():
                raise ArgumentValueError(f"there is no program {name}")
            with _started_with([name, *arguments], str(path.resolve().parent)):
                runpy.run_path(name, run_name="__main__")
    except SystemExit as exit_:
        return _status(exit_.code)
    return 0


def _status(code: object) -> int:
    """Return the exit status of an argument of `sys.exit`; print it if it is a message."""
    if code is None:
        return 0
    if isinstance(code, int):
        return int(code)
    print(code, file=sys.stderr)
    return 1
