"""Integers and pointers of a function as polynomials of scalars and indices.

An element of a tile is a polynomial of the indices of the element along the tile's axes, and of
scalars that this analysis does not take apart:

    %r = splat (%pid * 64) + arange 0 to 64        // 64 * %pid + i1
    %p = addptr (splat %x), (%r as a column) * %n  // %x + 64 * %pid * %n + i2 * %n

Axes count from the right: `i1` is the index along the last one. A value that a `for` loop carries,
and to which each iteration adds the same, is a polynomial of the induction variable:

    for %k = 0 to %n step 32 iter(%p = %x) { .. yield (addptr %p, 32) }    // %p: %x + %k

**Overflow.** Signed arithmetic and conversions between signed integers are taken to be exact. In
the language it is an error if they overflow on the way to an address or to the mask of an access,
so only these may be taken apart.

**Remainders.** `rem (%u + i1), %m` of a dividend that is not negative equals `%u % %m + i1` if the
remainders count up along the whole axis (axis info), as they do if the extent of the axis divides
`%u` and `%m`. Otherwise it equals the dividend where that is less than `%m`. This is a `Wrap`,
which whoever uses the polynomial has to prove.

**Masks.** The comparisons of a mask bound the indices along axes (`index_bounds`):

    and (%row + i2 < %m), (i1 < %k - %c)      // i2 < %m - %row, i1 < %k - %c
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from tile.analysis.axis_info import AxisInfoResult, axis_info
from tile.analysis.interval import Interval, add, mul
from tile.analysis.polynomial import Polynomial
from tile.analysis.ranges import Ranges
from tile.ir.core import Block, Function, Operation, Value
from tile.ir.effects import constant_of
from tile.ir.op_definition import OpDef
from tile.ir.ops import arith, control, memory, shape
from tile.ir.ops.arith import Predicate
from tile.ir.types import I32, Pointer, Tile, Type


class NoFormError(Exception):
    """Raised for a value that is no polynomial, with the reason."""


@dataclass(frozen=True)
class AxisIndex:
    """The index of an element along an axis of a tile; -1 is the last one."""

    axis: int


@dataclass(frozen=True)
class Remainder:
    """The remainder of scalars, neither of which is negative."""

    dividend: Polynomial
    divisor: Polynomial


Atom = Value | AxisIndex | Remainder


@dataclass(frozen=True)
class Wrap:
    """A condition on a polynomial: `start` plus the index along the axis is less than `limit`.

    The index is that of the element. The polynomial says nothing about other elements.
    """

    axis: int
    start: Polynomial
    limit: Polynomial


@dataclass(frozen=True)
class Form:
    """A polynomial, and the conditions under which elements are equal to it."""

    polynomial: Polynomial
    wraps: frozenset[Wrap] = frozenset()

    def __add__(self, other: Form) -> Form:
        return Form(self.polynomial + other.polynomial, self.wraps | other.wraps)

    def __sub__(self, other: Form) -> Form:
        return Form(self.polynomial - other.polynomial, self.wraps | other.wraps)

    def __mul__(self, other: Form) -> Form:
        return Form(self.polynomial * other.polynomial, self.wraps | other.wraps)


class IndexForms:
    """The forms of a function's values, which are computed on demand."""

    def __init__(self, facts: AxisInfoResult, ranges: Ranges) -> None:
        self.facts = facts
        self.ranges = ranges
        self.atoms: list[Atom] = []
        self._numbers: dict[Atom, int] = {}
        self._forms: dict[Value, Form] = {}
        self._split: dict[Polynomial, tuple[Polynomial, dict[int, Polynomial]] | None] = {}

    # -- atoms

    def atom(self, atom: Atom) -> Polynomial:
        """Return an atom as a polynomial."""
        return Polynomial.atom(self.number(atom))

    def number(self, atom: Atom) -> int:
        """Return the number of an atom in polynomials."""
        if atom not in self._numbers:
            self._numbers[atom] = len(self.atoms)
            self.atoms.append(atom)
        return self._numbers[atom]

    def axes_of(self, polynomial: Polynomial) -> set[int]:
        """Return the axes whose indices a polynomial has."""
        atoms = (self.atoms[number] for number in polynomial.atoms())
        return {atom.axis for atom in atoms if isinstance(atom, AxisIndex)}

    def by_axis(self, polynomial: Polynomial) -> tuple[Polynomial, dict[int, Polynomial]]:
        """Return the part without indices, and what each index is multiplied by.

        Raises `NoFormError` if an index is multiplied by another one.
        """
        if polynomial not in self._split:
            self._split[polynomial] = self._split_by_axis(polynomial)
        parts = self._split[polynomial]
        if parts is None:
            raise NoFormError("indices are multiplied by each other")
        return parts

    def _split_by_axis(
        self, polynomial: Polynomial
    ) -> tuple[Polynomial, dict[int, Polynomial]] | None:
        rest, coefficients = polynomial, {}
        for axis in sorted(self.axes_of(polynomial)):
            index = self.number(AxisIndex(axis))
            coefficients[axis] = polynomial.coefficient(index)
            rest -= coefficients[axis] * Polynomial.atom(index)
        if self.axes_of(rest) or any(map(self.axes_of, coefficients.values())):
            return None
        return rest, coefficients

    def interval(self, polynomial: Polynomial) -> Interval | None:
        """Return the interval of a polynomial without indices, from those of its atoms."""
        total = Interval(0, 0)
        for monomial, number in polynomial.terms:
            term = Interval(number, number)
            for atom in monomial:
                coefficient = self._interval_of(self.atoms[atom])
                if coefficient is None:
                    return None
                term = mul(term, coefficient)
            total = add(total, term)
        return total

    def _interval_of(self, atom: Atom) -> Interval | None:
        if isinstance(atom, Remainder):
            return Interval(0, I32.max_value)
        return self.ranges.of(atom) if isinstance(atom, Value) else None

    def computed(self) -> Iterator[tuple[Value, Form]]:
        """Yield the values whose forms have been computed."""
        yield from self._forms.items()

    # -- forms

    def of(self, value: Value) -> Form:
        """Return the form of a value. Raises `NoFormError`."""
        form = self._forms.get(value)
        if form is None:
            form = self._forms[value] = self._computed(value)
        return form

    def _computed(self, value: Value) -> Form:
        op = value.op
        number = constant_of(value)
        if isinstance(number, int):
            return Form(Polynomial.constant(int(number)))
        if op is None:
            return self._argument(value)
        rule = _RULES.get(op.defn)
        if rule is not None and (_is_exact(value)):
            try:
                return rule(self, op)
            except NoFormError:
                if isinstance(value.type, Tile):
                    raise
        return self._opaque(value, f"`{op.name}`")

    def _opaque(self, value: Value, what: str) -> Form:
        """Return a scalar as an atom."""
        if isinstance(value.type, Tile):
            raise NoFormError(f"{what} is no sum of multiples of indices")
        return Form(self.atom(value))

    def _argument(self, value: Value) -> Form:
        block = value.owner
        assert isinstance(block, Block)
        loop = block.parent
        if loop is None or loop.defn is not control.for_ or value.index == 0:
            return self._opaque(value, "an argument")
        try:
            return self._carried(loop, value)
        except NoFormError:
            if isinstance(value.type, Tile):
                raise
            return Form(self.atom(value))

    def _carried(self, loop: Operation, value: Value) -> Form:
        """Return the form of what a loop carries: the initial one, plus iterations times a step."""
        lower, _, step, *inits = loop.inputs
        (body,) = loop.regions
        stride = constant_of(step)
        if not isinstance(stride, int) or stride == 0:
            raise NoFormError("a loop has a step that is no constant")
        outside = self._forms
        # What the body computes from this atom holds only here.
        self._forms = {**outside, value: Form(self.atom(value))}
        try:
            following = self.of(body.yielded[value.index - 1])
        finally:
            self._forms = outside
        change = following.polynomial - self.atom(value)
        if following.wraps or any(self.varies(loop, atom) for atom in change.atoms()):
            raise NoFormError("a loop does not add the same in each iteration")
        index = self.atom(body.args[0]) - self.of(lower).polynomial
        moved, rest = (change * index).split_by(((), stride))
        if rest.terms:
            raise NoFormError("a loop adds no multiple of its step")
        return self.of(inits[value.index - 1]) + Form(moved)

    def varies(self, loop: Operation, number: int) -> bool:
        """Return True if an atom is defined in a loop."""
        atom = self.atoms[number]
        if isinstance(atom, Remainder):
            parts = (*atom.dividend.atoms(), *atom.divisor.atoms())
            return any(self.varies(loop, part) for part in parts)
        return isinstance(atom, Value) and loop.defines(atom)

    # -- rules

    def add(self, op: Operation) -> Form:
        return self.of(op.inputs[0]) + self.of(op.inputs[1])

    def sub(self, op: Operation) -> Form:
        return self.of(op.inputs[0]) - self.of(op.inputs[1])

    def mul(self, op: Operation) -> Form:
        return self.of(op.inputs[0]) * self.of(op.inputs[1])

    def neg(self, op: Operation) -> Form:
        return Form(Polynomial()) - self.of(op.inputs[0])

    def shl(self, op: Operation) -> Form:
        bits = constant_of(op.inputs[1])
        if not isinstance(bits, int) or not 0 <= bits < op.result.type.element.bits:
            raise NoFormError("`shl` by no constant")
        return self.of(op.inputs[0]) * Form(Polynomial.constant(1 << bits))

    def cast(self, op: Operation) -> Form:
        before, after = op.inputs[0].type.element, op.result.type.element
        if not _is_signed(before) or before.bits > after.bits:
            raise NoFormError(f"a cast from {before} to {after} may change numbers")
        return self.of(op.inputs[0])

    def hint(self, op: Operation) -> Form:
        inner = op.inputs[0]
        if inner.op is not None and inner.op.defn is arith.rem:
            return self.remainder(inner.op, op.result)
        return self.of(inner)

    def rem(self, op: Operation) -> Form:
        return self.remainder(op, op.result)

    def remainder(self, op: Operation, stated: Value) -> Form:
        """Return the form of a remainder; `stated` is the remainder, or a hint about it."""
        dividend, divisor = map(self.of, op.inputs)
        start, coefficients = self.by_axis(dividend.polynomial)
        ((axis, coefficient),) = (
            coefficients.items() if len(coefficients) == 1 else ((0, Polynomial()),)
        )
        interval = self.ranges.operand(op, 0)
        is_positive = interval is not None and interval.low >= 0
        if coefficient.number != 1 or not is_positive or dividend.wraps or divisor.wraps:
            raise NoFormError("`rem` is not that of a start, which is not negative, plus an index")
        if self.axes_of(divisor.polynomial):
            raise NoFormError("`rem` has a divisor that varies along the tile")
        if self.facts.of(stated).contiguous[axis] >= op.result.type.shape[axis]:
            first = self.atom(Remainder(start, divisor.polynomial))
            return Form(first + self.atom(AxisIndex(axis)))
        wrap = Wrap(axis, start, divisor.polynomial)
        return Form(dividend.polynomial, frozenset({wrap}))

    def arange(self, op: Operation) -> Form:
        start = Polynomial.constant(op["start"])
        one = op["end"] - op["start"] == 1
        return Form(start if one else start + self.atom(AxisIndex(-1)))

    def shaped(self, op: Operation) -> Form:
        target = moved_axes(op)
        assert target is not None
        return self.moved(self.of(op.inputs[0]), target)

    def moved(self, form: Form, target: Callable[[int], int]) -> Form:
        """Return a form whose axes are moved to others."""
        wraps = frozenset(replace(wrap, axis=target(wrap.axis)) for wrap in form.wraps)
        return Form(self.with_axes(form.polynomial, target), wraps)

    def with_axes(self, polynomial: Polynomial, target: Callable[[int], int]) -> Polynomial:
        """Return a polynomial of the indices along other axes."""

        def rename(number: int) -> int:
            atom = self.atoms[number]
            if isinstance(atom, AxisIndex):
                return self.number(AxisIndex(target(atom.axis)))
            return number

        return polynomial.renamed(rename)


