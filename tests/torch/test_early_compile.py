"""TorchInductor's kernels are compiled early, and ptxas assembles several at the same time."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.torch.forking import Server, serving, start

pytest.importorskip("torch")
pytest.importorskip("llvmlite")

# Ends with an error unless another run starts while it goes on.
PTXAS = """\
#!{python} -S
import os, sys, time
from pathlib import Path
folder = Path(__file__).parent / "runs"
folder.mkdir(exist_ok=True)
(folder / str(os.getpid())).touch()
until = time.monotonic() + 60
while len(list(folder.iterdir())) < {runs}:
    if time.monotonic() > until:
        sys.exit("no other run started")
    time.sleep(0.01)
if "{refuses}" and "{refuses}" in Path(sys.argv[-3]).read_text():
    sys.exit("ptxas refuses it")
Path(sys.argv[-1]).write_bytes(b"code of " + Path(sys.argv[-3]).read_bytes()[:20])
"""

HEAD = '''
import functools, os, sys, warnings
warnings.simplefilter("ignore")
import torch
import torch._inductor.config as config
config.compile_threads = 1
import torch._inductor.codegen.triton as codegen
from torch._inductor.async_compile import AsyncCompile, CompiledTritonKernels
from torch._inductor.runtime import triton_heuristics as heuristics
from tile.compat import early_compile

# There is no GPU on which launchers could be made.
heuristics.triton_helpers.set_driver_to_gpu = lambda: None
heuristics.CachingAutotuner._make_launchers = lambda self: None
heuristics.CachingAutotuner._dynamic_scale_rblock = lambda self: None

def source(name, operation="x + x", configurations=2):
    return f"""
import triton
import triton.language as tl
from torch._inductor.runtime import triton_helpers, triton_heuristics
from torch._inductor.runtime.hints import DeviceProperties

@triton_heuristics.cached_autotune(
    {{"x": 1024}},
    [triton_heuristics.Config({{"XBLOCK": 64 << i}}, num_warps=4) for i in range({configurations})],
    triton_meta={{
        "signature": {{"x_ptr": "*fp32", "out_ptr": "*fp32", "xnumel": "i32", "XBLOCK": "constexpr"}},
        "constants": {{}}, "configs": [{{(0,): [["tt.divisibility", 16]]}}],
        "device": DeviceProperties(
            type="cuda", index=0, multi_processor_count=132, cc=90, major=9, warp_size=32,
            regs_per_multiprocessor=65536, max_threads_per_multi_processor=2048,
        ),
    }},
    heuristic_type=triton_heuristics.HeuristicType.POINTWISE, filename=__file__,
    inductor_meta={{"kernel_name": "{name}", "grid_type": "Grid1D"}},
)
@triton.jit
def {name}(x_ptr, out_ptr, xnumel, XBLOCK: tl.constexpr):
    i = tl.program_id(0) * XBLOCK + tl.arange(0, XBLOCK)
    x = tl.load(x_ptr + i, i < xnumel)
    tl.store(out_ptr + i, {operation}, i < xnumel)
