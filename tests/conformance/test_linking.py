"""Linked modules on the backend under test: a kernel in one text, the functions it calls in others."""

from __future__ import annotations

import numpy as np
import pytest

from tests.conformance.linked_modules import KERNEL, TEXTS
from tests.conformance.running import Device
from tile.errors import LinkError
from tile.ir.linker import link
from tile.ir.parser import parse_module


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_a_linked_module_runs(order: tuple[int, ...], device: Device) -> None:
    """Calls are resolved through two modules; one callee is inlined, the other is called."""
    x = np.arange(64, dtype=np.float32)
    device.run(link([parse_module(TEXTS[i]) for i in order]), (2, 1, 1), [x, np.float32(3)])
    np.testing.assert_array_equal(x, 3 * np.arange(64, dtype=np.float32) + 1)


def test_a_module_with_unresolved_calls_is_not_compiled(device: Device) -> None:
    x = np.arange(64, dtype=np.float32)
    with pytest.raises(LinkError, match=r"@scale is declared, but no module defines it") as refusal:
        device.run(KERNEL, (2, 1, 1), [x, np.float32(3)])
    assert refusal.value.notes[0].startswith("called at <tile>:14:8, in @k")
    assert "tile link a.tile b.tile" in refusal.value.notes[-1]
    np.testing.assert_array_equal(x, np.arange(64))
