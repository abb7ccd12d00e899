"""On a GPU: whole kernels against the interpreter, arrays in place, output of kernels.

`pytest tests/conformance --backend nvptx` runs the op table there.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tile
import tile.language as tl
from tests.processes import all_running
from tests.simt.kernels import KERNELS, Kernel
from tile.backends.nvptx import compiler, driver, loaded_module, ptxas
from tile.config import config
from tile.errors import (
    ArgumentValueError,
    BackendError,
    DeviceAssertionError,
    ExecutionError,
    OutOfResourcesError,
)


@pytest.fixture(scope="module", autouse=True)
def device() -> driver.Device:
    try:
        return driver.current_device()
    except BackendError as error:
        pytest.skip(error.message)


def run(kernel: Kernel, target: str, **options: Any) -> list[Any]:
    arguments = kernel.arguments()
    kernel.compile(target, **options).executable.launch(kernel.grid, arguments)
    return [argument for argument in arguments if isinstance(argument, np.ndarray)]


@pytest.mark.parametrize(("warps", "stages"), [(1, 1), (4, 3), (8, 4), (16, 2)])
@pytest.mark.parametrize("name", KERNELS)
def test_the_device_does_what_tiles_say(name: str, warps: int, stages: int) -> None:
    kernel = KERNELS[name]
    actual = run(kernel, "nvptx", num_warps=warps, num_stages=stages)
    wanted = run(kernel, "interp")
    if name == "tickets":  # programs come in any order
        np.testing.assert_array_equal(np.sort(actual[1], 0), np.sort(wanted[1], 0))
        return
    for x, y in zip(actual, wanted):
        if kernel.rtol and x.dtype.kind == "f":
            atol = kernel.rtol * np.abs(y).max()
            np.testing.assert_allclose(x, y, rtol=kernel.rtol, atol=atol)
        else:
            np.testing.assert_array_equal(x, y)


@tile.jit
def scale(x_ptr, y_ptr, n, factor, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < n, other=0.0)
    tl.store(y_ptr + i, x * factor, mask=i < n)


@tile.jit
def claim(x_ptr, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.device_assert(tl.load(x_ptr + i, mask=i < n, other=0) >= 0, "no negative numbers")


def test_host_arrays_views_among_them() -> None:
    whole = np.arange(4096, dtype=np.float32).reshape(64, 64)
    x, y = whole[3], whole[5]
    with tile.backend("nvptx"):
        scale[(1,)](x, y, 60, 0.5, B=64)
    np.testing.assert_array_equal(whole[5, :60], whole[3, :60] / 2)
    np.testing.assert_array_equal(whole[5, 60:], np.arange(380, 384))


def test_torch_arrays_in_place_on_the_current_stream() -> None:
    torch = pytest.importorskip("torch")
    x = torch.arange(100000, dtype=torch.float32, device="cuda")
    y = torch.zeros_like(x)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(10_000_000)
        x += 1
        scale[(98,)](x, y, 100000, 2.0, B=1024)
        z = y + 1
    stream.synchronize()
    torch.testing.assert_close(z, (torch.arange(100000, device="cuda") + 1.0) * 2 + 1)
    assert torch.cuda.current_device() == 0


def test_repeat_launches() -> None:
    """Other arrays, numbers and streams, a graph, and threads in which no context is current."""
    torch = pytest.importorskip("torch")
    arrays = [torch.full((256,), float(k), device="cuda") for k in range(8)]
    out = torch.zeros(8, 256, device="cuda")

    def work(k: int) -> None:
        for n in (5, 200 + k):
            scale[(4,)](arrays[k], out[k], n, 0.5 + k, B=64)

    for k in range(4):
        with torch.cuda.stream(torch.cuda.Stream()):
            work(k)
    threads = [threading.Thread(target=work, args=(k,)) for k in range(4, 8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    torch.cuda.synchronize()
    for k in range(8):
        assert out[k].tolist() == [k * (0.5 + k)] * (200 + k) + [0.0] * (56 - k)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        scale[(4,)](arrays[7], out[0], 255, 2.0, B=64)
    graph.replay()
    torch.cuda.synchronize()
    assert out[0].tolist() == [14.0] * 255 + [0.0]


def test_a_repeat_amid_another_context() -> None:
    """The driver refuses it, so it takes an ordinary launch."""
    torch = pytest.importorskip("torch")
    x, out = torch.full((256,), 3.0, device="cuda"), torch.zeros(256, device="cuda")
    scale[(4,)](x, out, 255, 1.0, B=64)
    torch.cuda.synchronize()
    library, other = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
    assert library.cuCtxCreate_v2(ctypes.byref(other), 0, 0) == 0
    try:
        scale[(4,)](x, out, 255, 2.0, B=64)
    finally:
        assert library.cuCtxDestroy_v2(other) == 0
    assert torch.cuda.current_device() == 0
    torch.cuda.synchronize()
    assert out.tolist() == [6.0] * 255 + [0.0]


def test_torch_bfloat16() -> None:
    torch = pytest.importorskip("torch")
    x = torch.randn(1000, dtype=torch.bfloat16, device="cuda")
    y = torch.zeros_like(x)
    scale[(1,)](x, y, 1000, 2.0, B=1024)
    torch.testing.assert_close(y, x * 2)


def test_graphs_are_captured() -> None:
    torch = pytest.importorskip("torch")
    x, y = torch.ones(64, device="cuda"), torch.zeros(64, device="cuda")
    scale[(1,)](x, y, 64, 3.0, B=64)
    y.zero_()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        scale[(1,)](x, y, 64, 3.0, B=64)
    x.fill_(2)
    graph.replay()
    torch.cuda.synchronize()
    assert y.tolist() == [6.0] * 64


def test_cupy_arrays() -> None:
    cupy = pytest.importorskip("cupy")
    x = cupy.arange(64, dtype=cupy.float32)
    y = cupy.zeros_like(x)
    scale[(1,)](x, y, 64, 3.0, B=64)
    np.testing.assert_array_equal(y.get(), np.arange(64) * 3)


def test_arrays_on_both_sides_are_refused() -> None:
    torch = pytest.importorskip("torch")
    x = torch.ones(64, device="cuda")
    with pytest.raises(ArgumentValueError, match="different memories"):
        scale[(1,)](x, np.zeros(64, np.float32), 64, 3.0, B=64)


def test_an_assertion_leaves_the_device_usable() -> None:
    x = np.arange(1000, dtype=np.int32)
    x[777] = -1
    with tile.backend("nvptx"):
        for _ in range(2):
            with pytest.raises(DeviceAssertionError, match="no negative numbers") as caught:
                claim[(4,)](x, 1000, B=256, debug=True)
            assert any("program (3, 0, 0)" in note for note in caught.value.notes)
            assert caught.value.loc is not None
        x[777] = 1
        claim[(4,)](x, 1000, B=256, debug=True)
        y = np.zeros(4, np.float32)
        scale[(1,)](np.ones(4, np.float32), y, 4, 3.0, B=64)
    assert y.tolist() == [3.0] * 4


def test_an_assertion_of_an_earlier_launch_is_raised_by_a_later_one() -> None:
    torch = pytest.importorskip("torch")
    x = torch.full((256,), -1, dtype=torch.int32, device="cuda")
    kernel = claim.warmup(x, 256, B=256, debug=True, grid=(1,))
    kernel[(1,)](x, 256)
    torch.cuda.synchronize()
    with pytest.raises(DeviceAssertionError, match="no negative numbers"):
        kernel[(1,)](x, 256)
    gc.collect()


# -- what is asked of the driver, and what is wrong with launches


def scaled_add(**options: Any) -> Any:
    """A launch of a kernel that is compiled and loaded anew, and looked at."""
    x, y = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    with tile.backend("nvptx"):
        kernel = tile.jit(scale.fn)[(1,)](x, y, 64, 2.0, B=64, **options)
    np.testing.assert_array_equal(y, 2 * x)
    return kernel


def test_info() -> None:
    info = scaled_add(num_warps=2).info
    assert info.device.startswith("cuda:") and driver.current_architecture() in info.device
    assert 0 < info.registers <= 255 and info.local_bytes == 0
    assert info.threads == 64 and info.max_threads >= 64 and info.programs >= 1
    assert 0 < info.occupancy <= 1
    assert info.binary_version == "{0.major}.{0.minor}".format(driver.current_device())


def test_cubins_are_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if ptxas.find() is None:
        pytest.skip("ptxas is not installed")
    with config.scope(cache=True, cache_dir=str(tmp_path)):
        scaled_add()
        with monkeypatch.context() as patch:
            patch.setattr(ptxas, "Assembly", lambda *inputs: pytest.fail("it is on disk"))
            scaled_add()
        for path in tmp_path.rglob("*.entry"):
            path.write_bytes(path.read_bytes()[:-1])
        with pytest.warns(RuntimeWarning, match="damaged"):
            scaled_add()
    scaled_add()


def test_ptx_that_the_driver_refuses() -> None:
    with driver.current_device().current():
        text = loaded_module.image(".version 8.4\n.target sm_75\n.address_size 64\nnonsense\n")
        with pytest.raises(ExecutionError, match="loading `wrong` failed") as caught:
            loaded_module.Loaded(text, "wrong", 0)
    assert any("nonsense" in note or "ptxas" in note for note in caught.value.notes)
    scaled_add()


def test_more_programs_than_run_together() -> None:
    x = np.zeros(64, np.float32)
    with tile.backend("nvptx"):
        with pytest.raises(OutOfResourcesError, match="launched cooperatively, so all"):
            scale[(1 << 20,)](x, x, 0, 2.0, B=64, launch_cooperative_grid=True)
    scaled_add(launch_cooperative_grid=True)


# -- clusters


@pytest.fixture
def sizes(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A kernel whose programs each store how many its cluster has.

    The language has no word for that, so the register is put in the place of another one's.
    """
    if not driver.current_device().has_clusters:
        pytest.skip("this device has no clusters")
    plain = compiler.to_ptx

    def asking(*inputs: Any) -> str:
        return plain(*inputs).replace("%nctaid.x", "%cluster_nctaid.x")

    monkeypatch.setattr(compiler, "to_ptx", asking)
    with config.scope(cache=False):
        yield tile.jit(store_size.fn)


