"""Random kernels, as hypothesis strategies or by dice: well typed, always in bounds, free of races, finite.

`modules()` draws a `Case`: a module at the TILE level with everything that it takes to run it. Every
choice is hypothesis', so a failure shrinks; `make` takes choices from elsewhere. What a case
promises, whatever was drawn:

- every access that a mask leaves on is inside its array, and what a mask leaves out never matters;
- programs write to regions of their own, or by atomic operations whose order cannot be seen; so all
  orders of programs give the same memory;
- loops end, integer divisors are odd, and no floating-point result depends on an order of summation
  (sums, products and dots are of small integers), so backends must agree to the bit, but for the
  payload of NaNs and the sign of a zero out of `min` or `max`, which never become visible;
- only arrays named in `Case.loose` hold results that may be off by some ulp.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.fuzz.makers import MAKERS
from tests.fuzz.results import linear_program, probe, witness
from tests.fuzz.sizes import GRIDS, SHARED, SMALL, TILES, Sizes
from tests.fuzz.statements import statements, store_tile
from tests.fuzz.writer import Callee, Pick, Writer
from tile.ir import semantics
from tile.ir.core import Function
from tile.ir.module import Module
from tile.ir.ops import arith, control, memory
from tile.ir.parameters import Argument
from tile.ir.printer import print_module
from tile.ir.types import ALL, F32, FP8, I1, I32, I64, U32, Pointer, Scalar, Type, with_shape

ATOMICS = {
    I32: ("add", "max", "min", "and", "or", "xor"),
    U32: ("add", "max", "min", "xor"),
    I64: ("add", "max"),
    F32: ("add",),
}


class Case:
    """A kernel with a grid and arguments. No dataclass, so that hypothesis shows its text.

    loose: names of arrays whose elements may be off by some ulp.
    exact: other elements depend on quotients of floats, which must be rounded to nearest.
    """

    def __init__(
        self,
        module: Module,
        grid: tuple[int, int, int],
        inputs: list[Any],
        seed: int = 0,
        loose: frozenset[str] = frozenset(),
        *,
        exact: bool = True,
    ) -> None:
        self.module = module
        self.grid = grid
        self.inputs = inputs
        self.seed = seed
        self.loose = loose
        self.exact = exact

    def __repr__(self) -> str:
        shown = "".join(f"{v}\n" for v in self.inputs if not isinstance(v, np.ndarray))
        return f"{print_module(self.module)}\ngrid {self.grid}, seed {self.seed}, scalars\n{shown}"

    def arguments(self) -> list[Any]:
        """The arguments, arrays copied."""
        return [x.copy() if isinstance(x, np.ndarray) else x for x in self.inputs]

    @property
    def names(self) -> list[str]:
        return [value.name for value in self.module.kernel.args]


def _below(count: int, cache: dict[int, Any] = {}) -> Any:  # noqa: B006
    if count not in cache:
        cache[count] = st.integers(0, count - 1)
    return cache[count]


def _numbers(seed: int, element: Scalar, count: int) -> Any:
    """Input data: numbers of every size, the odd ones of floats too."""
    random = np.random.default_rng(seed)
    dtype = semantics.numpy_dtype(element)
    if element.is_bool():
        return random.random(count) < 0.5
    if element.is_floating():
        values = (random.standard_normal(count) * 4).astype(np.float32)
        values = np.where(random.random(count) < 0.3, np.round(values), values)
        odd = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, 1e-3, 448.0], np.float32)
        chosen = random.random(count) < 0.2
        values[chosen] = odd[random.integers(0, len(odd), int(chosen.sum()))]
        return values.astype(dtype)
    info = np.iinfo(dtype)
    values = random.integers(info.min, info.max, count, dtype, endpoint=True)
    small = random.random(count) < 0.6
    values[small] = random.integers(0, 20, int(small.sum())).astype(dtype)
    return values


@st.composite
def drawn(draw: Any, maker: Callable[[Pick], Case]) -> Case:
    """A kernel that `maker` makes, with its grid and arguments, all by hypothesis' choice."""
    return maker(lambda count: int(draw(_below(count))))


def modules(functions: bool = True, sizes: Sizes = SMALL) -> st.SearchStrategy[Case]:
    """Random kernels with grids and arguments; see the top."""
    return drawn(partial(make, functions=functions, sizes=sizes))