def moved_axes(op: Operation) -> Callable[[int], int] | None:
    """Return to which axis of its result a shape operation moves each axis; None for others."""
    if op.defn in (shape.splat, shape.broadcast):
        return lambda axis: axis
    if op.defn is shape.expand_dims:
        added = op["axis"]
        return lambda axis: axis if axis > added else axis - 1
    if op.defn is shape.trans:
        rank = len(op["order"])
        targets = {before - rank: after - rank for after, before in enumerate(op["order"])}
        return targets.__getitem__
    return None


def _is_exact(value: Value) -> bool:
    """Return True for pointers and signed integers, whose arithmetic is taken to be exact."""
    return _is_signed(value.type) or isinstance(value.type.element, Pointer)


def _is_signed(ty: Type) -> bool:
    return ty.element.is_int_signed()


_RULES: dict[OpDef, Callable[[IndexForms, Operation], Form]] = {
    arith.add: IndexForms.add,
    arith.sub: IndexForms.sub,
    arith.mul: IndexForms.mul,
    arith.neg: IndexForms.neg,
    arith.shl: IndexForms.shl,
    arith.rem: IndexForms.rem,
    arith.cast: IndexForms.cast,
    arith.hint: IndexForms.hint,
    memory.addptr: IndexForms.add,
    shape.arange: IndexForms.arange,
    shape.splat: IndexForms.shaped,
    shape.broadcast: IndexForms.shaped,
    shape.expand_dims: IndexForms.shaped,
    shape.trans: IndexForms.shaped,
}


