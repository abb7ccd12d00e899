"""Compile the kernels of `gpu.py` in parallel, so that the measuring process finds them on disk."""

from __future__ import annotations

import functools
import multiprocessing
import os
import re
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool

import torch
from compiler_peers import kernels_of
from gpu_cases import Case, makers
from triton.errors import TritonError

from tile.errors import TileError

# What compilers raise for tiles that do not fit.
REFUSALS = (TileError, TritonError, torch.OutOfMemoryError)
MOST_PROCESSES = 14  # each has a context on the GPU and the tensors of one case


@functools.lru_cache(maxsize=1)
def case_of(name: str) -> Case:
    torch.cuda.empty_cache()
    return dict(makers())[name](name)


def compile_choices(job: tuple[str, str]) -> None:
    """Run each choice of tiles of a case once. The measuring process tells what fails."""
    name, peer = job
    case, kernels = case_of(name), kernels_of(peer)
    for tiles in case.choices:
        try:
            case.run(kernels, tiles)()
            torch.cuda.synchronize()
        except REFUSALS:
            continue


def ordered(names: Sequence[str]) -> list[str]:
    """Return the names so that cases that differ in sizes, and may share kernels, are apart."""
    seen = Counter[str]()
    turns: dict[str, int] = {}
    for name in names:
        stem = re.sub(r"\d+", "#", name)
        turns[name] = seen[stem]
        seen[stem] += 1
    return sorted(names, key=turns.__getitem__)


def warm(names: Sequence[str], peers: Sequence[str]) -> None:
    """Compile all choices of the cases by the peers, with most of this machine's processors."""
    processes = min(MOST_PROCESSES, len(os.sched_getaffinity(0)) - 2)
    jobs = [(name, peer) for name in ordered(names) for peer in peers]
    if processes < 2 or not jobs:
        return
    context = multiprocessing.get_context("spawn")
    try:
        with ProcessPoolExecutor(min(processes, len(jobs)), context) as pool:
            for future in [pool.submit(compile_choices, job) for job in jobs]:
                future.result()
    except BrokenProcessPool as error:
        print(f"  compiling ahead ended: {error}", flush=True)
