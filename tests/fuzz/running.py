"""Running a case on the interpreter, and comparing what it left in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.fuzz.generate import Case
from tests.fuzz.reference import evaluate
from tests.sampling import examples
from tests.ulp import ulp_distance
from tile.backends.interp.backend import RULES
from tile.backends.interp.launch import Launch
from tile.backends.interp.translate import translate
from tile.config import config
from tile.ir.module import Module

LOOSE_ULP = 64
# Of sums of eight terms of up to 16 that cancel: each of seven additions rounds by 2^-24 of at most
# 128, and the terms are off by some ulp, in any of two orders.
LOOSE_DIFFERENCE = 1e-4
EXAMPLES = examples(10)


def interpret(module: Module, case: Case, chunk_bytes: int | None = None) -> list[Any]:
    """The arguments after a run of `module` as it stands, without any pass."""
    arguments = case.arguments()
    settings = {} if chunk_bytes is None else {"chunk_bytes": chunk_bytes}
    with config.scope(**settings):
        Launch(translate(module, RULES), case.grid, arguments).run()
    return arguments


def expected(case: Case) -> list[Any]:
    """The arguments after a run on the straightforward evaluator."""
    arguments = case.arguments()
    evaluate(case.module, case.grid, arguments)
    return arguments


def assert_same(case: Case, actual: Sequence[Any], wanted: Sequence[Any]) -> None:
    """Memory must be equal to the bit; loose arrays nearly, and a NaN is a NaN."""
    for name, x, y in zip(case.names, actual, wanted, strict=True):
        if not isinstance(x, np.ndarray):
            continue
        if name in case.loose:
            distance = ulp_distance(x, y)
            with np.errstate(all="ignore"):
                near = (distance <= LOOSE_ULP) | (np.abs(x - y) <= LOOSE_DIFFERENCE)
            assert near.all(), f"{name}: off by {distance.max()} ulp"
        else:
            wrong = np.flatnonzero(~equal(x, y))
            shown = [(int(i), x.flat[i], y.flat[i]) for i in wrong[:4]]
            assert not wrong.size, (
                f"{name}: {wrong.size} differ, first (index, is, should be) {shown}"
            )


def equal(x: Any, y: Any) -> Any:
    """Which elements have the same bits, or are both NaN."""
    bits = f"u{x.itemsize}"
    same = x.view(bits) == y.view(bits)
    if x.dtype.kind in "iub":
        return same
    return same | ((x != x) & (y != y))
