"""Pointers to memory that the kernel only reads: `const` and `restrict` in OpenCL C."""

from __future__ import annotations

from dataclasses import dataclass

from tile.analysis.alias import alias
from tile.ir.core import Function, Value
from tile.ir.ops import control
from tile.simt.lower.infer_invariant_loads import invariant_parameters


@dataclass(frozen=True)
class ConstantPointers:
    """The qualifiers of a kernel's pointers.

    restrict: the parameters through which the kernel has invariant loads.
    const: values that point to the memory of such parameters only, so that no initialization or
        assignment drops the qualifier.
    """

    restrict: frozenset[Value] = frozenset()
    const: frozenset[Value] = frozenset()


def constant_pointers(function: Function) -> ConstantPointers:
    """Return the qualifiers of a function's pointers: none unless it is a kernel."""
    names = invariant_parameters(function) if function.kernel else frozenset()
    if not names:
        return ConstantPointers()
    restrict = frozenset(value for value in function.args if value.name in names)
    if any(op.defn is control.call for op in function.walk()):
        return ConstantPointers(restrict)  # the callee's parameters are not const
    facts = {value: fact for value, fact in alias(function).facts.items() if fact.parameters}
    constant = frozenset(value.index for value in restrict)
    while True:
        mixed = {
            index
            for fact in facts.values()
            if not fact.parameters <= constant
            for index in fact.parameters & constant
        }
        if not mixed:
            break
        constant -= mixed
    const = frozenset(value for value, fact in facts.items() if fact.parameters <= constant)
    return ConstantPointers(restrict, const)