@tile.jit
def store_size(out_ptr):
    tl.store(out_ptr + tl.program_id(0), tl.num_programs(0))


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
def test_programs_run_in_clusters(sizes: Any, size: int, together: bool) -> None:
    torch = pytest.importorskip("torch")
    options = {"num_ctas": size, "launch_cooperative_grid": together}
    for _ in range(3):  # of which the later ones are repeats, if they are not launched together
        out = torch.zeros(64, dtype=torch.int32, device="cuda")
        kernel = sizes[(64,)](out, **options)
        assert out.tolist() == [size] * 64
    assert kernel.info.cluster == size
    assert size == 1 or 0 < kernel.info.clusters <= kernel.info.programs * 200


@pytest.mark.parametrize("name", [name for name, k in KERNELS.items() if k.grid[0] % 2 == 0])
def test_whole_kernels_in_clusters(name: str) -> None:
    """Shared memory has other addresses there."""
    for actual, wanted in zip(run(KERNELS[name], "nvptx", num_ctas=2), run(KERNELS[name], "nvptx")):
        np.testing.assert_array_equal(
            *(np.sort(x, 0) if name == "tickets" else x for x in (actual, wanted))
        )


@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
def test_matmuls_in_clusters(size: int) -> None:
    """By wgmma, from descriptors and from pointers; each program has rows of its own."""
    torch = pytest.importorskip("torch")
    a = torch.randn(2048, 256, device="cuda", dtype=torch.float16)
    b = torch.randn(256, 128, device="cuda", dtype=torch.float16)
    wanted = a.float() @ b.float()
    boxes = tile.TensorDescriptor.from_tensor(a, [128, 64])
    for inputs in (a, boxes):
        for _ in range(3):
            out = torch.zeros(2048, 128, device="cuda")
            rows_by_columns[(16,)](inputs, b, out, 256, BM=128, BN=128, BK=64, num_ctas=size)
            torch.testing.assert_close(out, wanted, rtol=1e-2, atol=1e-1)


