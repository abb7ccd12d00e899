"""Every pass keeps the meaning of random kernels, and leaves IR that is legal and prints."""

from __future__ import annotations

import pytest
from hypothesis import given, note

from tests.fuzz.generate import Case, modules
from tests.fuzz.running import EXAMPLES, assert_same, interpret
from tests.fuzz.sizes import UNPADDED
from tile.ir.extents import unpadded_extent
from tile.ir.op_definition import Level
from tile.ir.parser import parse_module
from tile.ir.passes import PASSES, PassManager, parse_pipeline
from tile.ir.printer import print_module
from tile.ir.verifier import verify
from tile.transforms.pass_pipeline import TILE

# Loops that wait by a plain load are among random ones.
pytestmark = pytest.mark.filterwarnings("ignore:a GPU may never observe the change")

# In the order of the table, which importing the pipeline has filled; those that print are no rewrites,
# and those of lower levels have tests of their own.
NAMES = [
    p.name
    for p in PASSES
    if p.before in (None, Level.TILE) and p.after in (None, Level.TILE) and "print-" not in p.name
]
PIPELINES = [*NAMES, "unroll{limit=64}", "inline,unroll{limit=16},canonicalize,fold,licm,dce"]


def test_all_passes_of_the_pipeline_are_among_them() -> None:
    assert {item.defn.name for item in TILE} <= set(NAMES)


@EXAMPLES
@given(case=modules())
def test_passes_keep_the_semantics(case: Case) -> None:
    wanted, unchanged = interpret(case.module, case), print_module(case.module)
    for text in PIPELINES:
        note(text)  # the last one that is shown has failed
        module = case.module.clone()
        PassManager(parse_pipeline(text), verify_each=True).run(module)
        if print_module(module) != unchanged:
            assert_same(case, interpret(module, case), wanted)


@EXAMPLES
@given(case=modules(sizes=UNPADDED))
def test_padding_keeps_the_semantics(case: Case) -> None:
    wanted = interpret(case.module, case)
    for text in ("pad-extents", "inline,canonicalize,cse,licm,dce,pad-extents"):
        note(text)
        module = case.module.clone()
        PassManager(parse_pipeline(text), verify_each=True).run(module)
        values = (value for op in module.walk() for value in (*op.inputs, *op.results))
        assert all(unpadded_extent(value.type.shape) is None for value in values)
        assert_same(case, interpret(module, case), wanted)


@EXAMPLES
@given(case=modules())
def test_the_pipeline_keeps_the_semantics(case: Case) -> None:
    wanted = interpret(case.module, case)
    PassManager(TILE, verify_each=True).run(case.module)
    text = print_module(case.module)
    read = parse_module(text)
    verify(read)
    assert print_module(read) == text
    assert_same(case, interpret(read, case), wanted)
