"""Estimate a configuration's time from its TILE IR: bytes, operations and occupancy.

The model only ranks configurations for a search, which corrects it by what it measures. Its rates
are those of one kind of GPU; what is common to all configurations of a kernel changes no order.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tile.analysis.workload import Workload
from tile.backends.base import Options
from tile.runtime.autotuning.kernel_space import Profile, has_instruction
from tile.simt.target import SimtTarget


@dataclass(frozen=True)
class Rates:
    """Rates of one multiprocessor in a clock cycle, and what a program waits for.

    Those of an H200 (NVIDIA's data sheet, at 1.7 GHz), in part measured (docs/performance.md).
    """

    multiprocessors: int = 132
    mma_flops: float = 4096.0  # of 16-bit elements
    fma_flops: float = 256.0
    bytes: float = 32.0  # of global memory, between what HBM and L2 deliver
    latency: float = 700.0  # cycles from a load to its result
    launch: float = 2000.0  # cycles before the first instruction, and after the last
    threads: int = 2048
    programs: int = 32
    shared_bytes: int = 1 << 17  # where the target has less for a program, that


RATES = Rates()
CORE = 16.0  # a core without warps takes so much longer than a multiprocessor
LANES = 128  # instructions of threads that a multiprocessor executes in a cycle
THREAD_OPERATIONS = 8  # instructions of a thread besides arithmetic, for each dot or access
ADDRESS_REGISTERS = 32  # pointers, masks and counters of a thread (simt/schedule/resources.py)


def misfit(profile: Profile, point: Mapping[str, Any]) -> str | None:
    """Return why a configuration cannot run or win, None if it may; nothing is compiled for it."""
    simt = profile.simt
    if simt is None:
        return None
    options = _options(point)
    threads = options.num_warps * simt.warp_size
    if threads > simt.max_threads:
        return f"{threads} threads, and a program has at most {simt.max_threads} on {simt}"
    elements = max((math.prod(tiled.tile) for tiled in profile.work.tiles), default=1)
    if options.num_warps > 1 and threads > elements:
        return f"{threads} threads for tiles of at most {elements} elements"
    registers = profile.work.accumulator_bytes // 4 // threads
    if registers > 2 * simt.registers:
        return f"{registers} registers of a thread for one tile, and {simt.registers} exist"
    if profile.work.of_kind("dot") and profile.work.loop_bytes > simt.shared_bytes:
        return (
            f"{profile.work.loop_bytes} bytes of operands in an iteration, and a program has "
            f"{simt.shared_bytes} of shared memory"
        )
    return None


def estimate(
    profile: Profile, point: Mapping[str, Any], rates: Rates = RATES, registers: float | None = None
) -> float:
    """Return the estimated time of a launch, in cycles; infinity if it does not fit.

    registers: those that a thread of the compiled kernel needs, with those that it spills; they are
        estimated too if it is not compiled. On the interpreter the time is that of all operations.
    """
    work, simt = profile.work, profile.simt
    if simt is None:
        return profile.programs * (1e3 + work.flops + work.dot_flops / 16 + work.bytes)
    if misfit(profile, point) is not None:
        return math.inf
    options = _options(point)
    threads = options.num_warps * simt.warp_size
    if not simt.shuffles:  # lanes are iterations of a loop on a core
        own = throughput_cycles(profile, options, simt, rates) * CORE
        return profile.programs * (rates.launch + own + issue_cycles(work, threads) * CORE)
    if registers is None:
        registers = registers_of(profile, options, simt)
    resident = residents(profile, options, simt, rates, registers)
    busy = throughput_cycles(profile, options, simt, rates) + issue_cycles(work, threads)
    stages = max(1, options.num_stages - 1) if work.loop_bytes and work.of_kind("dot") else 1
    iterations = max((load.count for load in work.of_kind("load")), default=1.0)
    waiting = rates.latency * iterations / stages
    if work.of_kind("dot") and work.loop_bytes and options.num_stages == 1:
        busy += waiting / 2  # which other programs do not hide, by the recorded tables
    at_once = resident * rates.multiprocessors
    batches, rest = divmod(profile.programs, at_once)
    # Programs that are co-resident share the throughput of a multiprocessor; each waits for itself.
    full = max(resident * busy, busy + waiting) + rates.latency
    last = math.ceil(rest / rates.multiprocessors)
    tail = max(last * busy, busy + waiting) + rates.latency if last else 0.0
    spill = max(0.0, registers / simt.registers - 1)
    underused = max(1.0, 64 / threads)  # too few threads to issue at the full rate
    return rates.launch + (batches * full + tail) * (1 + 4 * spill) * math.sqrt(
        math.sqrt(underused)
    )


def issue_cycles(work: Workload, threads: int) -> float:
    """Return the cycles in which the threads of a program compute addresses and run its loops."""
    executed = sum(tiled.count for tiled in work.tiles)
    return executed * threads * THREAD_OPERATIONS / LANES


def features(profile: Profile, point: Mapping[str, Any]) -> tuple[float, ...]:
    """Return what times depend on besides the dimensions, as logarithms to base 2.

    The bytes of the largest tile for each thread, the programs of the grid, and for dots the bytes
    that each multiply-add loads.
    """
    work, simt = profile.work, profile.simt
    threads = 1 if simt is None else _options(point).num_warps * simt.warp_size
    held = max(1, work.accumulator_bytes) / threads
    intensity = work.bytes / max(1.0, work.dot_flops or work.flops)
    return math.log2(held), math.log2(max(1, profile.programs)), math.log2(max(1e-6, intensity))


def throughput_cycles(profile: Profile, options: Options, simt: SimtTarget, rates: Rates) -> float:
    """Return the cycles for which one program keeps a multiprocessor busy."""
    work = profile.work
    cycles = work.flops / rates.fma_flops * 2
    memory = work.bytes / rates.bytes
    dots = 0.0
    for dot in work.of_kind("dot"):
        m, n, _ = dot.shape[-3:]
        flops = 2.0 * math.prod(dot.shape) * dot.count
        if has_instruction(dot.element, simt):
            rate = rates.mma_flops * 16 / max(8, dot.element.bits)
            edge = math.sqrt(m * n / options.num_warps)  # of the sub-tile of a warp
            efficiency = edge / (edge + 16)
        else:
            rate = rates.fma_flops
            edge = min(options.thread_tile, math.sqrt(m * n / options.num_warps / simt.warp_size))
            efficiency = edge / (edge + 2)
        dots += flops / (rate * efficiency)
    return max(dots + cycles, memory)


def registers_of(profile: Profile, options: Options, simt: SimtTarget) -> float:
    """Return the estimated registers of a thread."""
    threads = options.num_warps * simt.warp_size
    work = profile.work
    loaded = max((load.bytes for load in work.of_kind("load")), default=0)
    held = work.live_bytes if work.of_kind("dot") else work.accumulator_bytes + loaded
    return ADDRESS_REGISTERS + held / 4 / threads


def residents(
    profile: Profile, options: Options, simt: SimtTarget, rates: Rates, registers: float
) -> int:
    """Return how many programs one multiprocessor runs at once, at least one."""
    threads = options.num_warps * simt.warp_size
    registers = min(simt.registers, registers)
    shared = 0
    if profile.work.of_kind("dot"):
        shared = profile.work.loop_bytes * max(1, options.num_stages)
    limits = [
        rates.programs,
        rates.threads // threads,
        int(simt.register_file / (threads * registers)),
        max(simt.shared_bytes, rates.shared_bytes) // max(1, shared),
    ]
    return max(1, min(limits))


def _options(point: Mapping[str, Any]) -> Options:
    names = Options.names()
    return Options.of({name: value for name, value in point.items() if name in names})
