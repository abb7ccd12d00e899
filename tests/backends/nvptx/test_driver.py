"""Devices and what can be wrong with them, with a driver that is posed: each has its own message."""

from __future__ import annotations

import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from cuda.bindings import driver as real

import tile
import tile.language as tl
from tests.backends.nvptx.fake_driver import FakeDriver, new_kernel
from tests.runtime.fake_torch import Tensor, aligned, install
from tile.backends.base import Target
from tile.backends.nvptx import driver, ptxas
from tile.backends.nvptx.architectures import native, runs
from tile.backends.nvptx.backend import NvptxBackend
from tile.config import config
from tile.errors import ArgumentValueError, BackendError, ExecutionError, OutOfResourcesError
from tile.runtime.autotuning.measuring import compile_one

F = real.CUfunction_attribute
R = real.CUresult


@tile.jit
def total(x_ptr, y_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(y_ptr, tl.sum(tl.load(x_ptr + i, mask=i < 64, other=0.0)))


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """A machine with an H100 and an A100, on which torch's tensors are."""
    monkeypatch.delenv("TILE_BACKEND", raising=False)
    install(monkeypatch)
    return FakeDriver((9, 0), (8, 0)).install(monkeypatch)


def tensors(*devices: int) -> list[Tensor]:
    return [Tensor(aligned(64), device=device) for device in devices]


# -- several devices


def test_each_device_gets_a_kernel_of_its_own(two: FakeDriver) -> None:
    kernel = new_kernel()
    for device in (0, 1, 0, 1):
        kernel[3,](*tensors(device, device), 60, B=64)
    assert two.launches == [(device, (3, 1, 1)) for device in (0, 1, 0, 1)]
    assert [device for device, _ in two.loaded] == [0, 1]
    for (_, code), arch in zip(two.loaded, (b"sm_90a", b"sm_80"), strict=True):
        assert b".target " + arch + b"," in code or b".target " + arch + b"\n" in code
    assert [str(key[0]) for key in kernel.cache] == ["nvptx:sm_90a", "nvptx:sm_80"]
    assert two.contexts == []


def test_host_arrays_go_to_the_current_device(two: FakeDriver) -> None:
    x, y = np.ones(64, np.float32), np.zeros(64, np.float32)
    kernel = new_kernel()
    with tile.backend("nvptx"):
        kernel[1,](x, y, 60, B=64)
        two.contexts.append(101)
        kernel[1,](x, y, 60, B=64)
    assert [device for device, _ in two.launches] == [0, 1]
    assert [key[0].arch for key in kernel.cache] == ["sm_90a", "sm_80"]
    assert two.memory == {}


def test_a_named_architecture_is_the_one_that_is_compiled_for(two: FakeDriver) -> None:
    kernel = new_kernel()
    with tile.backend("nvptx:sm_80"):
        for device in (0, 1):  # which runs on later devices too
            kernel[1,](*tensors(device, device), 60, B=64)
    assert len(kernel.cache) == 1 and len(two.launches) == 2


def test_a_device_that_does_not_run_it(two: FakeDriver) -> None:
    with tile.backend("nvptx:sm_90a"):
        message = "`scale` was compiled for sm_90a, and device 1 is sm_80.*`nvptx:sm_80`"
        with pytest.raises(BackendError, match=message):
            new_kernel()[1,](*tensors(1, 1), 60, B=64)
    assert two.loaded == two.launches == []


def test_which_device_runs_what() -> None:
    assert runs("sm_90a", "sm_80") and runs("sm_90a", "sm_90") and runs("sm_90a", "sm_90a")
    assert not runs("sm_80", "sm_90") and not runs("sm_100a", "sm_90a")
    assert runs("sm_103a", "sm_100f") and not runs("sm_120a", "sm_100f")
    assert native(12, 1) == "sm_121a"


def test_arrays_on_different_devices(two: FakeDriver) -> None:
    with pytest.raises(ArgumentValueError, match="`x_ptr` on cuda:0, `y_ptr` on cuda:1"):
        new_kernel()[1,](*tensors(0, 1), 60, B=64)
    with pytest.raises(
        ArgumentValueError, match="`x_ptr` on cuda:1, `y_ptr` on the host"
    ) as raised:
        new_kernel()[1,](*tensors(1), np.zeros(64, np.float32), 60, B=64)
    assert raised.value.notes == ['copy all of them to one, as x.to("cuda:1") does in PyTorch']
    assert two.launches == []


def test_a_device_that_is_not_there(two: FakeDriver) -> None:
    with pytest.raises(BackendError, match="there is no device 5; there are 2, from 0"):
        new_kernel()[1,](*tensors(5, 5), 60, B=64)


def test_grids_beyond_limits(two: FakeDriver) -> None:
    for grid in ((1 << 31,), (1, 65536), (1, 1, 65536)):
        with pytest.raises(ArgumentValueError, match="programs along axis"):
            new_kernel()[grid](*tensors(0, 0), 60, B=64)
    assert two.launches == []


# -- no driver, no device, an old one


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (R.CUDA_ERROR_NO_DEVICE, "the NVIDIA driver finds no device; CUDA_VISIBLE_DEVICES"),
        (R.CUDA_ERROR_STUB_LIBRARY, "libcuda is the stub of a CUDA toolkit"),
        (R.CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, "of different versions; after an update"),
        (R.CUDA_ERROR_UNKNOWN, "starting the NVIDIA driver failed: in words"),
    ],
)
def test_a_driver_that_does_not_start(two: FakeDriver, status: Any, message: str) -> None:
    two.fails["cuInit"] = status
    with pytest.raises(BackendError, match=message):
        new_kernel()[1,](*tensors(0, 0), 60, B=64)
    del two.fails["cuInit"]
    new_kernel()[1,](*tensors(0, 0), 60, B=64)


