"""The package loads nothing before it is used, and is typed but for its kernels."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import tile
import tile.ops
from tests.ops.cases import assert_close
from tests.runtime.fake_cuda import CudaArray
from tile.ops.core.reference import reference_of
from tile.ops.core.tables import ANY, Table

METHOD = ("self", "cls")
PACKAGE = Path(tile.ops.__file__).parent


def test_names_are_imported_when_used() -> None:
    program = """if True:
        import sys, tile.ops
        def modules(): return sorted(m for m in sys.modules if m.startswith("tile.ops."))
        assert modules() == [], modules()
        tile.ops.softmax
        assert "tile.ops.rowwise.softmax" in modules()
        assert "tile.ops.linear" not in modules()
    """
    subprocess.run([sys.executable, "-c", program], check=True, cwd=PACKAGE.parents[1])


def test_names() -> None:
    assert sorted(tile.ops.__all__) == tile.ops.__all__
    assert set(tile.ops.__all__) <= set(dir(tile.ops))
    with pytest.raises(AttributeError, match=r"module 'tile\.ops' has no attribute 'sofmax'"):
        tile.ops.sofmax


def is_kernel(function: ast.FunctionDef) -> bool:
    return any("jit" in ast.unparse(decorator) for decorator in function.decorator_list)


def test_all_functions_but_kernels_are_annotated() -> None:
    """The configuration of mypy exempts the package from annotations, for the sake of kernels."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef) and not is_kernel(node):
                arguments = [*node.args.args, *node.args.kwonlyargs]
                missing = [a.arg for a in arguments if a.annotation is None and a.arg not in METHOD]
                assert missing == [] and node.returns is not None, f"{path.name}: {node.name}"


def test_tables() -> None:
    table = Table(
        {(ANY, ANY): {"BLOCK": 1}},
        {"nvptx": {(16, ANY): {"BLOCK": 2}, (ANY, 8): {"BLOCK": 3}, (ANY, ANY): {"BLOCK": 4}}},
    )
    sizes = ((16, 99), (17, 8), (17, 9))
    assert [table.select("nvptx", *size)["BLOCK"] for size in sizes] == [2, 3, 4]
    assert table.select("interp", 16, 99) == {"BLOCK": 1}
    with pytest.raises(ValueError, match="must have the bounds `ANY`"):
        Table({(16,): {}}, {})


def test_torch_tensors() -> None:
    torch = pytest.importorskip("torch")
    x = torch.randn(3, 37, dtype=torch.bfloat16)
    y = tile.ops.softmax(x)
    assert isinstance(y, torch.Tensor) and y.dtype == x.dtype
    torch.testing.assert_close(y, torch.softmax(x, -1))
    assert isinstance(tile.ops.softmax(np.ones(3, np.float32)), np.ndarray)


def test_arrays_of_a_library_with_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """CuPy's arrays are recognized by the interface of CUDA's, and `cupy.empty` makes more."""
    library = ModuleType("cupyish")
    kind = type("ndarray", (CudaArray,), {"__module__": "cupyish"})
    library.empty = lambda shape, dtype: kind(np.empty(shape, dtype))
    monkeypatch.setitem(sys.modules, "cupyish", library)
    x = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
    with tile.backend("interp"):
        y = tile.ops.softmax(kind(x))
    assert type(y) is kind
    assert_close(y.get(), reference_of(tile.ops.softmax)(x), 4, "softmax")


def test_pyopencl_arrays() -> None:
    cl_array = pytest.importorskip("pyopencl.array")
    devices = importlib.import_module("tile.backends.opencl.devices")
    x = np.random.default_rng(0).standard_normal((3, 5)).astype(np.float32)
    y = tile.ops.softmax(cl_array.to_device(devices.chosen().queue, x))
    assert isinstance(y, cl_array.Array)
    assert_close(y.get(), reference_of(tile.ops.softmax)(x), 4, "softmax")
