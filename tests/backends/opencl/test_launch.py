"""Launches: arrays of the host, what is refused, and what a runtime says of a wrong program."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pyopencl")

import pyopencl as cl
import pyopencl.array as cl_array

from tile.backends.base import Options, Target
from tile.backends.opencl import BACKEND, devices, launch
from tile.backends.opencl.host_staging import Staging
from tile.backends.opencl.launch import Programs
from tile.backends.opencl.launch_metadata import LaunchMetadata
from tile.config import config
from tile.errors import ArgumentValueError, BackendError, OutOfResourcesError
from tile.ir.parser import parse_module

COPY = """
kernel @copy(%x: ptr<f32>, %o: ptr<f32>, %n: i32) {
  %pid = program_id {axis = 0} : i32
  %p = addptr %x, %pid {stride = 4} : ptr<f32>
  %q = addptr %o, %pid {stride = 4} : ptr<f32>
  %v = load %p : f32
  %s = cast %n {to = f32} : f32
  %w = mul %v, %s : f32
  store %q, %w
  return
}
"""

pytestmark = pytest.mark.usefixtures("runtime")


def load():
    artifact = BACKEND.compile(parse_module(COPY), Target("opencl"), Options(num_warps=1))
    return BACKEND.load(artifact)


def test_views_and_overlaps_are_accessed_in_place() -> None:
    if not devices.chosen().host_memory:
        pytest.skip("the device does not share the host's memory")
    base = np.arange(64, dtype=np.float32)
    expected = base.copy()
    load().launch((16, 1, 1), [base[1:], base[32:], np.int32(-3)])
    expected[32:48] = -3 * expected[1:17]
    np.testing.assert_array_equal(base, expected)


def test_a_grid_without_programs() -> None:
    out = np.ones(4, np.float32)
    load().launch((0, 1, 1), [out, out, np.int32(2)])
    assert (out == 1).all()


def test_info() -> None:
    info = load().info()
    assert info.device == devices.chosen().name and info.registers is None
    assert info.threads == 32 and info.max_threads >= 32
    assert info.shared_bytes >= 0 and info.local_bytes >= 0


class _Apart:
    """A device as if its memory were not the host's."""

    host_unified_memory = False

    def __init__(self, raw: Any) -> None:
        self._raw = raw

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)


def test_memory_that_is_shared_is_not_copied() -> None:
    device = devices.chosen()
    if not device.shares_memory:
        pytest.skip("the device has memory of its own")
    base = np.arange(1024, dtype=np.float32)
    staging = Staging(device)
    staging.stage([base], [True])
    cl.enqueue_fill_buffer(device.queue, staging.ranges[0].buffer, np.float32(3), 0, base.nbytes)
    staging.fetch()
    device.queue.finish()
    assert (base == 3).all()


def test_copies_keep_overlaps_together() -> None:
    """Copies between devices that do not share the host's memory."""
    device = replace(devices.chosen(), raw=_Apart(devices.chosen().raw))
    base = np.arange(1024, dtype=np.float32)
    other = np.zeros(8, np.float32)
    staging = Staging(device)
    staging.stage([base[:512], base[256:], other], [False, True, False])
    assert [
        (part.high - part.low, part.written)
        for part in sorted(staging.ranges, key=lambda part: part.low != base.ctypes.data)
    ] == [(4096, True), (32, False)]
    assert staging.argument(base[:512], "x").size == 4096
    assert staging.argument(base[256:], "y").size == 3072
    assert staging.argument(base[:0], "z") is None
    with pytest.raises(ArgumentValueError, match="argument 'w' is a view that begins 4 bytes"):
        staging.argument(base[1:], "w")
    device.queue.finish()
    expected = base.copy()
    base[:] = 0
    staging.fetch()
    np.testing.assert_array_equal(base, expected)


def test_a_program_that_the_runtime_refuses() -> None:
    artifact = BACKEND.compile(parse_module(COPY), Target("opencl"), Options())
    wrong = replace(
        LaunchMetadata.of(artifact.launch_metadata),
        numbered='#line 7 "kernel.py"\nint f(void) { return undefined; }\n',
    )
    with pytest.raises(BackendError, match=r"(?s)refuses the program of `copy`.*kernel\.py:7"):
        Programs().kernel(devices.chosen(), wrong)


def test_lines_that_a_runtime_counts_itself_are_mapped() -> None:
    text = '// head\n#line 7 "a/kernel.py"\nfirst\nsecond\n#line 3 "b.py"\nthird\n'
    wrong = "<kernel>:{0}:22: error: no"
    lines = {line: launch.add_python_lines(wrong.format(line), text) for line in (1, 3, 4, 6)}
    assert lines == {
        1: "<kernel>:1:22: error: no",
        3: "<kernel>:3:22 (a/kernel.py:7): error: no",
        4: "<kernel>:4:22 (a/kernel.py:8): error: no",
        6: "<kernel>:6:22 (b.py:3): error: no",
    }
    own = launch.add_python_lines("input.cl:4:1: error: no", text)
    assert own == "input.cl:4:1 (a/kernel.py:8): error: no"
    assert launch.add_python_lines("kernel.py:4: error: no", text) == "kernel.py:4: error: no"


