"""Polynomials with integer coefficients over numbered atoms.

p = Polynomial.atom(0) * Polynomial.atom(1) + Polynomial.constant(4)   // x0 * x1 + 4
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import reduce

Monomial = tuple[int, ...]  # numbers of atoms, ascending; an atom occurs as often as its power


@dataclass(frozen=True)
class Polynomial:
    """A sum of terms: monomials with coefficients other than zero, in order."""

    terms: tuple[tuple[Monomial, int], ...] = ()

    @classmethod
    def of(cls, terms: Mapping[Monomial, int]) -> Polynomial:
        """Return the sum of terms."""
        return cls(tuple(sorted((m, n) for m, n in terms.items() if n)))

    @classmethod
    def constant(cls, number: int) -> Polynomial:
        return cls.of({(): number})

    @classmethod
    def atom(cls, number: int) -> Polynomial:
        return cls.of({(number,): 1})

    @classmethod
    def sum(cls, polynomials: Iterable[Polynomial]) -> Polynomial:
        return reduce(cls.__add__, polynomials, cls())

    def __add__(self, other: Polynomial) -> Polynomial:
        terms = dict(self.terms)
        for monomial, number in other.terms:
            terms[monomial] = terms.get(monomial, 0) + number
        return Polynomial.of(terms)

    def __neg__(self) -> Polynomial:
        return Polynomial(tuple((monomial, -number) for monomial, number in self.terms))

    def __sub__(self, other: Polynomial) -> Polynomial:
        return self + -other

    def __mul__(self, other: Polynomial) -> Polynomial:
        terms: dict[Monomial, int] = {}
        for x, a in self.terms:
            for y, b in other.terms:
                monomial = tuple(sorted(x + y))
                terms[monomial] = terms.get(monomial, 0) + a * b
        return Polynomial.of(terms)

    @property
    def number(self) -> int | None:
        """The number that the polynomial is; None if it has atoms."""
        if not self.terms:
            return 0
        (monomial, number), *rest = self.terms
        return number if not rest and not monomial else None

    @property
    def single(self) -> tuple[Monomial, int] | None:
        """The only term; None if there are none or several."""
        return self.terms[0] if len(self.terms) == 1 else None

    def atoms(self) -> Iterator[int]:
        """Yield the atoms of all terms."""
        for monomial, _ in self.terms:
            yield from monomial

    def renamed(self, rename: Callable[[int], int]) -> Polynomial:
        """Return the polynomial over other atoms."""
        return Polynomial.sum(
            Polynomial.of({tuple(sorted(map(rename, monomial))): number})
            for monomial, number in self.terms
        )

    def coefficient(self, atom: int) -> Polynomial:
        """Return the polynomial by which an atom is multiplied, from the terms that have it."""
        return Polynomial.sum(
            Polynomial.of({_without(monomial, (atom,)): number})
            for monomial, number in self.terms
            if atom in monomial
        )

    def split_by(self, divisor: tuple[Monomial, int]) -> tuple[Polynomial, Polynomial]:
        """Return the quotient by a term, and the terms that it does not divide."""
        atoms, number = divisor
        quotient, rest = Polynomial(), Polynomial()
        for monomial, coefficient in self.terms:
            if coefficient % number == 0 and _contains(monomial, atoms):
                term = {_without(monomial, atoms): coefficient // number}
                quotient += Polynomial.of(term)
            else:
                rest += Polynomial.of({monomial: coefficient})
        return quotient, rest


def _contains(monomial: Monomial, atoms: Monomial) -> bool:
    return all(monomial.count(atom) >= atoms.count(atom) for atom in atoms)


def _without(monomial: Monomial, atoms: Monomial) -> Monomial:
    """Return a monomial divided by one that it contains."""
    left = list(monomial)
    for atom in atoms:
        left.remove(atom)
    return tuple(left)
