"""Whole kernels on the chosen device, against the tile-level interpreter."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyopencl")

from tests.simt.kernels import KERNELS, Kernel
from tests.simt.test_lowering import agree
from tile import backends
from tile.backends.opencl import devices
from tile.errors import BackendError, UnsupportedError


def run(kernel: Kernel, target: str, **options: Any) -> list[Any]:
    """The arrays after a launch."""
    compiled = kernel.compile(target, **options)
    arguments = kernel.arguments()
    backends.get(target.partition(":")[0]).load(compiled.artifact).launch(kernel.grid, arguments)
    return results(arguments)


def results(arguments: list[Any]) -> list[Any]:
    """The arrays among arguments."""
    return [argument for argument in arguments if isinstance(argument, np.ndarray)]


# The device as it is, and text that uses no more than OpenCL C 1.2 has.
@pytest.mark.parametrize("target", ["opencl", "opencl:generic"])
@pytest.mark.parametrize("name", [n for n in KERNELS if n != "attention"])
def test_devices_do_what_tiles_say(runtime: None, name: str, target: str) -> None:
    kernel = KERNELS[name]
    actual = run(kernel, target, num_warps=4, num_stages=2)
    agree(kernel, actual, run(kernel, "interp"))


def test_attention(runtime: None) -> None:
    """Its program takes seconds to build: once."""
    kernel = KERNELS["attention"]
    agree(kernel, run(kernel, "opencl", num_warps=4, num_stages=1), run(kernel, "interp"))


_OPENED = devices.opened


def _with_subgroups(index: int) -> devices.Device:
    """The device as if its sub-groups were certain to have the size that kernels require."""
    device = _OPENED(index)
    return replace(device, capabilities=replace(device.capabilities, subgroups=True, warp=16))


def test_text_with_subgroups_is_refused_where_their_size_is_not_certain(runtime: None) -> None:
    """Intel's CPU runtime has sub-groups of one work-item in a kernel that it does not vectorize."""
    if devices.chosen().capabilities.subgroups:
        pytest.skip("the device has sub-groups of the size that kernels require")
    lacks = "needs sub-groups of 16 work-items, which device .* is not certain to have|needs cl_khr"
    with pytest.raises(UnsupportedError, match=lacks):
        run(KERNELS["softmax"], "opencl:intel", num_warps=4, num_stages=2)


# Intel's runtime has all that these classes have.
@pytest.mark.parametrize("target", ["opencl:amd", "opencl:intel", "opencl:arm", "opencl:apple"])
@pytest.mark.parametrize("name", ["softmax", "column_sums", "gathering", "combining", "tickets"])
def test_texts_of_classes_run_where_they_can(
    runtime: None, name: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = KERNELS[name]
    if target == "opencl:intel":  # Intel's CPU runtime vectorizes these kernels
        monkeypatch.setattr(devices, "opened", _with_subgroups)
    try:
        actual = run(kernel, target, num_warps=4, num_stages=2)
    except (UnsupportedError, BackendError) as error:
        pytest.skip(error.message.splitlines()[0])
    agree(kernel, actual, run(kernel, "interp"))