@tile.jit
def rows_by_columns(a, b_ptr, out_ptr, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    first = tl.program_id(0) * BM
    i, j, k = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, BK)
    total = tl.zeros((BM, BN), tl.float32)
    for at in range(0, K, BK):
        if a.dtype == tl.float16:
            x = a.load([first, at])
        else:
            x = tl.load(a + (first + i)[:, None] * K + (at + k)[None, :])
        y = tl.load(b_ptr + (at + k)[:, None] * BN + j[None, :])
        total = tl.dot(x, y, total)
    tl.store(out_ptr + (first + i)[:, None] * BN + j[None, :], total)


def test_clusters_in_a_graph_and_where_they_do_not_fill_the_grid(sizes: Any) -> None:
    torch = pytest.importorskip("torch")
    out = torch.zeros(64, dtype=torch.int32, device="cuda")
    sizes[(8, 3)](out, num_ctas=8)
    with pytest.warns(RuntimeWarning, match="without clusters: 63 programs along axis 0"):
        sizes[(63,)](out, num_ctas=8)
    assert out.tolist() == [1] * 63 + [0]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        sizes[(64,)](out, num_ctas=8)
    graph.replay()
    assert out.tolist() == [8] * 64


def test_kernels_for_other_architectures() -> None:
    x = np.ones(64, np.float32)
    with tile.backend("nvptx:sm_75"):  # which later devices run
        scale[(1,)](x, x, 64, 3.0, B=64)
    assert x.tolist() == [3.0] * 64
    other = "sm_120a" if driver.current_architecture() != "sm_120a" else "sm_90a"
    with tile.backend(f"nvptx:{other}"):
        with pytest.raises(BackendError, match=f"`scale` was compiled for {other}, and device"):
            scale[(1,)](x, x, 64, 3.0, B=64)


