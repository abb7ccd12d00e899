"""`triton.compile`, drivers, backends and caches of files."""

import importlib
import os
import pickle
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import tile
import tile.language as tl
from tile.errors import UnsupportedError


@tile.jit
def add(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x_ptr + i, tl.load(x_ptr + i, i < n) + tl.load(y_ptr + i, i < n), i < n)


def source(triton):
    return triton.compiler.ASTSource(
        fn=add,
        signature={"x_ptr": "*fp32", "y_ptr": "*fp32", "n": "i32", "BLOCK": "constexpr"},
        constexprs={(3,): 16},
        attrs={(0,): [["tt.divisibility", 16]], (1,): [["tt.divisibility", 16]]},
    )


def test_compile_and_launch(triton) -> None:
    kernel = triton.compile(source(triton), options={"num_warps": 2, "waves_per_eu": 1})
    assert kernel.metadata.num_warps == 2
    assert kernel.signature["x_ptr"] == "*fp32:16"
    x = np.zeros(64, np.float32)[16:48]
    x, y = np.zeros(16, np.float32), np.ones(16, np.float32)
    if x.ctypes.data % 16 == y.ctypes.data % 16 == 0:
        kernel[1, 1, 1](x, y, 10)
        assert x.sum() == 10


def test_compile_for_a_gpu_without_one(triton) -> None:
    pytest.importorskip("llvmlite")
    target = triton.backends.compiler.GPUTarget("cuda", 90, 32)
    kernel = triton.compile(source(triton), target=target)
    assert ".target sm_90a" in kernel.asm["ptx"] and "define" in kernel.asm["llir"]
    other = triton.backends.compiler.GPUTarget("hip", "gfx942", 64)
    with pytest.raises(triton.TritonError, match="no backend for 'hip'"):
        triton.compile(source(triton), target=other)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda triton: triton.compile("kernel.ttir"), "cannot compile kernel.ttir: it is IR"),
        (lambda triton: triton.compile(add), "takes an ASTSource, not"),
        (lambda triton: triton.compile(source(triton), target="cuda"), "is a GPUTarget, not"),
        (lambda triton: triton.compiler.ASTSource(add, {0: "i32"}), "names of parameters"),
    ],
)
def test_what_cannot_be_compiled(triton, make, words) -> None:
    with pytest.raises(triton.TritonError, match=words):
        make(triton)


def test_driver(triton) -> None:
    driver = triton.runtime.driver
    active = driver.active
    target = active.get_current_target()
    assert (target.backend, target.arch, target.warp_size) == ("cpu", 0, 32)
    assert active.utils.get_device_properties(0)["max_shared_mem"] == 232448
    assert (active.get_current_device(), active.get_current_stream(0)) == (0, 0)
    assert active.get_benchmarker() is triton.testing.do_bench
    active.clear_cache(active.get_empty_cache_for_benchmark())
    interface = active.get_device_interface()
    start, end = (interface.Event(enable_timing=True) for _ in range(2))
    start.record()
    end.record()
    interface.synchronize()
    assert start.elapsed_time(end) >= 0

    class Other(triton.backends.driver.GPUDriver):
        is_active = classmethod(lambda cls: True)
        get_current_target = get_active_torch_device = get_benchmarker = lambda self: None

    driver.set_active(Other())
    assert driver.active.get_current_target() is None and driver.default is active
    driver.reset_active()
    assert driver.active is active


PYTORCH_WITH_A_GPU = """
import sys
from types import ModuleType, SimpleNamespace

import tile.compat

tile.compat.install_as_triton()
torch = sys.modules["torch"] = ModuleType("torch")
torch.version = SimpleNamespace(cuda="13.0")
torch.cuda = SimpleNamespace(
    is_initialized=lambda: False, get_device_capability=lambda: (9, 0), is_available=lambda: True
)
from triton.backends import backends
from triton.runtime import driver
from tile.compat import preload

preload.load_compiler()
assert [name for name, one in backends.items() if one.driver.is_active()] == ["nvidia"]
torch.cuda.is_initialized = lambda: True
target = driver.active.get_current_target()
assert (target.backend, target.arch, target.warp_size) == ("cuda", 90, 32), target
torch.cuda.is_initialized = lambda: False  # as in a worker process
assert tile.compat.driver.tile_target(target).arch == "sm_90a"
assert "tile.backends.nvptx.driver" not in sys.modules
"""


