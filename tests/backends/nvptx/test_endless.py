"""Loops that may never end remain in the PTX and in the machine code of ptxas."""

from __future__ import annotations

import re
import struct
from typing import Any

import pytest

import tile
import tile.language as tl
from tests.backends.interp.test_spins import (
    FOREVER,
    calls_noinline,
    dead_loops,
    plain_flag,
    volatile_flag,
)
from tile.backends.nvptx import ptxas

SPIN = {"lock": "*i32", "n": "i32", "o": "*i32"}
# Of sm_90: the opcode of a branch, and the bit that says that it leads backward.
BRANCH, BACKWARD = 0x947, 1 << 63


def compiled(kernel: Any, signature: dict[str, str]) -> str:
    return str(tile.compile(kernel, signature, target="nvptx:sm_90a").asm["ptx"])


def backward_branches(ptx: str) -> int:
    """Branches of the assembled code that lead backward, but for those to themselves as padding."""
    program = ptxas.find()
    if program is None:
        pytest.skip("no ptxas here")
    cubin, _ = ptxas.assemble(ptx, "sm_90a", program)
    code = text_of(cubin)
    words = [struct.unpack_from("<Q", code, at)[0] for at in range(0, len(code), 16)]
    branches = [word for word in words if word & 0xFFF == BRANCH and word & BACKWARD]
    return len([word for word in branches if word >> 16 & 0xFF != 0xFC])


def text_of(elf: bytes) -> bytes:
    """The sections of an ELF file with code."""
    start, size, count, names = (
        struct.unpack_from(kind, elf, at)[0]
        for kind, at in (("<Q", 0x28), ("<H", 0x3A), ("<H", 0x3C), ("<H", 0x3E))
    )
    sections = [struct.unpack_from("<IIQQQQ", elf, start + i * size) for i in range(count)]
    base = sections[names][4]
    texts = [
        elf[section[4] : section[4] + section[5]]
        for section in sections
        if elf[base + section[0] :].startswith(b".text")
    ]
    return b"".join(texts)


@pytest.mark.filterwarnings("ignore:a GPU")
@pytest.mark.parametrize("kernel", FOREVER, ids=lambda kernel: kernel.__name__)
def test_an_endless_loop_remains(kernel: Any) -> None:
    ptx = compiled(kernel, SPIN)
    assert re.search(r"\bbra", ptx)
    assert backward_branches(ptx) > 0


def test_a_loop_that_ends_is_not() -> None:
    ptx = compiled(dead_loops, {"n": "i32", "o": "*i32"})
    assert not re.search(r"\bbra", ptx)
    assert backward_branches(ptx) == 0


@pytest.mark.filterwarnings("ignore:a GPU")
def test_a_side_effect_is_put_only_where_there_is_none() -> None:
    assert "bar.warp.sync" in compiled(plain_flag, SPIN)
    assert "bar.warp.sync" in compiled(calls_noinline, SPIN)
    assert "bar.warp.sync" not in compiled(volatile_flag, SPIN)


@tile.jit
def steps_of(n, o):
    for _ in range(0, 10, n):
        pass
    tl.store(o, 1)


def test_a_step_that_may_be_0_keeps_the_loop() -> None:
    ptx = compiled(steps_of, {"n": "i32", "o": "*i32"})
    assert backward_branches(ptx) > 0