def test_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeDriver().install(monkeypatch)

    def absent(flags: int) -> Any:
        raise RuntimeError('Function "cuInit" not found')

    monkeypatch.setattr(fake, "cuInit", absent, raising=False)
    with pytest.raises(BackendError, match="there is no NVIDIA driver on this machine"):
        driver.current_architecture()
    with pytest.raises(BackendError, match="there is no NVIDIA driver on this machine"):
        driver.ordinal_of(4096)


def test_the_hint_to_name_an_architecture_needs_none_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fake = FakeDriver().install(monkeypatch)

    def absent(*_: object) -> tuple[int]:
        raise RuntimeError('Function "cuInit" not found')

    monkeypatch.setattr(fake, "cuInit", absent, raising=False)
    with pytest.raises(BackendError) as caught:
        NvptxBackend().resolve(Target("nvptx"))
    assert "name an architecture" in str(caught.value)
    assert NvptxBackend().resolve(Target("nvptx", "sm_90a")).arch == "sm_90a"
    with pytest.raises(BackendError) as caught:
        driver.device(0)
    assert "sm_90a" not in str(caught.value)


def test_no_device(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeDriver().install(monkeypatch)
    with pytest.raises(BackendError, match="the NVIDIA driver finds no device"):
        driver.current_architecture()


def test_an_old_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    FakeDriver((7, 0), version=11080).install(monkeypatch)
    with pytest.raises(
        BackendError, match=r"too old: it is for CUDA 11\.8, .* CUDA 12\.4 or later"
    ):
        driver.current_architecture()


def test_a_driver_older_than_the_architecture_s_ptx(two: FakeDriver) -> None:
    two.fails["cuModuleLoadDataEx"] = R.CUDA_ERROR_UNSUPPORTED_PTX_VERSION
    two.says = b"ptxas fatal: Unsupported .version 8.8; current version is '8.4'"
    with pytest.raises(BackendError, match=r"older than the PTX .* update the driver") as caught:
        new_kernel()[1,](*tensors(0, 0), 60, B=64)
    assert any("current version is '8.4'" in note for note in caught.value.notes)


# -- launches


def test_a_fault_of_an_earlier_kernel(two: FakeDriver) -> None:
    two.fails["cuLaunchKernel"] = R.CUDA_ERROR_ILLEGAL_ADDRESS
    with pytest.raises(
        ExecutionError, match=r"launching `scale` .* found that a kernel failed"
    ) as c:
        new_kernel()[1,](*tensors(0, 0), 60, B=64)
    assert any("TILE_BACKEND=interp" in note for note in c.value.notes)
    assert any("any kernel that was launched before" in note for note in c.value.notes)


def test_a_fault_of_this_kernel(two: FakeDriver) -> None:
    two.fails["cuStreamSynchronize"] = R.CUDA_ERROR_MISALIGNED_ADDRESS
    x = np.zeros(64, np.float32)
    with tile.backend("nvptx"), pytest.raises(ExecutionError, match="running `scale` found that"):
        new_kernel()[1,](x, x, 60, B=64)
    assert two.memory == {}


def test_memory_that_is_not_there(two: FakeDriver) -> None:
    x, y = np.zeros(64, np.float32), np.zeros(64, np.float32)
    kernel = new_kernel()
    with tile.backend("nvptx"):
        two.fails["cuMemAlloc"] = R.CUDA_ERROR_OUT_OF_MEMORY
        with pytest.raises(OutOfResourcesError, match="allocating 512 bytes on the device failed"):
            kernel[1,](x, y, 60, B=64)
        two.fails.clear()
        kernel[1,](x, y, 60, B=64)
    assert len(two.launches) == 1 and two.memory == {}


def test_more_programs_than_run_together(two: FakeDriver) -> None:
    two.fails["cuLaunchCooperativeKernel"] = R.CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE
    message = r"launched cooperatively.*\(500, 1, 1\) has 500, and the device runs 120"
    with pytest.raises(OutOfResourcesError, match=message):
        new_kernel()[500,](*tensors(0, 0), 60, B=64, launch_cooperative_grid=True)


# -- clusters


def test_programs_in_clusters(two: FakeDriver) -> None:
    kernel = new_kernel()
    for device, options in ((0, {}), (0, {"launch_cooperative_grid": True}), (1, {})):
        kernel[8, 2](*tensors(device, device), 60, B=64, num_ctas=4, **options)
    assert two.clustered == [((4, 1, 1), False), ((4, 1, 1), True)]  # the other device has none
    assert two.launches == [(device, (8, 2, 1)) for device in (0, 0, 1)]
    assert F.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED not in two.allowed


def test_a_grid_that_clusters_do_not_fill(two: FakeDriver) -> None:
    kernel = new_kernel()
    with pytest.warns(RuntimeWarning, match=r"`scale` is launched without clusters: 6 programs"):
        kernel[6, 4](*tensors(0, 0), 60, B=64, num_ctas=4)
    kernel[6,](*tensors(0, 0), 60, B=64, num_ctas=4)  # which says nothing
    assert two.clustered == [] and len(two.launches) == 2


def test_clusters_that_not_all_devices_run(two: FakeDriver) -> None:
    new_kernel()[32,](*tensors(0, 0), 60, B=64, num_ctas=16)
    assert two.clustered == [((16, 1, 1), False)]
    assert two.allowed == [F.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED]


def test_clusters_that_do_not_fit(two: FakeDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(two, "cuOccupancyMaxActiveClusters", lambda *arguments: (R.CUDA_SUCCESS, 0))
    message = r"`scale` asks for clusters of num_ctas=8 programs, each of 128 threads and 0 bytes"
    with pytest.raises(OutOfResourcesError, match=message):
        new_kernel()[8,](*tensors(0, 0), 60, B=64, num_ctas=8)


def test_more_programs_in_clusters_than_run_together(two: FakeDriver) -> None:
    two.fails["cuLaunchKernelEx"] = R.CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE
    message = r"\(500, 1, 1\) has 500, and the device runs 14"
    with pytest.raises(OutOfResourcesError, match=message):
        new_kernel()[500,](*tensors(0, 0), 60, B=64, launch_cooperative_grid=True, num_ctas=2)


def test_info_of_clusters(two: FakeDriver) -> None:
    for device, wanted in ((0, (4, 7)), (1, (1, None))):
        two.contexts.append(100 + device)
        info = new_kernel()[8,](*tensors(device, device), 60, B=64, num_ctas=4).info
        assert (info.cluster, info.clusters) == wanted


# -- dependent launches


def test_dependent_launches(two: FakeDriver) -> None:
    """Launches overlap where devices allow it, but for cooperative grids."""
    kernel = new_kernel()
    for device, options in (
        (0, {}), (0, {"num_ctas": 4}), (0, {"launch_cooperative_grid": True}), (1, {})
    ):  # fmt: skip
        kernel[8, 2](*tensors(device, device), 60, B=64, launch_pdl=True, **options)
    assert two.dependent == [1, 1] and two.clustered == [((4, 1, 1), False)]
    assert two.launches == [(device, (8, 2, 1)) for device in (0, 0, 0, 1)]


@tile.jit
def product(x_ptr, y_ptr, B: tl.constexpr):
    i, j = tl.arange(0, B)[:, None], tl.arange(0, B)[None, :]
    total = tl.zeros((B, B), tl.float32)
    for k in range(16):
        x = tl.load(x_ptr + i * 1024 + k * B + j)
        total = tl.dot(x, x, total)
    tl.store(y_ptr + i * B + j, total)


@pytest.mark.parametrize(("stages", "asked"), [(12, 1), (2, 0)])
def test_large_programs_leave_shared_memory_to_the_next_launch(
    stages: int, asked: int, two: FakeDriver
) -> None:
    """Those of which a multiprocessor runs one, if launches overlap."""
    x, y = (Tensor(aligned(64, dtype), device=0) for dtype in (np.float16, np.float32))
    for dependent in (False, True):
        product[1,](x, y, B=64, num_stages=stages, launch_pdl=dependent, tma="")
    attribute = F.CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT
    assert two.allowed.count(attribute) == asked


# -- what is asked of a loaded kernel


def test_info(two: FakeDriver) -> None:
    x = np.zeros(64, np.float32)
    with tile.backend("nvptx"):
        info = new_kernel()[1,](x, x, 60, B=64, num_warps=2).info
    assert info.device == "cuda:0 (A fake, sm_90a)"
    assert (info.registers, info.local_bytes, info.shared_bytes) == (40, 8, 16)
    assert (info.threads, info.max_threads, info.binary_version) == (64, 1024, "9.0")
    assert (info.programs, info.occupancy) == (12, 12 * 64 / 2048)
    assert len(two.loaded) == 1


def test_the_clock_is_that_of_the_device(two: FakeDriver) -> None:
    """On whose stream the last launch was; no event is left."""
    kernel = new_kernel()[3,](*tensors(1, 1), 60, B=64)
    timer = kernel.executable.timer()
    for _ in range(3):
        timer.start()
        timer.stop()
    assert [device for device, *_ in two.events] == [1] * 6
    assert timer.elapsed() == [1.0] * 3
    assert timer.elapsed() == [] and two.events == [] and two.contexts == []


def test_a_timer_clears_the_l2_cache_before_each_call(two: FakeDriver) -> None:
    """On the stream and before the event, with a buffer that lives as long as the timer."""
    kernel = new_kernel()[3,](*tensors(1, 1), 60, B=64)
    before = set(two.memory)
    timer = kernel.executable.timer()
    assert [len(two.memory[address]) for address in two.memory.keys() - before] == [5000]
    for _ in range(2):
        timer.start()
        timer.stop()
    stream = two.events[0][-1]
    assert two.cleared == [(1, 5000, stream, 0), (1, 5000, stream, 2)]
    del timer
    assert set(two.memory) == before and two.contexts == []


@pytest.mark.parametrize(("free", "cleared"), [(4999, [1000]), (999, [])])
def test_a_timer_where_memory_is_short(
    two: FakeDriver, monkeypatch: pytest.MonkeyPatch, free: int, cleared: list[int]
) -> None:
    kernel = new_kernel()[3,](*tensors(1, 1), 60, B=64)
    allocate = two.cuMemAlloc

    def limited(size: int) -> Any:
        return allocate(size) if size <= free else (R.CUDA_ERROR_OUT_OF_MEMORY,)

    monkeypatch.setattr(two, "cuMemAlloc", limited)
    timer = kernel.executable.timer()
    timer.start()
    timer.stop()
    assert [size for _, size, *_ in two.cleared] == cleared and len(timer.elapsed()) == 1


def test_info_of_the_interpreter() -> None:
    kernel = tile.compile(new_kernel(), {"x_ptr": "*fp32", "y_ptr": "*fp32", "n": "i32"}, {"B": 64})
    assert kernel.info.device == "none: the interp backend runs kernels in NumPy"
    assert kernel.info.registers is None


# -- binaries on disk


def load_anew() -> None:
    new_kernel()[1,](*tensors(0, 0), 60, B=64)


def test_cubins_are_cached(two: FakeDriver, tmp_path: Path) -> None:
    with config.scope(cache=True, cache_dir=str(tmp_path)):
        load_anew(), load_anew()
        assert (len(two.assembled), len(two.loaded)) == (1, 2)
        assert two.loaded == [(0, b"cubin 1 for sm_90a")] * 2
        new_kernel()[1,](*tensors(1, 1), 60, B=64)
        assert len(two.assembled) == 2
        two.version = 13010
        load_anew()
        assert len(two.assembled) == 3
    with config.scope(cache=False):
        load_anew()
    assert len(two.assembled) == 3 and b".target sm_90a" in two.loaded[-1][1]


def from_ptx(two: FakeDriver, tmp_path: Path) -> bool:
    """Return True if a kernel is loaded from PTX, with a cache of cubins."""
    with config.scope(cache=True, cache_dir=str(tmp_path)):
        load_anew()
    assert len(two.launches) == 1
    return b".target sm_90a" in two.loaded[-1][1]


def test_without_ptxas_the_driver_compiles(two: FakeDriver, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(ptxas, "find", lambda: None)
    assert from_ptx(two, tmp_path) and len(two.loaded) == 1


def test_what_ptxas_refuses_the_driver_compiles(
    two: FakeDriver, tmp_path: Path, monkeypatch
) -> None:
    def refuse() -> None:
        raise BackendError("ptxas refuses a kernel")

    monkeypatch.setattr(ptxas, "Assembly", lambda *inputs: SimpleNamespace(result=refuse))
    assert from_ptx(two, tmp_path) and len(two.loaded) == 1


def test_binaries_of_a_later_ptxas_are_no_hindrance(two: FakeDriver, tmp_path: Path) -> None:
    two.takes = b".target"
    assert from_ptx(two, tmp_path)
    assert [b"cubin" in code for _, code in two.loaded] == [True, False]


def test_damaged_binaries_are_made_again(two: FakeDriver, tmp_path: Path) -> None:
    with config.scope(cache=True, cache_dir=str(tmp_path)):
        load_anew()
        for path in tmp_path.rglob("*.entry"):
            path.write_bytes(path.read_bytes()[:-1])
        with pytest.warns(RuntimeWarning, match="damaged"):
            load_anew()
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            load_anew()
    assert len(two.assembled) == 2 and two.loaded[1] == two.loaded[2]


def test_a_worker_of_a_tuner_assembles(two: FakeDriver, tmp_path: Path) -> None:
    """The cubin is on disk when the tuning process loads the kernel."""
    x = tensors(0, 0)
    with config.scope(cache=True, cache_dir=str(tmp_path)):
        compile_one(new_kernel(), {}, (*x, 60), {"B": 64})
        assert (len(two.assembled), two.loaded, two.launches) == (1, [], [])
        load_anew()
        assert (len(two.assembled), len(two.loaded), len(two.launches)) == (1, 1, 1)


def test_more_shared_memory_than_a_device_has(
    two: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver.device(0), "shared_bytes", 8)
    message = "`total` takes .* bytes of shared memory, and device 0 has 8 for a program"
    with pytest.raises(OutOfResourcesError, match=message) as caught:
        total[1,](*tensors(0, 0), B=1024)
    assert caught.value.limit == 8 and caught.value.name == "shared memory"