def test_pytorch_tells_the_current_device_without_cuda_python() -> None:
    env = {name: text for name, text in os.environ.items() if name != "TILE_BACKEND"}
    done = subprocess.run(
        [sys.executable, "-c", PYTORCH_WITH_A_GPU],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]


def test_backends(triton) -> None:
    backends = triton.backends.backends
    assert [name for name, one in backends.items() if one.driver.is_active()] == ["cpu"]
    backend = triton.compiler.make_backend(triton.runtime.driver.active.get_current_target())
    assert backend.hash() == backend.hash()
    options = backend.parse_options({"num_warps": 8, "kpack": 2})
    assert (options.num_warps, options.kpack, options.extern_libs) == (8, 2, ())
    key = triton.compiler.get_cache_key(source(triton), backend, options, {})
    assert key == triton.compiler.get_cache_key(source(triton), backend, options, {})
    with pytest.raises(triton.TritonError, match="passes of its own IR"):
        backend.add_stages({}, options)


def test_what_a_backend_and_allocator_refuse(triton) -> None:
    backend = triton.compiler.make_backend(triton.runtime.driver.active.get_current_target())
    other = triton.backends.compiler.GPUTarget("hip", "gfx942", 64)
    with pytest.raises(triton.TritonError, match="does not compile for GPUTarget"):
        type(backend)(other)
    with pytest.raises(RuntimeError, match="no allocator is set for 64 bytes of scratch memory"):
        triton.runtime._allocation.NullAllocator()(64, 8, None)


@pytest.mark.parametrize("shape", [(4, 3), (0,), (-2,)])
def test_blocks_whose_extents_are_no_powers_of_two(triton, shape) -> None:
    assert triton._utils.validate_block_shape((4, 8)) == 32
    with pytest.raises(ValueError, match=f"are powers of two, and {shape[-1]} is not"):
        triton._utils.validate_block_shape(shape)


def test_files_by_key(triton, tmp_path, monkeypatch) -> None:
    from triton.runtime.cache import get_cache_manager, triton_key

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    manager = get_cache_manager(triton_key())
    assert manager.get_file("a.json") is None
    path = manager.put("{}", "a.json", binary=False)
    assert path == manager.get_file("a.json") and path.startswith(str(tmp_path))
    manager.put_group("all", {"a.json": path})
    assert get_cache_manager(triton_key()).get_group("all") == {"a.json": path}
    assert manager.get_group("none") is None


def test_peaks(triton) -> None:
    assert triton.testing.get_dram_gbps() == pytest.approx(3352, rel=1e-3)
    ratio = [
        f("fp16", 1e6) / f("fp32", 1e6)
        for f in (triton.testing.get_max_tensorcore_tflops, triton.testing.get_max_simd_tflops)
    ]
    assert ratio == [2, 2]
    with pytest.raises(ValueError, match="no peak for fp64"):
        triton.testing.get_max_simd_tflops("fp64", 1e6)


def test_constants_of_the_target_in_kernels(triton) -> None:
    @triton.jit
    def kernel(x_ptr):
        if triton.language.target_info.is_cuda():
            tl.store(x_ptr, 1.0)
        else:
            tl.store(x_ptr, 2.0)

    x = np.zeros(1)
    kernel[1,](x)
    assert x[0] == 2.0


def test_reinterpret(triton) -> None:
    @triton.jit
    def kernel(x_ptr, out_ptr):
        tl.store(out_ptr, tl.load(x_ptr).to(tl.float32))

    x, out = np.array([0x38], np.uint8), np.zeros(1, np.float32)
    wrapped = triton.reinterpret(x, tl.float8e4nv)
    kernel[1,](wrapped, out)
    assert out[0] == 1.0 and triton.reinterpret(wrapped, np.dtype(np.uint8)) is x
    with pytest.raises(TypeError, match="elements of 1 bytes, and fp16 has 2"):
        kernel[1,](triton.reinterpret(x, tl.float16), out)
    with pytest.raises(TypeError, match="takes an array"):
        triton.reinterpret(3, tl.float16)


def test_names_that_are_absent_say_why_in_kernels(triton) -> None:
    @triton.jit
    def kernel(x_ptr):
        triton.testing.cuda_memcheck()

    with pytest.raises(triton.CompilationError, match="use `tile check`"):
        kernel[1,](np.zeros(1))


