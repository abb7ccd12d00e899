"""The PTX of a linked module."""

from __future__ import annotations

import pytest

from tests.backends.nvptx.assembling import ARCHITECTURES, accept
from tests.conformance.linked_modules import TEXTS
from tile import backends
from tile.backends.base import Options, Target
from tile.ir.linker import link
from tile.ir.parser import parse_module


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_functions_of_other_modules_are_inlined_or_called(arch: str) -> None:
    backend = backends.get("nvptx")
    target = backend.resolve(Target.parse(f"nvptx:{arch}"))
    artifact = backend.compile(link([parse_module(text) for text in TEXTS]), target, Options())
    ptx = artifact.stages["ptx"]
    assert isinstance(ptx, str)
    assert ".entry k(" in ptx and "call.uni" in ptx and "write" in ptx
    assert "scale" not in ptx
    accept(ptx, arch)