_ONE = Polynomial.constant(1)


@dataclass(frozen=True)
class Bounds:
    """The bounds of a mask by axis: an index is less than `upper`, and at least `lower`.

    Bounds that hold for all elements of the tile are left out.
    """

    upper: dict[int, set[Polynomial]] = field(default_factory=dict)
    lower: dict[int, set[Polynomial]] = field(default_factory=dict)


def index_bounds(forms: IndexForms, mask: Value | None, shape: tuple[int, ...]) -> Bounds:
    """Return the bounds of a mask that is true exactly for the indices within them.

    Raises `NoFormError` for a mask of another kind.
    """
    bounds = Bounds()
    for negative in () if mask is None else _conditions(forms, mask):
        rest, coefficients = forms.by_axis(negative)
        if not coefficients:
            _require_always(forms, rest)
            continue
        if len(coefficients) > 1:
            raise NoFormError("the mask compares the indices of several axes with one bound")
        ((axis, coefficient),) = coefficients.items()
        if coefficient.number == 1:
            if rest.number is None or rest.number + shape[axis] > 0:
                bounds.upper.setdefault(axis, set()).add(-rest)
        elif coefficient.number == -1:
            if rest.number is None or rest.number >= 0:
                bounds.lower.setdefault(axis, set()).add(rest + _ONE)
        else:
            raise NoFormError("the mask compares a multiple of an index")
    return bounds


