"""THREAD kernels as text: a common frame, and functions that run them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tile.backends.interp.simulator.counters import Counters
from tile.backends.interp.simulator.thread_kernel import run_threads
from tile.ir.module import Module
from tile.ir.op_definition import Level
from tile.ir.parser import parse_module
from tile.ir.verifier import verify
from tile.simt.target import TARGETS

WARPS = 2
THREADS = 32 * WARPS

# Every thread has one element of the tile in %x, at index %i of a buffer and at %p in memory.
_FRAME = """
#line = #linear{register = [], lane = [[1],[2],[4],[8],[16]], warp = [[32]] -> dim0 = 64}
#flat = #linear{offset = [[1],[2],[4],[8],[16],[32]] -> dim0 = 64}
kernel @k(%in: ptr<f32>, %out: ptr<f32>) {
  %i = layout_index {layout = #line} : frag<1xi32>
  %from = frag_splat %in {count = 1} : frag<1xptr<f32>>
  %p = addptr %from, %i {stride = 4} : frag<1xptr<f32>>
  %to = frag_splat %out {count = 1} : frag<1xptr<f32>>
  %q = addptr %to, %i {stride = 4} : frag<1xptr<f32>>
  %x = load %p : frag<1xf32>
  %t = thread_id : i32
BODY
  return
}
"""


def thread_module(text: str) -> Module:
    """A THREAD module from text, verified."""
    module = parse_module(text)
    verify(module, Level.THREAD)
    return module


def run(
    text: str,
    *arguments: Any,
    target: str = "cp_async",
    warps: int = WARPS,
    grid: int = 1,
    counters: Counters | None = None,
) -> None:
    """Run the kernel of a module in text."""
    run_threads(thread_module(text), TARGETS[target], warps, (grid, 1, 1), arguments, counters)


def framed(body: str) -> str:
    """A kernel on 64 elements from %in to %out, one for each of 64 threads; see `_FRAME`."""
    return _FRAME.replace("BODY", body)


def result(body: str, **options: Any) -> Any:
    """Return what a framed kernel writes to %out if %in has 0 to 63."""
    out = np.full(64, -1, np.float32)
    run(framed(body), np.arange(64, dtype=np.float32), out, **options)
    return out
