"""OpenCL by pip alone: Intel's runtime and the simulator, where there is no compiler and no linker."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("pyopencl")

from tests.backends.opencl.bare import CHECKOUT, BareMachine, isolation
from tile.backends.opencl import devices
from tile.errors import BackendError

try:
    PRESENT = " ".join(map(devices.describe, devices.all_devices())).lower()
except BackendError:
    PRESENT = ""

# Arithmetic, functions of the runtime's library, shared memory and barriers, atomics.
CONFORMANCE = (
    "test_pure and (exp2 or reduce_region) and full or atomic_cas and i32 or test_constants"
)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> BareMachine:
    if not sys.platform.startswith("linux"):
        pytest.skip("mount namespaces are Linux's")
    means = isolation()
    if not means:
        pytest.skip("this process may not have a mount namespace of its own")
    machine = BareMachine(tmp_path_factory.mktemp("machine"), means)
    machine.furnish()
    return machine


def test_the_machine_has_python_and_a_shell(machine: BareMachine) -> None:
    """Nothing that compiles or links, no settings, and no way to get any."""
    program = """if True:
        import os, shutil, socket
        assert sorted(os.listdir("/bin")) == ["sh"], os.listdir("/bin")
        assert not os.path.exists("/etc")
        for name in ("cc", "gcc", "clang", "tcc", "as", "ld", "ld.lld", "ld.gold"):
            assert shutil.which(name) is None, name
            assert not os.path.exists("/usr/bin/" + name), name
        assert [name for _, name in socket.if_nameindex()] == ["lo"]
    """
    done = machine.run("-c", program)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("runtime", ["intel", "oclgrind"])
def test_conformance(machine: BareMachine, runtime: str) -> None:
    if runtime not in PRESENT:
        pytest.skip(f"no OpenCL device is {runtime!r}")
    suite = str(CHECKOUT / "tests" / "conformance")
    options = ["-p", "no:cacheprovider", f"--rootdir={CHECKOUT}", f"-c{CHECKOUT}/pyproject.toml"]
    options += [f"--backend=opencl:@{runtime}", "-k", CONFORMANCE]
    done = machine.run("-m", "pytest", suite, *options)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "passed" in done.stdout
    assert "skipped" not in done.stdout


def example(machine: BareMachine, **variables: str) -> subprocess.CompletedProcess[str]:
    """The main job, on OpenCL."""
    program = str(CHECKOUT / "examples" / "vector_add.py")
    return machine.run(program, TILE_BACKEND="opencl", **variables)


def test_an_example_finds_a_device(machine: BareMachine) -> None:
    done = example(machine)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 checks passed" in done.stdout


def test_pocl_is_no_device_without_a_linker(machine: BareMachine) -> None:
    """It would end the process."""
    if "portable" not in PRESENT:
        pytest.skip("no OpenCL device is 'portable'")
    done = example(machine, TILE_OPENCL_DEVICE="portable")
    assert done.returncode != 0
    assert "'portable', which is part of no OpenCL device's name" in done.stdout + done.stderr
    info = machine.run("-m", "tile", "info", "opencl")
    assert "it needs ld and cc" in info.stdout
