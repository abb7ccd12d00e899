"""Proofs that an access through pointers is one to a block of an array, as through a descriptor.

    %p + (row + i2) * %stride + (column + i1), where row + i2 < %m and column + i1 < %k

is the block of the array at %p, of %m rows of %k elements, at (row, column). All of these follow
from the forms of pointers and mask (`tile.analysis.index_forms`):

- The array's address, stride and extents are a kernel's arguments, constants, or these multiplied,
  as launches know them. The address and the stride are multiples of 16 bytes.
- The start along each axis is not negative, or the mask says so of the index; and it fits i32.
- Where the mask has no bound, any index is in bounds: the extent is 2^31 as an unsigned number.
- What else is added, numbers times strides that launches know, are indices along outer axes.
- Rows modulo %m are rows below %m, where those from %m on do not matter (`reason_for_use`):

    %a = load rows (%u + i2) % %m             // rows from %m - %u on
    %c = dot %a, %b, %acc                     // are those rows of the dot alone
    store %p, %c, (%u + i2 < %m) and ..       // which are not stored
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

from tile.analysis.axis_lattice import divisor
from tile.analysis.dot_tiles import column_split
from tile.analysis.index_forms import (
    Bounds,
    IndexForms,
    NoFormError,
    Remainder,
    Wrap,
    index_bounds,
    index_forms,
    moved_axes,
)
from tile.analysis.interval import Interval
from tile.analysis.polynomial import Polynomial
from tile.ir.core import Block, Function, Operation, Value
from tile.ir.descriptor_type import Descriptor
from tile.ir.effects import is_pure, is_zero
from tile.ir.op_definition import Trait
from tile.ir.ops import control, memory
from tile.ir.types import I32, I64, Pointer, Scalar, Tile

UNBOUNDED = Polynomial.constant(I32.min_value)  # 2^31 as an unsigned number
_FAR = 1 << 30


@dataclass(frozen=True)
class BlockAxis:
    """An axis of a block: `start` and `extent` in elements of the array, `stride` in memory."""

    start: Polynomial
    extent: Polynomial
    stride: Polynomial


@dataclass(frozen=True)
class PointerBlock:
    """A block of the array at `base`; the last axis is contiguous.

    Its last axes are those of the tile, in the other order if it is `transposed`. Along axes before
    them it has one element.
    """

    base: Value
    axes: tuple[BlockAxis, ...]
    transposed: bool


class PointerBlocks:
    """The blocks that the accesses of one kernel address."""

    def __init__(self, function: Function) -> None:
        self.function = function
        self._ascending: list[tuple[Value, Polynomial, Sequence[int]]] = []
        self._split = 0  # the number of forms that `ascending` has seen

    @cached_property
    def forms(self) -> IndexForms:
        return index_forms(self.function)

    def of(self, op: Operation) -> PointerBlock:
        """Return the block that a load or store addresses.

        Raises `NoFormError` with the reason if it is not proven to be one.
        """
        tile, pointers = op["ptr"].type, op["ptr"]
        if not isinstance(tile, Tile) or tile.rank not in (1, 2) or 1 in tile.shape:
            raise NoFormError(f"it accesses {tile}, not a vector or matrix")
        if op.attributes.get("volatile"):
            raise NoFormError("it is volatile")
        if op.defn is memory.load and not is_zero(op["other"]):
            raise NoFormError("elements that the mask excludes are other than zero")
        form = self.forms.of(pointers)
        base, offset = self.base_of(form.polynomial)
        uniform, coefficients = self.forms.by_axis(offset)
        inner = next((axis for axis in (-1, -2) if _number(coefficients, axis) == 1), None)
        outer = -1 if inner == -2 else -2
        if inner is None or (tile.rank > 1 and outer not in coefficients):
            raise NoFormError("no axis is contiguous, next to one that has a stride")
        bounds = index_bounds(self.forms, op["mask"], tile.shape)
        wraps = {wrap.axis: wrap for wrap in form.wraps}
        if len(wraps) < len(form.wraps):
            raise NoFormError("several remainders along one axis")
        before: list[BlockAxis] = []
        rows: list[BlockAxis] = []
        column = uniform
        if tile.rank > 1:
            stride = coefficients[outer]
            self.check_stride(stride, tile)
            single = stride.single
            assert single is not None
            row, column = uniform.split_by(single)
            *before, last = self.axes(op, outer, row, bounds, wraps.get(outer), stride)
            rows = [last]
        one = Polynomial.constant(1)
        *others, columns = self.axes(op, inner, column, bounds, wraps.get(inner), one)
        axes = (*before, *others, *rows, columns)
        if len(axes) > Descriptor.MAX_RANK:
            raise NoFormError(f"it has {len(axes)} axes, and a block at most {Descriptor.MAX_RANK}")
        return PointerBlock(base, axes, inner == -2)

    def find(self, op: Operation) -> PointerBlock | None:
        """Return the block that a load or store addresses; None if it is not proven to be one."""
        try:
            return self.of(op)
        except NoFormError:
            return None

    def base_of(self, pointers: Polynomial) -> tuple[Value, Polynomial]:
        """Return the argument that points to the array, and the offset from it in elements."""
        bases = [
            atom
            for atom in map(self.forms.atoms.__getitem__, pointers.atoms())
            if isinstance(atom, Value) and isinstance(atom.type.element, Pointer)
        ]
        if len(bases) != 1:
            raise NoFormError("its pointers have no single base")
        (base,) = bases
        if not self.is_argument(base):
            raise NoFormError(f"{_name(base)} is not an argument of the kernel")
        assert isinstance(base.type, Pointer)
        if not isinstance(base.type.pointee, Scalar) or base.type.pointee.bits < 8:
            raise NoFormError(
                f"{_name(base)} points to {base.type.pointee}, which TMA does not copy"
            )
        if self.function.arguments[base.index].divisible % Descriptor.ALIGNMENT:
            raise NoFormError(f"{_name(base)} is not known to be a multiple of 16 bytes")
        return base, pointers - self.forms.atom(base)

    def is_argument(self, value: Value) -> bool:
        block = value.owner
        return isinstance(block, Block) and block.owner is self.function and self.function.kernel

    def check_stride(self, stride: Polynomial, tile: Tile) -> None:
        """Raise `NoFormError` for a stride that launches do not know, or of other than 16 bytes."""
        self.check_launch(stride, "a stride", (I32, I64))
        assert isinstance(tile.of, Pointer)
        if self.divisor(stride) * tile.of.pointee.itemsize % Descriptor.ALIGNMENT:
            raise NoFormError("a stride is not known to be a multiple of 16 bytes")

    def check_launch(self, number: Polynomial, what: str, types: tuple[Scalar, ...]) -> None:
        """Raise `NoFormError` for a number that is no constant or multiplication of arguments."""
        atoms = [self.forms.atoms[atom] for atom in number.atoms()]
        is_positive = number.single is not None and 0 < number.single[1] <= I32.max_value
        if not is_positive or not all(
            isinstance(atom, Value) and self.is_argument(atom) and atom.type in types
            for atom in atoms
        ):
            raise NoFormError(f"{what} is not known when the kernel is launched")

    def divisor(self, number: Polynomial) -> int:
        """Return a power of two that divides a number."""
        least = divisor(0)
        for monomial, coefficient in number.terms:
            term = divisor(coefficient)
            for atom in map(self.forms.atoms.__getitem__, monomial):
                term *= self.forms.facts.of(atom).divisible[0] if isinstance(atom, Value) else 1
            least = min(least, term)
        return least

    def axes(
        self,
        op: Operation,
        axis: int,
        start: Polynomial,
        bounds: Bounds,
        wrap: Wrap | None,
        stride: Polynomial,
    ) -> list[BlockAxis]:
        """Return an axis of the tile as one of the block, after others along which it starts.

        Raises `NoFormError` if there is none.
        """
        try:
            return [self.axis(op, axis, start, bounds, wrap, stride)]
        except NoFormError as reason:
            upper = bounds.upper.get(axis, set())
            limit = next(iter(upper)) if len(upper) == 1 else None
            own, others = self.split_start(start, stride, limit)
            if not others:
                raise
            try:
                last = self.axis(op, axis, own, bounds, wrap, stride)
                return [*[self.outer_axis(op, *item) for item in others.items()], last]
            except NoFormError:
                raise reason from None

    def split_start(
        self, start: Polynomial, stride: Polynomial, limit: Polynomial | None
    ) -> tuple[Polynomial, dict[Polynomial, Polynomial]]:
        """Return the part of a start that is along its axis, and those along others by strides.

        Along other axes are numbers that are multiplied by arguments of the kernel, and numbers to
        which the limit of the mask is not relative.
        """
        own = Polynomial()
        others: dict[Polynomial, Polynomial] = {}

        def move(number: Polynomial, multiplier: Polynomial) -> None:
            other = multiplier * stride
            others[other] = others.get(other, Polynomial()) + number

        for monomial, number in start.terms:
            arguments = tuple(atom for atom in monomial if self.is_launch_atom(atom))
            rest = tuple(atom for atom in monomial if not self.is_launch_atom(atom))
            if arguments and rest:
                move(Polynomial.of({rest: number}), Polynomial.of({arguments: 1}))
            else:
                own += Polynomial.of({monomial: number})
        for monomial, number in () if limit is None else (own + limit).terms:
            if not all(map(self.is_launch_atom, monomial)):
                term = Polynomial.of({monomial: number})
                move(term, Polynomial.constant(1))
                own -= term
        return own, others

    def is_launch_atom(self, number: int) -> bool:
        """Return True for an argument of the kernel."""
        atom = self.forms.atoms[number]
        return isinstance(atom, Value) and self.is_argument(atom)

    def outer_axis(self, op: Operation, stride: Polynomial, start: Polynomial) -> BlockAxis:
        """Return an axis along which a block has one element."""
        self.check_stride(stride, op["ptr"].type)
        self.check_start(op, start, 0)
        return BlockAxis(start, UNBOUNDED, stride)

    def axis(
        self,
        op: Operation,
        axis: int,
        start: Polynomial,
        bounds: Bounds,
        wrap: Wrap | None,
        stride: Polynomial,
    ) -> BlockAxis:
        """Return the axis of a block that starts there. Raises `NoFormError` if there is none."""
        lower, upper = bounds.lower.get(axis, set()), bounds.upper.get(axis, set())
        if len(upper) > 1:
            raise NoFormError("the mask has several bounds along an axis")
        if wrap is not None:
            extent = self.wrapped(op, wrap, start, bool(upper))
        elif upper:
            extent = start + next(iter(upper))
            self.check_launch(extent, "the bound of the mask, from the array's start,", (I32,))
        else:
            extent = self.divisor_of(start) or UNBOUNDED
        if lower and lower != {-start}:
            raise NoFormError("the mask has a lower bound other than the array's first element")
        reach = op["ptr"].type.shape[axis] - 1 if extent is UNBOUNDED else 0
        self.check_start(op, start, reach, may_be_negative=bool(lower))
        return BlockAxis(start, extent, stride)

    def check_start(
        self, op: Operation, start: Polynomial, reach: int, *, may_be_negative: bool = False
    ) -> None:
        """Raise `NoFormError` for a start that may be negative, or not fit 32 bits.

        reach: the greatest index that is added to it.
        """
        interval, whole = self.forms.interval(start), Interval(I32.min_value, I32.max_value - reach)
        is_positive = may_be_negative or (interval is not None and interval.low >= 0)
        fits = interval is not None and interval.meet(whole) == interval
        starts = [] if is_positive and fits else list(self.starts(op, start))
        if not is_positive and not self.is_positive(starts):
            raise NoFormError("a start is not proven to be positive or zero; tl.assume can say so")
        if not fits and not _fits(starts, reach):
            raise NoFormError("a start is not proven to fit i32")

    def wrapped(self, op: Operation, wrap: Wrap, start: Polynomial, masked: bool) -> Polynomial:
        """Return the extent of an axis whose indices are remainders."""
        if masked or start != wrap.start:
            raise NoFormError("a remainder is combined with a mask, or with another index")
        self.check_launch(wrap.limit, "the divisor of a remainder", (I32,))
        if op.defn is not memory.load:
            raise NoFormError("it stores to the remainders of indices")
        reason = reason_for_use(self.forms, op.result, wrap)
        if reason is not None:
            raise NoFormError(
                "its indices are remainders, of which the block has those below the divisor, and "
                f"{reason}"
            )
        return wrap.limit

    def divisor_of(self, start: Polynomial) -> Polynomial | None:
        """Return the divisor, if a start is a remainder and launches know its divisor."""
        single = start.single
        atom = None if single is None or len(single[0]) != 1 else self.forms.atoms[single[0][0]]
        if not isinstance(atom, Remainder) or start != self.forms.atom(atom):
            return None
        self.check_launch(atom.divisor, "the divisor of a remainder", (I32,))
        return atom.divisor

    def starts(self, op: Operation, start: Polynomial) -> Iterator[tuple[Value, int]]:
        """Yield integers before an access of which the least is a start, and how many follow it.

        They are the start itself, its sums with the indices of a tile, and multiples of it, which
        count as if all numbers up to twice the start followed it.
        """
        blocks = {op.block, *[parent.block for parent in op.ancestors()]}
        for value, uniform, axes in self.ascending():
            if value.block not in blocks:
                continue
            if uniform == start:
                yield value, max([value.type.shape[axis] - 1 for axis in axes], default=0)
            elif _is_multiple(uniform, start):
                yield value, _FAR

    def ascending(self) -> list[tuple[Value, Polynomial, Sequence[int]]]:
        """Return the values that are a part without indices and indices times positive numbers.

        Each comes with that part and the axes of the indices.
        """
        computed = list(islice(self.forms.computed(), self._split, None))
        self._split += len(computed)
        for value, form in computed:
            if form.wraps:
                continue
            uniform, steps = self.split_indices(form.polynomial)
            if not any(step.number is None or step.number < 1 for step in steps.values()):
                self._ascending.append((value, uniform, tuple(steps)))
        return self._ascending

    def split_indices(self, number: Polynomial) -> tuple[Polynomial, dict[int, Polynomial]]:
        """Return the part of a polynomial without indices, and by what each index is multiplied."""
        try:
            return self.forms.by_axis(number)
        except NoFormError:
            return number, {}

    def is_positive(self, starts: Sequence[tuple[Value, int]]) -> bool:
        """Return True if one of the values of which a start is the least is not negative."""
        intervals = [self.forms.ranges.of(value) for value, _ in starts]
        return any(interval is not None and interval.low >= 0 for interval in intervals)


def _fits(starts: Sequence[tuple[Value, int]], reach: int) -> bool:
    """Return True if one of the values is the sum of a start and an index up to `reach`, as i32."""
    return any(value.type.element is I32 and count >= reach for value, count in starts)


def _number(coefficients: dict[int, Polynomial], axis: int) -> int | None:
    return coefficients[axis].number if axis in coefficients else None


def _is_multiple(number: Polynomial, other: Polynomial) -> bool:
    """Return True if a number is another one, which is not zero, times a constant above 1."""
    if not other.terms or len(number.terms) != len(other.terms):
        return False
    monomial, coefficient = other.terms[0]
    multiple = dict(number.terms).get(monomial, 0) // coefficient
    return multiple > 1 and number == other * Polynomial.constant(multiple)


def _name(value: Value) -> str:
    return f"`{value.name}`" if value.name else "its base"


class _UsedError(Exception):
    """Raised for a use that may depend on the elements."""


def reason_for_use(forms: IndexForms, value: Value, wrap: Wrap) -> str | None:
    """Return what may use elements of a tile that a `Wrap` says nothing about; None if nothing."""
    worklist, seen = [(value, wrap)], {(value, wrap)}
    while worklist:
        tile, wrap = worklist.pop()
        for user, index in tile.uses:
            try:
                dependent = list(_dependent_wraps(forms, user, index, wrap))
            except (_UsedError, NoFormError) as error:
                return f"{user.name} uses them" + (f", as {error}" if str(error) else "")
            for each in dependent:
                if each not in seen:
                    seen.add(each)
                    worklist.append(each)
    return None


def _dependent_wraps(
    forms: IndexForms, user: Operation, index: int, wrap: Wrap
) -> Iterator[tuple[Value, Wrap]]:
    """Yield the tiles whose elements depend on those of an operand, each with its `Wrap`."""
    split = column_split(user)
    if split is None:
        for value, axis in _dependent(forms, user, index, wrap.axis, wrap):
            yield value, replace(wrap, axis=axis)
        return
    low, high = split
    before = low.type.shape[-1] if wrap.axis == -1 else 0
    yield low, wrap
    yield high, replace(wrap, start=wrap.start + Polynomial.constant(before))


def _dependent(
    forms: IndexForms, user: Operation, index: int, axis: int, wrap: Wrap
) -> Iterable[tuple[Value, int]]:
    """Return the tiles, and their axes, whose elements depend on those of an operand.

    Raises `_UsedError` if others may depend on them as well.
    """
    target = moved_axes(user)
    if target is not None:
        return [(user.result, target(axis))]
    if user.has_trait(Trait.DOT):
        return [(user.result, _axis_of_dot(index, axis))]
    if user.defn.elementwise and is_pure(user) and not _may_fault(user):
        return [(result, axis) for result in user.results]
    if user.defn is control.for_ and index >= _BOUNDS:
        position = index - _BOUNDS
        return [(user.regions[0].args[1 + position], axis), (user.results[position], axis)]
    if user.defn is control.yield_:
        return [(value, axis) for value in _yielded(forms, user, index, wrap)]
    if user.defn in (memory.store, memory.atomic_rmw) and user["value"] is user.operands[index]:
        _check_store(forms, user, axis, wrap)
        return []
    raise _UsedError


def _may_fault(op: Operation) -> bool:
    """Return True for a division of integers, which is undefined for a divisor of 0."""
    ty = op.result.type
    element = ty.element if isinstance(ty, Tile) else ty
    return op.has_trait(Trait.DIVISION) and not (
        isinstance(element, Scalar) and element.is_floating()
    )


_BOUNDS = 3  # the first operands of a `for`: its bounds and step


def _axis_of_dot(index: int, axis: int) -> int:
    """Return the axis of a dot's result along which the elements of an operand lie."""
    if index == 2 or (index, axis) in ((0, -2), (1, -1)):
        return axis
    raise _UsedError("it sums over them")


def _yielded(forms: IndexForms, end: Operation, index: int, wrap: Wrap) -> list[Value]:
    """Return what an operation that ends a region passes a value to."""
    parent = end.parent
    assert parent is not None
    if parent.defn is control.if_:
        return [parent.results[index]]
    if parent.defn is not control.for_:
        raise _UsedError(f"`{parent.name}` passes them on")
    if any(
        forms.varies(parent, atom) for part in (wrap.start, wrap.limit) for atom in part.atoms()
    ):
        raise _UsedError("another iteration has them, too")
    return [parent.regions[0].args[1 + index], parent.results[index]]


def _check_store(forms: IndexForms, store: Operation, axis: int, wrap: Wrap) -> None:
    """Raise for a store, or an atomic operation, of the elements."""
    if store.results and store.result.uses:
        raise _UsedError("its results are used")
    upper = index_bounds(forms, store["mask"], store["value"].type.shape).upper
    if wrap.limit - wrap.start not in upper.get(axis, set()):
        raise _UsedError("its mask does not leave them out")
