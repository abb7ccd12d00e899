"""Running kernels between the passes of the lowering that leave tiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.simt.kernels import Kernel
from tile.backends.interp.launch import Launch
from tile.backends.interp.rules import RULES
from tile.backends.interp.translate import translate
from tile.ir.module import Module
from tile.simt.ops.layout import convert_layout
from tile.transforms.descriptors_to_pointers import descriptors_to_pointers


def module_of(kernel: Kernel) -> Module:
    """The optimized TILE module of a kernel, without descriptors."""
    module: Module = kernel.compile("interp").artifact.module.clone()
    descriptors_to_pointers(module, keep_blocks=True)
    return module


def run(module: Module, kernel: Kernel) -> list[Any]:
    """The arrays after a run of a module with tiles, as it stands."""
    arguments = kernel.arguments()
    Launch(translate(module, RULES), kernel.grid, arguments).run()
    return [argument for argument in arguments if isinstance(argument, np.ndarray)]


def assert_equal(found: Sequence[Any], wanted: Sequence[Any]) -> None:
    """The same bits."""
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(x, y)


def conversions(module: Module) -> int:
    """Count the layout conversions of a module."""
    return sum(op.defn is convert_layout for op in module.walk())
