"""Random kernels with checks: the same results, and what is not reported does not matter."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from tests.fuzz.generate import Case, modules
from tests.fuzz.running import EXAMPLES, assert_same, interpret
from tests.sampling import examples
from tile.backends.interp.rules import RULES
from tile.backends.interp.sanitizer.launch import CheckedLaunch, translate_checked
from tile.checks import ALL, Check, Checks
from tile.faults import FaultLog
from tile.ir.builder import Builder
from tile.ir.module import Module
from tile.ir.ops import arith, memory
from tile.ir.types import Scalar

# Loops that wait by a plain load are among random ones.
pytestmark = pytest.mark.filterwarnings("ignore:a GPU may never observe the change")

# Faults at which an access, or a part of it, is left out.
SUPPRESSING = {Check.BOUNDS, Check.UNDEF, Check.OVERFLOW}


def checked(module: Module, case: Case, checks: Checks = ALL) -> tuple[list[Any], set[Check]]:
    """The arguments after a run with checks, and what was found."""
    arguments, report = case.arguments(), FaultLog()
    CheckedLaunch(translate_checked(module, RULES, checks), case.grid, arguments, report).run()
    return arguments, {group.check for group in report.groups}


@EXAMPLES
@given(case=modules())
def test_checks_change_no_result(case: Case) -> None:
    reported, kinds = checked(case.module, case)
    if not kinds & SUPPRESSING:
        assert_same(case, reported, interpret(case.module, case))


def forgetful(module: Module) -> Module:
    """The module without the selections that take the place of what a load's mask left out."""
    copy = module.clone()
    for op in list(copy.walk()):
        if op.defn is arith.select and op.inputs[1].op is not None:
            loaded = op.inputs[1].op
            if loaded.defn is memory.load and loaded["mask"] is op.inputs[0]:
                op.result.replace_by(loaded.result)
    return copy


def filled(module: Module, number: int) -> Module:
    """The module with a number for what masks leave out of loads."""
    copy = module.clone()
    for op in list(copy.walk()):
        if op.defn is memory.load and op["mask"] is not None and op["other"] is None:
            element = op.result.type.element
            if isinstance(element, Scalar):
                fill = Builder.before(op).constant(number, op.result.type)
                op.set_operand(op.defn.positions["other"], fill)
    return copy


@examples(30)
@given(case=modules())
def test_what_is_undefined_and_not_reported_does_not_matter(case: Case) -> None:
    module = forgetful(case.module)
    reported, kinds = checked(module, case, frozenset({Check.UNDEF, Check.BOUNDS}))
    if kinds:
        return
    for number in (0, 1, 77):
        assert_same(case, reported, interpret(filled(module, number), case))
