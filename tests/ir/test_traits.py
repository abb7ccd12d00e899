"""An operation with a trait has what passes read from operations with that trait."""

from __future__ import annotations

import pytest

from tile.ir.declare import OPS
from tile.ir.op_definition import Effect, Level, Trait
from tile.simt import ops

PARAMETERS = {
    Trait.DOT: ("a", "b", "acc", "input_precision"),
    Trait.ATOMIC: ("ptr", "order", "scope"),
    Trait.COMBINE: ("axis",),
    Trait.READS_SHARED: ("mem",),
}
assert ops


@pytest.mark.parametrize("trait", PARAMETERS)
def test_operations_of_a_trait_have_these_parameters(trait: Trait) -> None:
    having = [defn for defn in OPS if trait in defn.traits]
    assert having
    for defn in having:
        parameters = {*defn.operands, *([defn.variadic] if defn.variadic else []), *defn.attributes}
        assert parameters >= set(PARAMETERS[trait]), defn


def test_dots_begin_with_their_operands() -> None:
    dots = [defn for defn in OPS if Trait.DOT in defn.traits]
    assert {defn.operands[:3] for defn in dots} == {("a", "b", "acc")}
    assert {level for defn in dots for level in defn.levels} == set(Level)
    assert {defn.name for defn in dots} == {"dot", "mma_dot", "wgmma", "mma", "fma_dot"}


def test_traits_agree_with_effects() -> None:
    for defn in OPS:
        if Trait.ATOMIC in defn.traits:
            assert defn.effect == Effect.READ | Effect.WRITE
        if Trait.READS_SHARED in defn.traits:
            assert defn.effect is Effect.SHARED
        if Trait.ASYNC_PROXY in defn.traits:
            assert Effect.SHARED in defn.effect
        if Trait.LOOP in defn.traits:
            assert defn.regions and Effect.NESTED in defn.effect
        if Trait.TENSOR_CORE in defn.traits or Trait.IN_FLIGHT in defn.traits:
            assert Trait.DOT in defn.traits
        if defn.traits & {Trait.CONSTANT, Trait.DIVISION}:
            assert defn.pure
