"""`tl.core` and `tl.standard`: the names of `tl`, by Triton's modules."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import tile
import tile.language as tl
from tile.language import core, standard


@pytest.mark.parametrize("module", [core, standard], ids=["core", "standard"])
def test_names_are_those_of_the_language(module) -> None:
    for name in module.__all__:
        assert getattr(module, name) is getattr(tl, name), name
    assert set(module.__all__) <= set(dir(module))


def test_each_function_has_one_module() -> None:
    assert not set(core.__all__) & set(standard.__all__)
    names = {*core.__all__, *standard.__all__, *dir(tl.math), *dir(tl.random)}
    assert set(tl.__all__) <= names


def test_kernels_call_them() -> None:
    @tile.jit
    def kernel(x, N: tl.core.constexpr):
        at = tl.core.arange(0, N)
        total = tl.standard.sum(tl.core.load(x + at), 0)
        tl.core.store(x + at, tl.standard.cdiv(total, 4) + tl.standard.zeros([N], tl.core.int32))

    x = np.arange(8, dtype=np.int32)
    kernel[1,](x, N=8)
    assert x.tolist() == [7] * 8


def test_internal_modules_have_no_such_name() -> None:
    program = (
        "import tile.language as tl\n"
        "import tile.language.base.tensor, tile.language.base.constexpr, tile.language.composed\n"
        "assert isinstance(tl.core.tensor, type) and isinstance(tl.core.constexpr, type)\n"
        "assert tl.core.constexpr is tl.constexpr and tl.standard.cdiv is tl.cdiv\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
