"""Random kernels leave the same in memory as the straightforward evaluator does.

They are made so that every correct backend agrees to the bit: see `tests/fuzz/generate.py`.
"""

from __future__ import annotations

import pytest
from hypothesis import given

from tests.conformance.running import Device
from tests.fuzz.generate import Case, modules
from tests.fuzz.running import EXAMPLES, assert_same, expected

# Loops that wait by a plain load are among random ones.
pytestmark = pytest.mark.filterwarnings("ignore:a GPU may never observe the change")


@EXAMPLES
@given(case=modules())
def test_random_kernels(device: Device, case: Case) -> None:
    wanted = expected(case)
    arguments = case.arguments()
    device.run(case.module, case.grid, arguments)
    assert_same(case, arguments, wanted)
