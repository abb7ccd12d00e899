"""`tile.torch.inductor`, each time in a process of its own."""

import os
import shutil
import subprocess
import sys
import types
from collections.abc import Iterator

import pytest

import tile.torch
from tests.torch.forking import Server, serving
from tile.errors import TritonLoadedError
from tile.torch.inductor_backend import DESCRIBES, HINTS


def run(tmp_path, text, **variables) -> subprocess.CompletedProcess[str]:
    program = tmp_path / "program.py"
    program.write_text(text)
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(tmp_path), **variables}
    command = [sys.executable, str(program)]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


# How programs begin.
HEAD = """
import importlib.util

import torch
from torch.utils._triton import has_triton_package

if importlib.util.find_spec("triton") is None:
    has_triton_package()  # PyTorch remembers the answer

import tile.torch

tile.torch.inductor()
import torch._inductor.compile_fx
import torch._inductor.config as config

config.compile_threads = 1
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(tmp_path_factory.mktemp("server"), HEAD) as server:
        yield server


TRAINING = """
from tile.runtime.callbacks import recorded_launches

tile.torch.inductor()
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16))
x, target = torch.randn(4, 8), torch.randn(4, 16)
eager = torch.nn.functional.mse_loss(model(x), target)
eager.backward()
expected = [p.grad.clone() for p in model.parameters()]
model.zero_grad()
step = torch.compile(lambda: torch.nn.functional.mse_loss(model(x), target), fullgraph=True)
with recorded_launches() as launched:
    loss = step()
    loss.backward()
torch.testing.assert_close(loss, eager)
for parameter, gradient in zip(model.parameters(), expected, strict=True):
    torch.testing.assert_close(parameter.grad, gradient)
assert len(launched) > 1, launched
print(len(launched), "launches")
"""


def test_a_training_step_runs_on_tile_under_all_checks(tmp_path, server: Server) -> None:
    caches = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    done = server.run(tmp_path, TRAINING, {**caches, "TILE_SANITIZE": "all"})
    assert done.stdout.endswith(" launches\n"), done.stderr


INDEX = """
picked = torch.compile(lambda x, index: x[index] * 2, fullgraph=True)
print(picked(torch.ones(10), torch.tensor([0, 9])).tolist())
picked(torch.ones(10), torch.tensor([0, 99]))
"""


def test_an_index_out_of_range_raises(tmp_path, server: Server) -> None:
    done = server.run(tmp_path, INDEX, {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path)})
    assert done.stdout == "[2.0, 2.0]\n"
    assert "DeviceAssertionError: device_assert failed in `triton_poi_" in done.stderr
    assert "index out of bounds" in done.stderr


LOADED = """
import sys
import types

sys.modules["triton"] = types.ModuleType("triton")
import tile.torch

tile.torch.inductor()
"""

MISSING = """
import importlib.metadata as metadata

true = metadata.version
def version(name):
    if name == "torch":
        {0}
    return true(name)

metadata.version = version
import tile.torch
"""


OLD = """
import torch
import tile
import torch._dynamo
"""


def test_programs_with_an_older_pytorch_are_warned(tmp_path) -> None:
    """Launches in compiled functions need a later one; all else works."""
    pretend = MISSING.format("return '2.4.0+cpu'").removesuffix("import tile.torch\n")
    done = run(tmp_path, f"{pretend}{OLD}")
    assert done.returncode == 0, done.stderr
    assert "RuntimeWarning: tile.torch.dynamo does not work with this" in done.stderr
    assert "needs PyTorch 2.11 or later, and 2.4.0+cpu is installed" in done.stderr


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LOADED, "TritonLoadedError: Triton itself is loaded"),
        (MISSING.format("raise metadata.PackageNotFoundError"), "needs PyTorch, which is not inst"),
        (MISSING.format("return '2.4.0+cpu'"), "needs PyTorch 2.11 or later, and 2.4.0+cpu is in"),
    ],
)
def test_too_late_or_without_pytorch(tmp_path, text, message) -> None:
    done = run(tmp_path, text)
    assert message in done.stderr


def test_after_inductor_was_loaded_without_triton(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, HINTS, types.SimpleNamespace(**{DESCRIBES: tuple}))
    with pytest.raises(TritonLoadedError, match=r"before the first torch\.compile"):
        tile.torch.inductor()


NATIVE = """
model, x = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU()), torch.randn(4, 8)
if {ahead_of_time}:
    with torch.no_grad():
        exported = torch.export.export(model, (x,))
        path = torch._inductor.aoti_compile_and_package(exported, package_path={path!r})
        compiled = torch._inductor.aoti_load_package(path)
else:
    config.cpp_wrapper = True
    compiled = torch.compile(model)
torch.testing.assert_close(compiled(x), model(x))
print("equal")
"""


@pytest.mark.parametrize("ahead_of_time", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_cpp_needs_machine_code(tmp_path, server: Server, ahead_of_time) -> None:
    text = NATIVE.format(ahead_of_time=ahead_of_time, path=str(tmp_path / "model.pt2"))
    done = server.run(tmp_path, text, {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path)})
    assert "UnsupportedError: AOTInductor and cpp_wrapper call kernels from C++" in done.stderr
    assert "tile.torch.inductor(cpu=False)" in done.stderr


@pytest.mark.nightly
@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler")
@pytest.mark.parametrize("ahead_of_time", [False, True])
def test_cpp_without_kernels_for_the_cpu(tmp_path, ahead_of_time) -> None:
    text = NATIVE.format(ahead_of_time=ahead_of_time, path=str(tmp_path / "model.pt2"))
    done = run(tmp_path, HEAD.replace("inductor()", "inductor(cpu=False)") + text)
    assert done.stdout.endswith("equal\n"), done.stderr
