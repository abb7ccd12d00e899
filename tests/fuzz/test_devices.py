"""Random kernels on GPUs and other devices, against the tile-level interpreter.

`pytest tests/fuzz/test_devices.py --kernels 500` runs as many of each kind; a device that is not
there is skipped.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import pytest

from tests.fuzz.generate import Case, make
from tests.fuzz.running import assert_same
from tests.fuzz.sizes import LARGE, SMALL, Sizes
from tile.backends import registry
from tile.backends.base import Options, Target
from tile.errors import BackendError, OutOfResourcesError, UnsupportedError
from tile.ir.builder import Builder
from tile.ir.core import Module
from tile.ir.ops import arith

WARPS, STAGES = (1, 2, 4, 8), (1, 2, 3, 4)


def exact(module: Module) -> Module:
    """A copy with quotients that are rounded to nearest, as the interpreter's are."""
    copy = module.clone()
    for op in list(copy.walk()):
        if op.defn is arith.div and op.result.type.element.is_floating():
            op.replace_by([Builder.before(op)(arith.div_rn, *op.inputs)])
            op.erase()
    return copy


def run(case: Case, backend: str, options: Options) -> Sequence[Any]:
    """The arguments after a run of the kernel."""
    arguments = case.arguments()
    chosen = registry.get(backend)
    target = chosen.resolve(Target(backend))
    artifact = chosen.compile(exact(case.module), target, options)
    chosen.load(artifact).launch(case.grid, arguments)
    return arguments


@pytest.fixture(scope="module", params=["nvptx", "opencl"])
def device(request: pytest.FixtureRequest) -> str:
    """A backend that has a device."""
    backend = str(request.param)
    trial = make(random.Random(0).randrange, sizes=SMALL)
    try:
        run(trial, backend, Options())
    except BackendError as error:
        pytest.skip(error.message)
    except UnsupportedError:
        pass
    return backend


@pytest.mark.parametrize("sizes", [SMALL, LARGE], ids=["small", "large"])
def test_random_kernels(device: str, sizes: Sizes, request: pytest.FixtureRequest) -> None:
    count, ran = request.config.getoption("--kernels"), 0
    for seed in range(count):
        dice = random.Random(seed)
        case = make(dice.randrange, sizes=sizes)
        options = Options(
            num_warps=dice.choice(WARPS), num_stages=dice.choice(STAGES), enable_fp_fusion=False
        )
        wanted = run(case, "interp", options)
        try:
            found = run(case, device, options)
        except (OutOfResourcesError, UnsupportedError):
            continue  # nothing says that every device has room for each, and all its types
        try:
            assert_same(case, found, wanted)
        except AssertionError as error:
            raise AssertionError(f"kernel {seed}: {error}") from error
        ran += 1
    assert ran > count // 2
