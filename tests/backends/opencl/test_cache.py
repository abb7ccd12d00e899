"""Kernels on disk: what decides which is whose, and that processes find them."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyopencl")

import pyopencl.array as cl_array

import tile
import tile.language as tl
from tests.backends.opencl.test_launch import COPY
from tile.backends.base import Options, Target
from tile.backends.opencl import BACKEND, devices
from tile.backends.opencl.launch_metadata import LaunchMetadata
from tile.backends.opencl.target import NAMED
from tile.ir.parser import parse_module

ROOT = Path(__file__).parents[3]
PROGRAM = """
import sys
import numpy as np
import tile
from tests.runtime.kernels import add
x, out = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
with tile.backend("opencl"):
    add[(2,)](x, x, out, 256, BLOCK=128)
assert (out == 2 * x).all()
late = ("tile.frontend.python.code_generator", "tile.simt.pass_pipeline", "tile.backends.opencl.emit")
print(*(name for name in late if name in sys.modules))
"""


def modules_of_a_run(folder: Path) -> str:
    """Which parts of the compiler a process has imported that runs a kernel."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "TILE_CACHE": "1",
            "TILE_CACHE_DIR": str(folder),
        },
        capture_output=True,
        encoding="utf-8",
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


def test_a_second_process_compiles_nothing(runtime: None, tmp_path: Path) -> None:
    compiling = (
        "tile.frontend.python.code_generator tile.simt.pass_pipeline tile.backends.opencl.emit"
    )
    assert modules_of_a_run(tmp_path) == compiling
    assert modules_of_a_run(tmp_path) == ""


def test_the_facts_about_a_program_can_be_stored() -> None:
    text = COPY.replace("store %q", 'device_assert %ok {message = "small"}\n  store %q').replace(
        "%s = cast", "%ok = cmp %pid, %n {predicate = lt} : i1\n  %s = cast"
    )
    artifact = BACKEND.compile(parse_module(text), Target.parse("opencl:amd"), Options())
    emitted = LaunchMetadata.of(artifact.launch_metadata)
    assert emitted.reports and emitted.assertions[0].message == "small"
    assert LaunchMetadata.of(emitted.data()) == emitted
    assert artifact.launch_metadata["threads"] == emitted.threads == 256


def test_classes_differ_by_what_they_can_do(monkeypatch: pytest.MonkeyPatch) -> None:
    targets = [Target("opencl", name) for name in NAMED]
    assert len({BACKEND.identity(target) for target in targets}) == len(NAMED)
    before = BACKEND.identity(Target("opencl", "amd"))
    monkeypatch.setitem(NAMED, "amd", replace(NAMED["amd"], local_bytes=1 << 15))
    assert BACKEND.identity(Target("opencl", "amd")) != before


def test_devices_differ(runtime: None, monkeypatch: pytest.MonkeyPatch) -> None:
    count = len(devices.all_devices())
    identities = [BACKEND.identity(Target("opencl", str(index))) for index in range(count)]
    assert len(set(identities)) == count
    assert all(device.driver_version in x for device, x in zip(devices.all_devices(), identities))
    device = devices.chosen("0")
    without = replace(device, capabilities=replace(device.capabilities, atomics64=False))
    monkeypatch.setattr(devices, "chosen", lambda name="": without)
    assert BACKEND.identity(Target("opencl", "0")) != identities[0]


@tile.jit
def increase(x_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(x_ptr + at, tl.load(x_ptr + at) + 1)


def test_a_device_is_one_however_it_is_named(runtime: None) -> None:
    """Arrays of pyopencl name theirs by a handle, which is another one in each process."""
    device = devices.chosen()
    name = device.raw.name.strip()
    host = np.zeros(64, np.float32)
    mine = cl_array.to_device(device.queue, host)
    compiled = [increase[(1,)](mine, BLOCK=64)]
    for target in ("opencl", "opencl:0", f"opencl:@{name}"):
        with tile.backend(target):
            compiled.append(increase[(1,)](host, BLOCK=64))
    wanted = BACKEND.resolve(Target("opencl"))
    assert wanted.arch.isdecimal() and all(one.target == wanted for one in compiled[:2])
    np.testing.assert_array_equal(host, 3)
    np.testing.assert_array_equal(mine.get(), 1)