def test_each_device_runs_a_kernel_of_its_own() -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.device_count() < 2:
        pytest.skip("there is one device")
    kernel = tile.jit(scale.fn)
    arrays = [torch.ones(64, device=f"cuda:{at}") for at in (0, 1)]
    for array in [*arrays, *arrays]:
        kernel[(1,)](array, array, 64, 3.0, B=64)
    assert [array.tolist() for array in arrays] == [[9.0] * 64] * 2
    with pytest.raises(ArgumentValueError, match="`x_ptr` on cuda:0, `y_ptr` on cuda:1"):
        kernel[(1,)](*arrays, 64, 3.0, B=64)


def in_new_processes(code: str, folder: Path, count: int = 1) -> list[str]:
    """Return what concurrent Python processes print, with a cache in `folder`."""
    environment = {**os.environ, "TILE_CACHE": "1", "TILE_CACHE_DIR": str(folder)}
    root = Path(__file__).parents[3]
    environment["PYTHONPATH"] = os.pathsep.join([str(root), *filter(None, sys.path)])
    (folder / "program.py").write_text(PROGRAM + code)
    command = [sys.executable, str(folder / "program.py")]
    with all_running(command, count, env=environment, stdout=-1, stderr=-1) as running:
        ended = [(*process.communicate(timeout=300), process.returncode) for process in running]
    assert all(status == 0 for _, _, status in ended), ended[0][1]
    return [out for out, _, _ in ended]


PROGRAM = """
import torch
import tile
import tile.language as tl
from tile.errors import ExecutionError

@tile.jit
def scale(x_ptr, n, shift, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x_ptr + i + shift, tl.load(x_ptr + i, mask=i < n) * 2.0, mask=i < n)

x = torch.ones(64, device="cuda")
"""


def test_processes_that_compile_at_once(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    code = "scale[(1,)](x, 64, 0, B=64)\nprint(x.sum().item())\n"
    assert [float(out) for out in in_new_processes(code, tmp_path, 3)] == [128.0] * 3
    assert len(list(tmp_path.rglob("*.entry"))) == 2  # the kernel, and its binary
    assert [float(out) for out in in_new_processes(code, tmp_path)] == [128.0]


def test_a_fault_of_an_earlier_launch(tmp_path: Path) -> None:
    """In a process of its own, which cannot use the device afterwards."""
    pytest.importorskip("torch")
    code = """
scale[(1,)](x, 64, 1 << 44, B=64)
try:
    for _ in range(1000):
        scale[(1,)](x, 64, 0, B=64)
    torch.cuda.synchronize()
except ExecutionError as error:
    print(error)
"""
    (said,) = in_new_processes(code, tmp_path)
    assert "found that a kernel failed on the device" in said
    assert "TILE_BACKEND=interp" in said
