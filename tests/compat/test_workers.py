"""Kernels that compile workers of other libraries send back, and attributes that they assign."""

import copy
import json
import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

import tile
import tile.language as tl
from tile.compat.environment import FOLDER, extend_path
from tile.errors import ArgumentValueError, CompilationError, OutOfResourcesError
from tile.runtime.kernel import CompiledKernel


@tile.jit
def scale(x_ptr, n, factor=2.0, BLOCK: tl.constexpr = 16, KIND: tl.constexpr = tl.float32):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, (tl.load(x_ptr + i, i < n) * factor).to(KIND), i < n)


def cleared():
    """Return a kernel and its function, with the attributes cleared that PyTorch's workers clear."""

    @tile.jit
    def local(x_ptr, BLOCK: tl.constexpr):
        tl.store(x_ptr + tl.arange(0, BLOCK), 1.0)

    kernel = local.warmup(np.float32, BLOCK=8)
    assert local.repr(local) == "local" and local.__globals__ is globals()
    local.__globals__ = local.used_global_vals = local._hash_lock = None
    local.fn = None
    return kernel, local


def test_a_function_without_its_python_function_pickles() -> None:
    _, local = cleared()
    got = pickle.loads(pickle.dumps(local))
    assert (got.fn, got.__name__, got.arg_names) == (None, "local", ["x_ptr", "BLOCK"])
    assert got.constexprs == [1] == [p.num for p in got.params if p.is_constexpr]
    assert got.src == local.src and got.src.startswith("def local(")
    assert got.cache_key == local.cache_key and got.repr(got) == "local"
    assert (got.__globals__, got.used_global_vals) == (None, None)  # which PyTorch keeps aside
    again = pickle.loads(pickle.dumps(got))
    assert again.arg_names == got.arg_names and again.cache_key == got.cache_key
    got._hash_lock = threading.RLock()
    got.fn = scale.fn  # the parent process has the function
    assert got.fn is scale.fn


def test_a_copy_without_the_python_function_stays_so() -> None:
    """PyTorch clears a function, copies it for its cache, and restores what it has cleared."""
    _, local = cleared()
    got = copy.deepcopy(local)
    local.fn = scale.fn
    assert got is not local and got.fn is None and got.repr(got) == "local"
    assert pickle.loads(pickle.dumps(got)).cache_key == got.cache_key
    assert copy.deepcopy(scale) is scale


def test_a_compiled_kernel_is_restored_from_its_attributes() -> None:
    kernel, _ = cleared()
    state = {**vars(kernel), "metadata": kernel.metadata, "module": None, "run": None}
    got = CompiledKernel.__new__(CompiledKernel)
    vars(got).update(pickle.loads(pickle.dumps(state)))
    got._init_handles()
    x = np.zeros(8, np.float32)
    got.run(1, 1, 1, None, got.function, got.metadata, None, None, None, x)
    assert x.tolist() == [1] * 8
    assert got.metadata.num_warps == kernel.metadata.num_warps
    assert got.src.fn.arg_names == ["x_ptr", "BLOCK"]


def test_the_text_can_be_replaced() -> None:
    @tile.jit
    def one(x_ptr):
        tl.store(x_ptr, 1)

    x = np.zeros(1, np.int32)
    one[1,](x)
    key = one.cache_key
    one._unsafe_update_src("def one(x_ptr):\n    tl.store(x_ptr, 7)\n")
    one[1,](x)
    assert x[0] == 7 and one.src.endswith("7)\n") and one.cache_key != key
    one._unsafe_update_src("def one(x_ptr):\n    tl.store(x_ptr, nothing)\n")
    with pytest.raises(CompilationError, match=r"(?s)`nothing` is not defined.*nothing\)\n.*\^"):
        one[1,](x)
    with pytest.raises(CompilationError, match="the new text does not define the same name"):
        one._unsafe_update_src("def other(x_ptr): pass")