def test_devices_by_index_and_name() -> None:
    name = devices.describe(devices.all_devices()[0])
    with config.scope(opencl_device="0"):
        assert devices.chosen().name == name
    with config.scope(opencl_device=name[:6].upper()):
        assert devices.chosen().name.lower().find(name[:6].lower()) >= 0
    with (
        config.scope(opencl_device="99"),
        pytest.raises(BackendError, match="is 99, and there are"),
    ):
        devices.chosen()
    with config.scope(opencl_device="no such"), pytest.raises(BackendError, match="there are 0: "):
        devices.chosen()


def test_pocl_is_chosen_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its platform calls itself Portable Computing Language."""
    pocl = _Listed("Portable Computing Language", cl.device_type.CPU, "pthread-some CPU")
    other = _Listed("Intel(R) OpenCL", cl.device_type.CPU, "some CPU")
    monkeypatch.setattr(devices, "all_devices", lambda: (other, pocl))
    assert [devices.index_of(name) for name in ("pocl", "PoCL", "portable", "intel(r)")] == [
        1,
        1,
        1,
        0,
    ]
    with pytest.raises(BackendError, match=r"1: pthread-some CPU \(PoCL, Portable Computing"):
        devices.index_of("none such")


@pytest.mark.parametrize(
    ("platform", "kind", "resident"),
    [
        ("Portable Computing Language", cl.device_type.CPU, 6),
        ("NVIDIA CUDA", cl.device_type.GPU, 6),
        ("Intel(R) OpenCL", cl.device_type.CPU, 1),
        ("Oclgrind", cl.device_type.CPU | cl.device_type.GPU, 1),
    ],
)
def test_programs_that_are_certain_to_run_at_once(platform: str, kind: int, resident: int) -> None:
    raw = _Listed(platform, kind, "some")
    raw.max_compute_units = 6
    assert replace(devices.chosen(), raw=raw).resident == resident


def test_a_cooperative_grid_must_fit() -> None:
    options = Options(num_warps=1, launch_cooperative_grid=True)
    artifact = BACKEND.compile(parse_module(COPY), Target("opencl"), options)
    kernel, most = BACKEND.load(artifact), devices.chosen().resident
    out = np.ones(most + 1, np.float32)
    kernel.launch((most, 1, 1), [out, out, np.int32(3)])
    assert out.tolist() == [3] * most + [1]
    wrong = (
        rf"`copy` is launched cooperatively.*has {most + 1}, and device .* certain to run {most}$"
    )
    with pytest.raises(OutOfResourcesError, match=wrong):
        kernel.launch((1, most + 1, 1), [out, out, np.int32(3)])
    assert out.tolist() == [3] * most + [1]


class _Listed:
    """A device that only says what it is."""

    def __init__(self, platform: str, kind: int, name: str) -> None:
        self.platform = SimpleNamespace(name=platform)
        self.type, self.name = kind, name


def test_gpus_come_before_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then faster runtimes for the CPU before slower ones, and what only checks last."""
    kinds = cl.device_type
    raw_devices = [
        _Listed("Oclgrind", kinds.CPU | kinds.GPU, "simulator"),
        _Listed("Portable Computing Language", kinds.CPU, "pocl"),
        _Listed("Intel(R) OpenCL", kinds.CPU, "cpu"),
        _Listed("Some", kinds.ACCELERATOR, "board"),
        _Listed("NVIDIA CUDA", kinds.GPU, "first"),
        _Listed("AMD", kinds.GPU, "second"),
    ]
    platforms = [
        SimpleNamespace(name=one.platform.name, get_devices=lambda one=one: [one])
        for one in raw_devices
    ]
    monkeypatch.setattr(cl, "get_platforms", lambda: platforms)
    devices.all_devices.cache_clear()
    try:
        names = [device.name for device in devices.all_devices()]
    finally:
        devices.all_devices.cache_clear()
    assert names == ["first", "second", "board", "cpu", "pocl", "simulator"]


def test_binaries_are_cached_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second process builds from them; damaged or refused ones are made again."""
    artifact = BACKEND.compile(parse_module(COPY), Target("opencl"), Options(num_warps=1))
    device, metadata = devices.chosen(), LaunchMetadata.of(artifact.launch_metadata)
    texts = []
    build = launch._build_text
    monkeypatch.setattr(launch, "_build_text", lambda *a: texts.append(a) or build(*a))
    with config.scope(cache=True, cache_dir=str(tmp_path)):
        Programs().kernel(device, metadata)
        entries = list(tmp_path.rglob("*.entry"))
        if not entries:
            pytest.skip("this runtime gives no binaries")
        kernel = Programs().kernel(device, metadata)
        assert len(texts) == 1
        out = cl_array.to_device(device.queue, np.arange(16, dtype=np.float32))
        kernel.set_args(out.data, out.data, np.int32(2))
        cl.enqueue_nd_range_kernel(
            device.queue,
            kernel,
            (16 * metadata.extents[0], *metadata.extents[1:]),
            metadata.extents,
        )
        np.testing.assert_array_equal(out.get(), 2 * np.arange(16))
        entries[0].write_bytes(entries[0].read_bytes()[:-9])
        with pytest.warns(RuntimeWarning, match="damaged"):
            Programs().kernel(device, metadata)
        assert len(texts) == 2
    with config.scope(cache=False):
        Programs().kernel(device, metadata)
    assert len(texts) == 3
