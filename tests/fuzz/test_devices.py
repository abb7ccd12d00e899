"""Random kernels on GPUs and other devices, against the tile-level interpreter.

`pytest tests/fuzz/test_devices.py --kernels 500` runs as many of each kind; a device that is not
there is skipped. `python -m tests.fuzz.search` goes on after a fault.
"""

from __future__ import annotations

import pytest

from tests.fuzz.random_kernels import KINDS, Drawn, Verdict, resolved
from tile.errors import BackendError

# Loops that wait by a plain load, and options that a device has no use for, are among random ones.
pytestmark = [
    pytest.mark.filterwarnings("ignore:a GPU may never observe the change"),
    pytest.mark.filterwarnings("ignore:the option"),
]


@pytest.fixture(scope="module", params=["nvptx", "opencl"])
def device(request: pytest.FixtureRequest) -> str:
    """A backend that has a device."""
    backend = str(request.param)
    try:
        resolved(backend)
    except BackendError as error:
        pytest.skip(error.message)
    return backend


@pytest.mark.parametrize("kind", KINDS)
def test_random_kernels(device: str, kind: str, request: pytest.FixtureRequest) -> None:
    count, same = request.config.getoption("--kernels"), 0
    for number in range(count):
        verdict, what = Drawn.of(number, kind).judge(device)
        assert verdict is not Verdict.WRONG, f"kernel {number}: {what}"
        same += verdict is Verdict.SAME
    assert same > count // 2