def test_values_for_constexpr_parameters_of_callees(triton) -> None:
    """Triton's attention tutorial passes tiles there."""

    @triton.jit
    def twice(x: tl.constexpr):
        y: tl.constexpr = x * 2
        return tl.constexpr(y)  # as mase-triton writes it

    @triton.jit
    def kernel(x_ptr, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(x_ptr + i, twice(i) + twice(BLOCK))

    x = np.zeros(4, np.int32)
    kernel[1,](x, BLOCK=4)
    assert x.tolist() == [8, 10, 12, 14]


def test_dtypes_that_annotate_local_names(triton) -> None:
    """SGLang's hashes state them of names whose values have other dtypes, and Triton ignores them."""

    @triton.jit
    def mix(h: tl.uint32, k: tl.uint32) -> tl.uint32:
        c: tl.uint32 = 5
        return h * c + k

    @triton.jit
    def kernel(x_ptr):
        h: tl.uint32 = 0
        tl.store(x_ptr, mix(h, tl.load(x_ptr)))

    x = np.full(1, 7, np.int64)
    kernel[1,](x)
    assert x.tolist() == [7]


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_rounding_of_casts_to_the_type_of_an_argument(triton, dtype) -> None:
    """FLA's kernels name a rounding whatever the type is."""

    @triton.jit
    def kernel(x_ptr, out_ptr):
        x = tl.load(x_ptr)
        tl.store(out_ptr, x.to(out_ptr.dtype.element_ty, fp_downcast_rounding="rtne"))

    out = np.zeros(1, dtype)
    kernel[1,](np.full(1, 0.1, np.float32), out)
    assert out[0] == dtype(0.1)


def test_async_compilation(triton) -> None:
    from concurrent.futures import ThreadPoolExecutor

    finished = []
    with ThreadPoolExecutor(1) as executor, triton.AsyncCompileMode(executor) as mode:
        kernel = mode.submit("key", lambda: triton.compile(source(triton)), finished.append)
        assert mode.submit("key", None, None) is kernel
    assert finished == [kernel.result()] and kernel.name == "add"


def test_async_compilation_that_fails(triton) -> None:
    from concurrent.futures import ThreadPoolExecutor

    failed = []
    with (
        ThreadPoolExecutor(1) as executor,
        triton.AsyncCompileMode(executor, ignore_errors=True) as mode,
    ):
        kernel = mode.submit("key", lambda: 1 // 0, pytest.fail, failed.append)
    assert failed and all(future is kernel for future in failed) and kernel.result(True) is None


def test_errors_of_resources_are_made_by_keywords(triton) -> None:
    error = triton.OutOfResources(required=300, limit=200, name="shared memory")
    assert (error.required, error.limit, error.name) == (300, 200, "shared memory")
    assert "shared memory, 300 are needed; the limit is 200" in str(error)


def test_types_of_pointers_and_blocks(triton) -> None:
    tl = triton.language
    assert tl.pointer_type(tl.float32, "global") == tl.pointer_type(tl.float32)
    assert not tl.block_type(tl.float32, [8]).is_ptr()


def test_kernels_for_a_gpu_have_a_cubin_for_the_static_launcher(triton, tmp_path, monkeypatch):
    pytest.importorskip("llvmlite")
    if importlib.import_module("tile.backends.nvptx.ptxas").find() is None:
        pytest.skip("no ptxas")
    monkeypatch.setenv("TILE_CACHE", "1")
    monkeypatch.setenv("TILE_CACHE_DIR", str(tmp_path / "tile"))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    target = triton.backends.compiler.GPUTarget("cuda", 90, 32)
    kernel = triton.compile(source(triton), target=target, options={"num_warps": 2})
    folder = triton.runtime.cache._base32(kernel.hash)
    assert (tmp_path / folder / "add.cubin").read_bytes() == kernel.asm["cubin"]
    assert kernel.asm["cubin"].startswith(b"\x7fELF") and not kernel.disjoint_parameters
    assert kernel.src.signature == {
        "x_ptr": "*fp32",
        "y_ptr": "*fp32",
        "n": "i32",
        "BLOCK": "constexpr",
    }


@tile.jit
def scaled(x_ptr, scales_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i, i < n)
    tl.store(out_ptr + i, x * tl.load(scales_ptr + i % 64), i < n)


def test_threads_of_kernels_for_libraries_wait_only_for_barriers(triton, monkeypatch) -> None:
    """Other arrays need none, as in Triton; `tile.compile` orders threads if arrays may overlap."""
    pytest.importorskip("llvmlite")
    monkeypatch.setenv("TILE_CACHE", "0")
    pointers = ("x_ptr", "scales_ptr", "out_ptr")
    signature = {**dict.fromkeys(pointers, "*fp32"), "n": "i32", "BLOCK": "constexpr"}
    target = triton.backends.compiler.GPUTarget("cuda", 90, 32)
    source = triton.compiler.ASTSource(scaled, signature, {"BLOCK": 1024})
    kernel = triton.compile(source, target=target)
    assert "bar.sync" not in kernel.asm["ptx"] and not kernel.disjoint_parameters
    types = {name: kind for name, kind in signature.items() if name != "BLOCK"}
    ordered = tile.compile(scaled, types, {"BLOCK": 1024}, target="nvptx:sm_90a", may_overlap=True)
    assert "bar.sync" in ordered.asm["ptx"]


@tile.jit
def negate(source, target, N: tl.constexpr):
    target.store([tl.program_id(0) * N, 0], -source.load([tl.program_id(0) * N, 0]))


CLUSTERED = {"num_ctas": 2}
COOPERATIVE = {"launch_cooperative_grid": True}


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (CLUSTERED, "its programs form clusters"),
        (COOPERATIVE, "its grid is cooperative"),
        ({"launch_pdl": True}, "it may overlap the launch before"),
        ({}, "ptxas, which assembles it, is not found, or the cache for it is disabled"),
    ],
)
def test_a_kernel_without_a_cubin_says_why(triton, monkeypatch, options, reason) -> None:
    pytest.importorskip("llvmlite")
    monkeypatch.setenv("TILE_CACHE", "0")
    target = triton.backends.compiler.GPUTarget("cuda", 90, 32)
    kernel = triton.compile(source(triton), target=target, options=options)
    message = "add has no cubin for launches from C\\+\\+, as by AOTInductor, .*: " + reason
    for one in (kernel, pickle.loads(pickle.dumps(kernel.asm))):
        stages = getattr(one, "asm", one)
        with pytest.raises(UnsupportedError, match=message):
            stages["cubin"]
        assert "cubin" not in stages and stages.get("cubin") is None


