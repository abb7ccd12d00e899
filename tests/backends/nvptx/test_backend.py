"""Targets, artifacts, and errors about missing components."""

from __future__ import annotations

import os

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.backends.nvptx.assembling import assemble
from tile.backends.nvptx import compiler, driver
from tile.backends.nvptx.architectures import native
from tile.backends.nvptx.launch import LoadedKernel
from tile.backends.nvptx.target import architecture
from tile.errors import ArgumentValueError, BackendError
from tile.runtime.arguments.device_arrays import DeviceArray
from tile.runtime.kernel import CompiledKernel

SIGNATURE = {"x": "*fp32:16", "y": "*fp32:16", "n": "i32"}


@tile.jit
def exponential(x, y, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + i, tl.exp(tl.load(x + i, mask=i < n)), mask=i < n)


def compiled(target: str = "nvptx:sm_90a") -> CompiledKernel:
    return tile.compile(exponential, SIGNATURE, {"B": 1024}, target=target)


@pytest.mark.parametrize(
    "arch", ["sm_75", "sm_86", "sm_89", "sm_90", "sm_103a", "sm_120", "sm_121"]
)
def test_every_machine_that_the_assembler_knows(arch: str) -> None:
    kernel = compiled(f"nvptx:{arch}")
    assert str(kernel.target) == f"nvptx:{arch}"
    assert f".target {arch}" in kernel.asm["ptx"]
    assemble(kernel.asm["ptx"], arch)


def test_machines_that_the_assembler_has_dropped() -> None:
    for arch in ("sm_70", "sm_72"):
        assert f".target {arch}" in compiled(f"nvptx:{arch}").asm["ptx"]


def test_the_artifact_has_all_stages() -> None:
    kernel = compiled()
    assert list(kernel.asm) == ["source", "tile", "tile-optimized", "thread", "llvm", "ptx"]
    assert kernel.written == {"y"}


@pytest.mark.parametrize(
    ("arch", "message"),
    [
        ("sm_60", "no architecture 'sm_60'; there are sm_70"),
        ("hopper", "no architecture 'hopper'"),
        ("sm_80a", "'sm_80a' does not exist; it is sm_80"),
    ],
)
def test_machines_that_are_not_there(arch: str, message: str) -> None:
    with pytest.raises(BackendError, match=message):
        compiled(f"nvptx:{arch}")


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_clusters_change_nothing_of_a_program(arch: str) -> None:
    made = [
        tile.compile(exponential, SIGNATURE, {"B": 64}, {"num_ctas": size}, f"nvptx:{arch}")
        for size in (1, 4)
    ]
    assert made[0].asm["ptx"] == made[1].asm["ptx"]


def test_names_of_devices() -> None:
    assert native(9, 0) == "sm_90a"
    assert native(8, 9) == "sm_89"
    assert architecture("sm_103a").capability == 103


@pytest.mark.skipif(os.path.exists("/dev/nvidiactl"), reason="there is an NVIDIA driver")
def test_without_a_driver_it_says_so() -> None:
    with pytest.raises(BackendError, match="no NVIDIA driver on this machine"):
        compiled("nvptx")
    x = np.zeros(4, np.float32)
    with pytest.raises(BackendError, match="no NVIDIA driver on this machine"):
        compiled()[(1,)](x, x, 4)


def on_device(device: str) -> DeviceArray:
    dtype = np.dtype(np.float32)
    return DeviceArray(None, device, dtype, (4,), (4,), 4096, lambda: None, lambda x: None)


@pytest.mark.parametrize("others", [(np.zeros(4, np.float32),), (on_device("cuda:1"),)])
def test_arrays_in_different_memories(
    others: tuple[object, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "device", lambda ordinal: ordinal)
    kernel = compiled().executable
    assert isinstance(kernel, LoadedKernel)
    with pytest.raises(ArgumentValueError, match=r"`x` on cuda:0, `y` on (the host|cuda:1)"):
        kernel.launch((1, 1, 1), [on_device("cuda:0"), *others, np.int32(4)])


def test_code_that_llvm_refuses_is_a_fault_of_the_backend() -> None:
    with pytest.raises(
        BackendError, match="LLVM refuses the code that the nvptx backend made"
    ) as e:
        compiler._parse("define void @f() { ret i32 }")
    assert e.value.notes