def test_preload_compiles_what_a_hook_was_told(triton) -> None:
    told = []
    with triton.knobs.runtime.scope():
        triton.knobs.runtime.jit_cache_hook = lambda **event: told.append(
            event["compile"]["specialization_data"]
        )
        expected = scale.warmup(np.float32, 32, BLOCK=8, num_warps=2)
    kernel = scale.preload(told[0])
    assert kernel.signature == expected.signature and kernel.constants == expected.constants
    assert kernel.options == expected.options and kernel.hash == expected.hash
    other = json.dumps({**json.loads(told[0]), "name": "elsewhere.scale"})
    with pytest.raises(ArgumentValueError, match=r"a kernel of elsewhere\.scale, not of"):
        scale.preload(other)
    inexact = json.dumps({**json.loads(told[0]), "inexact": ["BLOCK"]})
    with pytest.raises(ArgumentValueError, match=r"the text has no value for .*BLOCK"):
        scale.preload(inexact)


def test_the_binder() -> None:
    kernels, _, target, backend, binder = scale.create_binder()
    assert (kernels, backend.name) == (scale.cache, target.backend)
    arguments, kinds, options = binder(np.zeros(4, np.float32), 32, BLOCK=8, num_warps=2)
    assert list(arguments) == scale.arg_names and arguments["BLOCK"] == 8
    assert [kind for kind, _ in kinds][1:] == ["i32:16", "fp32", "constexpr", "constexpr"]
    assert options == {"num_warps": 2}


def test_fields_of_missing_resources() -> None:
    @tile.jit
    def large(x_ptr):
        i = tl.arange(0, 32768)
        tl.store(x_ptr + i, tl.sort(tl.load(x_ptr + i)))

    with pytest.raises(OutOfResourcesError) as caught:
        tile.compile(large, {"x_ptr": "*fp64"}, options={"num_warps": 1}, target="interp:generic")
    error = pickle.loads(pickle.dumps(caught.value))
    assert error.name == "registers" and error.required > error.limit > 0
    made = OutOfResourcesError(300, 200, "shared memory")
    assert (made.required, made.limit, made.name) == (300, 200, "shared memory")
    assert "shared memory, 300 are needed; the limit is 200" in str(made)


def test_the_folder_is_on_the_path_of_workers(monkeypatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    extend_path()
    extend_path()
    assert sys.path.count(str(FOLDER)) == 1 == sys.path.index(str(FOLDER)) + 1
    assert os.environ["PYTHONPATH"].split(os.pathsep) == [str(FOLDER), "elsewhere"]


POOL = """
import sys, tile.compat

tile.compat.install_as_triton()
import __main__
from triton.compiler.compiler import triton_key

key = triton_key()
assert "tile.backends.nvptx.compiler" not in sys.modules
__main__.__file__ = "/somewhere/torch/_inductor/compile_worker/__main__.py"
assert triton_key() == key
before = set(sys.modules)
import triton, triton.language as tl, kernels

source = triton.compiler.ASTSource(kernels.shift, {"x_ptr": "*fp32", "B": "constexpr"}, {"B": 64})
triton.compile(source, triton.backends.compiler.GPUTarget("cuda", 90, 32))
late = {name for name in set(sys.modules) - before if name.startswith("tile.")}
late = {name for name in late if not name.startswith(("tile.compat.", "tile.runtime."))}
assert not late, late
"""

KERNELS = """
import triton, triton.language as tl


@triton.jit
def shift(x_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(x_ptr + i, tl.exp(tl.load(x_ptr + i)))
"""


def test_a_pool_loads_the_compiler_before_it_forks(tmp_path, monkeypatch) -> None:
    """Else each of its workers loads it. What it compiles for that is not cached."""
    pytest.importorskip("llvmlite")
    pytest.importorskip("cuda.bindings")
    (tmp_path / "kernels.py").write_text(KERNELS)
    (tmp_path / "pool.py").write_text(POOL)
    monkeypatch.setenv("TILE_CACHE_DIR", str(tmp_path / "cache"))
    command = [sys.executable, str(tmp_path / "pool.py")]
    subprocess.run(command, check=True, timeout=100)
    assert len(list((tmp_path / "cache").rglob("*.entry"))) <= 2  # of the kernel, and its cubin