def test_a_kernel_with_tensor_maps_has_no_cubin(triton) -> None:
    pytest.importorskip("llvmlite")
    block = "tensordesc<fp16[32, 64]>"
    signature = {"source": block, "target": block, "N": "constexpr"}
    sourced = triton.compiler.ASTSource(negate, signature, {"N": 32})
    target = triton.backends.compiler.GPUTarget("cuda", 90, 32)
    with pytest.raises(UnsupportedError, match="it has arguments of types tensordesc<fp16"):
        triton.compile(sourced, target=target).asm["cubin"]


@tile.jit(debug=True)
def gather(x_ptr, i_ptr, n):
    i = tl.load(i_ptr)
    tl.device_assert((i >= 0) & (i < n), "index out of range")
    tl.store(x_ptr, tl.load(x_ptr + i))


def test_a_false_assertion_fails_the_launches_of_libraries(triton) -> None:
    """`tile`'s own kernels report it to the next launch, for which libraries do not wait."""
    pytest.importorskip("llvmlite")
    signature = {"x_ptr": "*fp32", "i_ptr": "*i64", "n": "i32"}
    target = triton.backends.compiler.GPUTarget("cuda", 90, 32)
    kernel = triton.compile(triton.compiler.ASTSource(gather, signature), target=target)
    own = tile.compile(gather, signature, target="nvptx:sm_90a")
    assert "__assertfail" in kernel.asm["ptx"]
    assert own.artifact.launch_metadata["assertions"]
    assert not kernel.artifact.launch_metadata["assertions"]
    assert not pickle.loads(pickle.dumps(kernel)).artifact.launch_metadata["assertions"]


def test_workers_compile_for_the_gpu_of_their_parent(triton, monkeypatch) -> None:
    """A process forked from one that uses CUDA cannot open the driver; PyTorch knows the GPU."""
    cuda = SimpleNamespace(is_available=lambda: True)
    torch = SimpleNamespace(cuda=cuda, version=SimpleNamespace(cuda="13.0"))
    monkeypatch.setitem(sys.modules, "torch", torch)
    backends = triton.backends.backends

    def active() -> list[str]:
        return [name for name, one in backends.items() if one.driver.is_active()]

    assert active() == ["nvidia"]
    with tile.backend("interp"):
        assert active() == ["cpu"]
    torch.version.cuda = None  # PyTorch for AMD's GPUs
    assert active() == ["cpu"]
