"""Text is the inverse of printing, for random kernels."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.generate import Case, modules
from tests.fuzz.running import EXAMPLES
from tile.ir.core import Operation
from tile.ir.module import Module
from tile.ir.parser import parse_module
from tile.ir.printer import print_module
from tile.ir.verifier import verify


def facts(module: Module) -> list[object]:
    """All that an operation is, apart from the values it connects."""

    def of(op: Operation) -> object:
        present = [value is not None for value in op.operands]
        types = [value.type for value in op.results]
        # An `else` that only yields nothing is not printed, nor is its place.
        loc = op.loc if op.name != "yield" else None
        return (op.name, op.attributes, present, types, loc)

    return [of(op) for op in module.walk()]


@EXAMPLES
@given(case=modules(), locations=st.booleans())
def test_what_was_printed_parses_and_prints_the_same(case: Case, locations: bool) -> None:
    verify(case.module)
    text = print_module(case.module, locations=locations)
    read = parse_module(text)
    verify(read)
    assert print_module(read, locations=locations) == text
    if locations:
        assert facts(read) == facts(case.module)


@EXAMPLES
@given(case=modules())
def test_a_clone_is_the_same_and_shares_nothing(case: Case) -> None:
    text = print_module(case.module, locations=True)
    copy = case.module.clone()
    verify(copy)
    assert print_module(copy, locations=True) == text
    for op in list(copy.walk()):
        op.loc = None
        for value in op.results:
            value.name = "changed"
    assert print_module(case.module, locations=True) == text