def _require_always(forms: IndexForms, negative: Polynomial) -> None:
    interval = forms.interval(negative)
    if interval is None or interval.high >= 0:
        raise NoFormError("the mask has a condition on scalars")


def _conditions(forms: IndexForms, mask: Value) -> Iterator[Polynomial]:
    """Yield polynomials that are negative exactly where a mask is true, all of them."""
    op = mask.op
    if constant_of(mask) is True:
        return
    if op is None:
        raise NoFormError("the mask is an argument")
    target = moved_axes(op)
    if op.defn is arith.and_:
        for operand in op.inputs:
            yield from _conditions(forms, operand)
    elif target is not None:
        for condition in _conditions(forms, op.inputs[0]):
            yield forms.with_axes(condition, target)
    elif op.defn is arith.cmp:
        yield _negative(forms, op)
    else:
        raise NoFormError(
            f"the mask is computed by `{op.name}`, not by comparisons joined by `and`"
        )


def _negative(forms: IndexForms, op: Operation) -> Polynomial:
    """Return the polynomial that is negative exactly where a comparison holds."""
    if not op.inputs[0].type.element.is_int_signed():
        raise NoFormError("the mask compares what are no signed integers")
    x, y = map(forms.of, op.inputs)
    if x.wraps or y.wraps:
        raise NoFormError("the mask compares a remainder")
    difference = (x - y).polynomial
    match op["predicate"]:
        case Predicate.LT:
            return difference
        case Predicate.LE:
            return difference - _ONE
        case Predicate.GT:
            return -difference
        case Predicate.GE:
            return -difference - _ONE
        case predicate:
            raise NoFormError(f"the mask compares by `{predicate}`")


def index_forms(function: Function) -> IndexForms:
    """Return the polynomials of a function's values."""
    facts = axis_info(function)
    return IndexForms(facts, facts.ranges)