def make(pick: Pick, functions: bool = True, sizes: Sizes = SMALL) -> Case:
    """A kernel with its grid and arguments, as `pick` chooses."""
    grid = GRIDS[pick(len(GRIDS))]
    programs = math.prod(grid)
    chosen = [ALL[pick(len(ALL))] for _ in range(1 + pick(3))]
    elements = tuple(dict.fromkeys((I32, I1, *chosen)))
    seed = pick(1000)
    names: list[str] = []
    types: list[Type] = []
    inputs: list[Any] = []
    for index, element in enumerate((*elements, I32)):
        names.append(f"in_{element}_{index}")
        types.append(Pointer(element))
        inputs.append(_numbers(seed + index, element, sizes.elements))
    for element in elements:
        names.append(f"out_{element}")
        types.append(Pointer(element))
        inputs.append(_numbers(seed + 99, element, programs * sizes.region))
    for element in elements:
        if element in ATOMICS:
            kind = ATOMICS[element][pick(len(ATOMICS[element]))]
            names.append(f"shared_{kind}_{element}")
            types.append(Pointer(element))
            inputs.append(
                (_numbers(seed + 50, I32, SHARED) & 3).astype(semantics.numpy_dtype(element))
            )
    for element in elements:
        if element not in FP8:
            names.append(f"n_{element}")
            types.append(element)
            inputs.append(_numbers(seed + 7, element, 1)[0])
    names.append("probe")
    types.append(Pointer(F32))
    inputs.append(np.zeros(programs * 32, np.float32))

    kernel = Function("kernel", types, names, kernel=True)
    kernel.arguments = [_promise(ty, value) for ty, value in zip(types, inputs, strict=True)]
    module = Module()
    callees: list[Callee] = []
    if functions:
        for index in range(pick(3)):
            callees.append(_callee(pick, f"helper{index}", elements, callees, sizes))
    writer = Writer(pick, kernel, callees, sizes, MAKERS)
    writer.elements = elements
    scope = writer.scopes[0]
    for value in kernel.args:
        if value.name.startswith("in_"):
            scope.extents[value] = sizes.elements
        elif value.name.startswith("n_"):
            writer.keep(value)
    row = writer.emit(arith.mul, linear_program(writer), writer.constant(sizes.region, I32))
    for value in kernel.args:
        if value.name.startswith("out_"):
            element = value.type.element.pointee
            own = writer.emit(memory.addptr, value, row, stride=element.itemsize)
            scope.own.append((own, element))
            scope.extents[own] = TILES * sizes.elements  # a power of two
    statements(writer, 1 + pick(6))
    store_tile(writer)
    witness(writer)
    probe(writer, kernel.args[-1])
    writer.build.op(control.return_)
    for callee in callees:
        module.add(callee.function)
    module.add(kernel)
    return Case(module, grid, inputs, seed, frozenset({"probe"}))


def _promise(ty: Type, value: Any) -> Argument:
    """Return facts about an argument, as a launch would compute them."""
    if isinstance(ty, Pointer):
        return Argument()  # copies of the arrays may lie anywhere
    return Argument(16 if ty.element.is_int() and ty != I1 and int(value) % 16 == 0 else 1)


def _callee(
    pick: Pick,
    name: str,
    elements: tuple[Scalar, ...],
    callees: list[Callee],
    sizes: Sizes,
) -> Callee:
    """A device function that may read, store in its program's region, and call those before it."""

    def some_type() -> Type:
        return with_shape(sizes.shapes[pick(len(sizes.shapes))], elements[pick(len(elements))])

    plain = [some_type() for _ in range(pick(4))]
    results = [some_type() for _ in range(pick(3))]
    names = [f"{prefix}_{e}" for prefix in ("in", "own") for e in elements]
    pointers: list[Type] = [Pointer(e) for _ in range(2) for e in elements]
    function = Function(
        name,
        [*pointers, *plain],
        [*names, *("" for _ in plain)],
        results,
        noinline=pick(2) == 1,
    )
    writer = Writer(pick, function, callees, sizes, MAKERS)
    writer.elements = elements
    scope = writer.scopes[0]
    for value in function.args:
        if value.name.startswith("in_"):
            scope.extents[value] = sizes.elements
        elif value.name.startswith("own_"):
            scope.own.append((value, value.type.element.pointee))
            scope.extents[value] = TILES * sizes.elements
        else:
            writer.keep(value, "parameter")
    statements(writer, writer.number(0, 3))
    writer.build.op(control.return_, *(writer.value(ty) for ty in results))
    return Callee(function, pointers)
