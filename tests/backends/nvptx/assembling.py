"""THREAD modules built around operations, and their PTX assembled by ptxas."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import tile.simt.ops as simt_ops
from tile.backends.base import Options
from tile.backends.nvptx import ptxas
from tile.backends.nvptx.compiler import to_ptx
from tile.backends.nvptx.emit import lowering_target
from tile.backends.nvptx.emit.functions import EmittedModule, emit_module
from tile.backends.nvptx.target import architecture
from tile.ir.builder import Builder
from tile.ir.core import Function, Value
from tile.ir.module import Module
from tile.ir.op_definition import Level, OpDef
from tile.ir.ops import control, memory
from tile.ir.parser import parse_module
from tile.ir.types import Fragment, Pointer, Type
from tile.ir.verifier import verify
from tile.simt.layouts.linear_layout import LinearLayout
from tile.simt.lower.legalize import legalize

ARCHITECTURES = ("sm_75", "sm_80", "sm_90a", "sm_100")
HEADER = re.compile(r"^\.(version|target) .*$", re.MULTILINE)
ACCEPTED: dict[
    str, int
] = {}  # PTX without its header, and the oldest chip that it was assembled for


@dataclass(frozen=True)
class Use:
    """An operation on operands of some types."""

    defn: OpDef
    operands: tuple[Type | None, ...]
    attributes: dict[str, Any] = field(default_factory=dict)


def around(uses: Iterable[Use]) -> Module:
    """A kernel that loads operands, applies each operation to them and stores the results.

    It has a pointer for every element type that occurs.
    """
    uses = list(uses)
    types = [ty for use in uses for ty in _types(use)]
    elements = list(dict.fromkeys(ty.element for ty in types))
    kernel = Function(
        "around",
        [Pointer(e) for e in elements],
        [f"p{i}" for i in range(len(elements))],
        kernel=True,
    )
    build = Builder(kernel.body)
    pointers = dict(zip(elements, kernel.args))
    thread = build(simt_ops.thread.thread_id)
    for use in uses:
        operands = [
            None if ty is None else build(memory.load, _address(build, pointers, thread, ty))
            for ty in use.operands
        ]
        op = build.op(use.defn, *operands, **use.attributes)
        for value in op.results:
            build.op(memory.store, _address(build, pointers, thread, value.type), value)
    build.op(control.return_)
    return Module([kernel])


def _types(use: Use) -> Sequence[Type]:
    results = use.defn.infer(use.operands, use.defn.complete(dict(use.attributes)), ())
    return [*(ty for ty in use.operands if ty is not None), *results]


def _address(build: Builder, pointers: dict[Any, Value], thread: Value, ty: Type) -> Value:
    pointer = pointers[ty.element]
    if isinstance(ty, Fragment):
        pointer = build(simt_ops.thread.frag_splat, pointer, count=ty.count)
        thread = build(simt_ops.thread.layout_index, layout=in_a_row(ty.count))
    return build(memory.addptr, pointer, thread, stride=ty.element.itemsize)


def in_a_row(count: int) -> LinearLayout:
    """The registers of a thread in a row, then those of the next one; for 4 warps."""
    bits = count.bit_length() - 1
    register, lane, warp = range(bits), range(bits, bits + 5), range(bits + 5, bits + 7)
    bases = {"register": register, "lane": lane, "warp": warp}
    steps = {name: [[1 << bit] for bit in registers] for name, registers in bases.items()}
    return LinearLayout.of(steps, [count << 7])


def compiled(module: Module | str, arch: str, **options: Any) -> tuple[EmittedModule, str]:
    """Return what is emitted for a THREAD module after legalization, and its PTX."""
    if isinstance(module, str):
        module = parse_module(module)
    verify(module, Level.THREAD)
    chosen = architecture(arch)
    legalize(module, target=lowering_target(chosen))
    emitted = emit_module(module, chosen, Options(**options))
    return emitted, to_ptx(emitted, chosen)


@cache
def assembler() -> str:
    """Return the path of ptxas: in NVIDIA's wheels, a CUDA toolkit, or on the path."""
    ptxas_path = ptxas.find()
    if ptxas_path is None:
        pytest.skip("ptxas is not installed; pip install nvidia-cuda-nvcc brings it")
    return ptxas_path


def assemble(ptx: str, arch: str) -> str:
    """Return the report of ptxas with the registers of each function; fail if it rejects PTX."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "kernel.ptx")
        source.write_text(ptx)
        command = [assembler(), "-v", f"-arch={arch}", str(source), "-o", str(source) + ".cubin"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stderr}\n{ptx}"
    return done.stderr


def accept(ptx: str, arch: str) -> None:
    """Fail if ptxas rejects PTX.

    Later chips retain what earlier ones have (PTX ISA, `.target`), so PTX that differs in its header alone
    is assembled for the oldest chip. Targets such as sm_90a promise nothing for later ones.
    """
    body, chip = HEADER.sub("", ptx), int(re.sub(r"\D", "", arch))
    if ACCEPTED.get(body, chip + 1) <= chip:
        return
    assemble(ptx, arch)
    if arch[-1].isdigit():
        ACCEPTED[body] = chip


def check(module: Module | str, arch: str, **options: Any) -> str:
    """The PTX of a THREAD module, which the assembler takes."""
    _, ptx = compiled(module, arch, **options)
    accept(ptx, arch)
    return ptx


def fragment(element: Any, count: int = 2) -> Fragment:
    return Fragment(count, element)