"""

def kinds(autotuner):
    return [type(result).__name__ for result in autotuner.compile_results]

STATIC = "StaticTritonCompileResult"
'''


TRITON = ("-m", "tile", "triton")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder = tmp_path_factory.mktemp("server")
    with serving(folder, HEAD, TRITON, **environment(folder)) as server:
        yield server


def environment(folder: Path) -> dict[str, str]:
    """Return the settings of a program whose caches and ptxas are in a folder."""
    caches = ("TILE_CACHE_DIR", "TRITON_CACHE_DIR", "TORCHINDUCTOR_CACHE_DIR")
    paths = {name: str(folder / name) for name in caches}
    return {**paths, "TILE_CACHE": "1", "TILE_PTXAS": str(folder / "ptxas")}


@pytest.fixture
def run(server: Server, tmp_path: Path) -> Callable[..., str]:
    """Return a function that runs a program after HEAD, and returns what it prints."""

    def call(program: str, *, runs: int = 1, refuses: str = "") -> str:
        path = tmp_path / "ptxas"
        path.write_text(PTXAS.format(python=sys.executable, runs=runs, refuses=refuses))
        path.chmod(0o755)
        done = server.run(tmp_path, textwrap.dedent(program), environment(tmp_path))
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    return call


def test_two_kernels_are_assembled_while_the_program_goes_on(run: Callable[..., str]) -> None:
    """Neither run of ptxas ends before the second has started."""
    program = """
    first, second = source("first", configurations=1), source("second", "x * 3", 1)
    codegen.async_compile.triton("first", first)
    codegen.async_compile.triton("second", second)
    taken = [AsyncCompile().triton(name, text) for name, text in (("first", first), ("second", second))]
    print([kinds(kernel) == [STATIC] for kernel in taken])
    print([open(result.kernel.cubin_path, "rb").read()[:7] for kernel in taken for result in kernel.compile_results])
    print(CompiledTritonKernels.get(first))
    """
    lines = run(program, runs=2).splitlines()
    assert lines == ["[True, True]", "[b'code of', b'code of']", "None"]


def test_configurations_are_assembled_at_the_same_time(run: Callable[..., str]) -> None:
    """As in worker processes, which compile a kernel without launchers."""
    program = """
    from torch._inductor.runtime.compile_tasks import _worker_compile_triton
    from torch._inductor.async_compile import _load_triton_kernel_from_source
    load = functools.partial(_load_triton_kernel_from_source, "first", source("first"))
    kernel, _ = _worker_compile_triton(load, {}, {})
    print(kinds(kernel) == [STATIC] * 2, len({result.kernel.cubin_raw for result in kernel.compile_results}))
    """
    assert run(program, runs=2) == "True 1\n"


def test_a_launch_from_cpp_calls_no_function_of_the_compiler(run: Callable[..., str]) -> None:
    """But the one that takes the allocator, which PyTorch sets in launches and which does nothing."""
    program = """
    from types import SimpleNamespace
    import torch._inductor.runtime.static_triton_launcher as static
    def load(kernel, device):
        kernel.function, kernel.n_regs, kernel.n_spills = 1, 16, 0
    launches = []
    static.StaticallyLaunchedTritonKernel.load_kernel = load
    static.StaticallyLaunchedCudaKernel.C_impl = SimpleNamespace(
        _launch_kernel=lambda *arguments: launches.append(arguments)
    )
    text = source("first", configurations=1)
    codegen.async_compile.triton("first", text)
    kernel = AsyncCompile().triton("first", text)
    kernel.launchers = [result.make_launcher() for result in kernel.compile_results]
    x, called = torch.ones(64), set()
    def note(frame, event, argument):
        if event == "call" and "/tile/" in frame.f_code.co_filename:
            called.add(frame.f_code.co_name)
    kernel.run(x, x, 64, stream=0)
    sys.setprofile(note)
    kernel.run(x, x, 64, stream=0)
    sys.setprofile(None)
    print(len(launches), called - {"set_allocator"})
    """
    assert run(program) == "2 set()\n"


def test_a_kernel_that_ptxas_refuses_is_launched_otherwise(run: Callable[..., str]) -> None:
    """The driver compiles its PTX, or says what is wrong with it."""
    program = """
    text = source("first")
    codegen.async_compile.triton("first", text)
    print(kinds(AsyncCompile().triton("first", text)))
    """
    assert run(program, refuses=".entry") == "['TritonCompileResult', 'TritonCompileResult']\n"


def test_an_error_comes_where_the_module_is_imported(run: Callable[..., str]) -> None:
    program = """
    text = source("first", "nothing(x)")
    codegen.async_compile.triton("first", text)
    print(CompiledTritonKernels.get(text))
    try:
        AsyncCompile().triton("first", text)
    except Exception as error:
        print(type(error).__name__, "nothing" in str(error))
    """
    assert run(program) == "None\nCompilationError True\n"


@pytest.mark.parametrize(("threads", "loaded"), [(1, True), (4, False)])
def test_the_compiler_is_loaded_with_inductor_without_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, threads: int, loaded: bool
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_COMPILE_THREADS", str(threads))
    program = """
import threading
for thread in threading.enumerate():
    if thread.name == "tile-compiler":
        thread.join()
print("tile.backends.nvptx.compiler" in sys.modules)
"""
    text = HEAD.replace("config.compile_threads = 1\n", "") + program
    started = start(tmp_path, text, TRITON, **environment(tmp_path))
    output, errors = started.communicate(timeout=300)
    assert output == f"{loaded}\n", errors[-3000:]
