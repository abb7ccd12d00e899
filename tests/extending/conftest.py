"""Extensions from outside of `tile/`: each is declared for one test and leaves nothing behind."""

from __future__ import annotations

import pytest

from tests import pocl
from tile.errors import BackendError

SIMULATED = ("interp", "interp:generic", "interp:mma", "interp:warp64")
ARCHITECTURES = ("sm_75", "sm_80", "sm_90a", "sm_100")


@pytest.fixture(params=[*SIMULATED, "opencl:pocl"])
def target(request: pytest.FixtureRequest) -> str:
    """A backend on which kernels run without a GPU."""
    if request.param == "opencl:pocl":
        skip_without_pocl()
    return str(request.param)


@pytest.fixture(params=ARCHITECTURES)
def architecture(request: pytest.FixtureRequest) -> str:
    """An architecture for which kernels compile, if llvmlite is installed."""
    pytest.importorskip("llvmlite", reason="llvmlite is not installed")
    return str(request.param)


def skip_without_pocl() -> None:
    pytest.importorskip("pyopencl", reason="pyopencl is not installed")
    from tile.backends.opencl import devices

    try:
        devices.index_of("pocl")
    except BackendError as error:
        pytest.skip(error.message)
    pocl.name_cpus()
