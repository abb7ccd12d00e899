"""Wrong arguments: each has its own message, before anything is enqueued."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("pyopencl")

import pyopencl as cl

import tile
import tile.language as tl
from tests.backends.opencl.test_launch import COPY
from tile.backends.base import Artifact, Options, Target
from tile.backends.opencl import BACKEND, devices
from tile.backends.opencl.compiler import emit_module
from tile.backends.opencl.launch_metadata import LaunchMetadata
from tile.backends.opencl.target import NAMED
from tile.errors import BackendError, OutOfResourcesError, UnsupportedError
from tile.ir.parser import parse_module


@pytest.fixture
def unknown(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """A machine whose devices have not been looked for."""
    devices.all_devices.cache_clear()
    yield monkeypatch
    monkeypatch.undo()
    devices.all_devices.cache_clear()


def copy(**changes: object) -> tuple[Artifact, np.ndarray]:
    artifact = BACKEND.compile(parse_module(COPY), Target("opencl"), Options(num_warps=1))
    changed = replace(LaunchMetadata.of(artifact.launch_metadata), **changes)
    return replace(artifact, launch_metadata=changed.data()), np.arange(64, dtype=np.float32)


def refused(artifact: Artifact, array: np.ndarray, error: type, message: str) -> None:
    """A launch is refused, and its arrays are what they were."""
    before = array.copy()
    with pytest.raises(error, match=message):
        BACKEND.load(artifact).launch((16, 1, 1), [array, array, np.int32(3)])
    np.testing.assert_array_equal(array, before)


def test_no_platform(unknown: pytest.MonkeyPatch) -> None:
    def none() -> None:
        raise cl.LogicError("clGetPlatformIDs", -1001, "")

    unknown.setattr(cl, "get_platforms", none)
    with pytest.raises(BackendError, match=r"no OpenCL platform .*; pip install 'tile-compiler"):
        devices.chosen()


def test_no_device(unknown: pytest.MonkeyPatch) -> None:
    unknown.setattr(cl, "get_platforms", list)
    with pytest.raises(BackendError, match="no OpenCL device; pip install 'tile-compiler"):
        devices.chosen()


def test_a_device_that_is_not_there(runtime: None) -> None:
    with pytest.raises(BackendError, match=r"asks for device 99, and there are \d+ devices: 0: "):
        BACKEND.compile(parse_module(COPY), Target.parse("opencl:99"), Options())
    with pytest.raises(BackendError, match=r"device 'none', which is part of no .* there are 0: "):
        BACKEND.compile(parse_module(COPY), Target.parse("opencl:none"), Options())


def test_a_program_that_does_not_build(runtime: None) -> None:
    """The log has the runtime's words, under the line in Python."""
    wrong = '#line 7 "kernel.py"\n__kernel void copy(void) { undefined(); }\n'
    artifact, array = copy(numbered=wrong)
    refused(
        artifact,
        array,
        BackendError,
        r"(?s)refuses the program of `copy`.*kernel\.py:7|cannot create kernel",
    )


def test_too_little_local_memory(runtime: None) -> None:
    artifact, array = copy(shared_bytes=1 << 30)
    refused(
        artifact, array, OutOfResourcesError, r"1073741824 bytes of local memory; device .* has"
    )


def test_too_many_work_items(runtime: None) -> None:
    artifact, array = copy(extents=(1 << 20, 1, 1))
    refused(artifact, array, OutOfResourcesError, "takes 1048576 work-items")


def test_extensions_that_the_device_lacks(runtime: None) -> None:
    artifact, array = copy(extensions=frozenset({"cl_khr_future"}), device="a class")
    refused(artifact, array, UnsupportedError, "compiled for a class, and needs cl_khr_future")


@tile.jit
def halve(x_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at) / 2)


def test_what_a_description_needs_comes_with_the_way_out(runtime: None) -> None:
    for changes, need in (
        ({"extensions": frozenset({"cl_khr_future"})}, "cl_khr_future, which device .* lacks"),
        ({"subgroup": 1024}, "sub-groups of 1024 work-items, which device .* is not certain"),
        ({"assembly": 1000}, "PTX of compute capability 100.0 as inline assembly, which device"),
    ):
        artifact, array = copy(device="amd", **changes)
        message = rf"was compiled for amd, and needs {need}(.|\n)*note: .*opencl:@amd"
        refused(artifact, array, UnsupportedError, message)


def test_a_dtype_that_the_device_lacks(runtime: None, monkeypatch: pytest.MonkeyPatch) -> None:
    device = devices.chosen()
    without = replace(device, capabilities=replace(device.capabilities, fp64=False))
    monkeypatch.setattr(devices, "chosen", lambda name="": without)
    x = np.ones(16)
    message = r"device .* does not support f64"
    with tile.backend("opencl"), pytest.raises(UnsupportedError, match=message) as caught:
        halve[(1,)](x, BLOCK=16)
    assert caught.value.loc is not None and "halve" in caught.value.loc.function
    assert (x == 1).all()


def test_an_operation_of_other_machines() -> None:
    """Its line is named; no device is asked."""
    text = """
    kernel @k(%p: ptr<f32>) {
      %a = const {value = 0.0} : frag<4xf16>
      %b = const {value = 0.0} : frag<2xf16>
      %c = const {value = 0.0} : frag<2xf32>
      %d = mma %a, %b, %c {shape = (16, 8, 8, 16), repeats = (1, 1, 1)} : frag<2xf32>
      return
    }
    """
    module = parse_module(text, "kernel.tile")
    with pytest.raises(UnsupportedError, match="no code for `mma`") as caught:
        emit_module(module, NAMED["generic"], Options())
    assert caught.value.loc is not None and caught.value.loc.line == 6
