"""Whole kernels on the chosen device, against the tile-level interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.simt.kernels import KERNELS, Kernel
from tests.simt.test_lowering import agree
from tile.backends import registry
from tile.errors import BackendError, UnsupportedError


def run(kernel: Kernel, target: str, **options: Any) -> list[Any]:
    """The arrays after a launch."""
    compiled = kernel.compile(target, **options)
    arguments = kernel.arguments()
    registry.get(target.partition(":")[0]).load(compiled.artifact).launch(kernel.grid, arguments)
    return results(arguments)


def results(arguments: list[Any]) -> list[Any]:
    """The arrays among arguments."""
    return [argument for argument in arguments if isinstance(argument, np.ndarray)]


# The device as it is, and text that uses no more than OpenCL C 1.2 has.
@pytest.mark.parametrize("target", ["opencl", "opencl:generic"])
@pytest.mark.parametrize("name", [n for n in KERNELS if n != "attention"])
def test_devices_do_what_tiles_say(runtime: None, name: str, target: str) -> None:
    kernel = KERNELS[name]
    found = run(kernel, target, num_warps=4, num_stages=2)
    agree(kernel, found, run(kernel, "interp"))


def test_attention(runtime: None) -> None:
    """Its program takes seconds to build: once."""
    kernel = KERNELS["attention"]
    agree(kernel, run(kernel, "opencl", num_warps=4, num_stages=1), run(kernel, "interp"))


# Intel's runtime has all that these classes have.
@pytest.mark.parametrize("target", ["opencl:amd", "opencl:intel", "opencl:arm", "opencl:apple"])
@pytest.mark.parametrize("name", ["softmax", "column_sums", "gathering", "combining", "tickets"])
def test_texts_of_classes_run_where_they_can(runtime: None, name: str, target: str) -> None:
    kernel = KERNELS[name]
    try:
        found = run(kernel, target, num_warps=4, num_stages=2)
    except (UnsupportedError, BackendError) as error:
        pytest.skip(error.message.splitlines()[0])
    agree(kernel, found, run(kernel, "interp"))
