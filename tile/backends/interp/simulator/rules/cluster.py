"""Rules of clusters: their barrier, numbers, and arrives and TMA loads that reach both programs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tile.backends.interp.bytecode import Run, rule_in, runs_in
from tile.backends.interp.cluster_values import gathered
from tile.backends.interp.program_batch import ProgramBatch
from tile.backends.interp.simulator.fault_report import require_whole_programs
from tile.backends.interp.simulator.launch import chunk_of, launch_of, thread_map_of
from tile.backends.interp.simulator.rules.tma import (
    DescriptorBlock,
    block_load,
    by_program,
    stage_of,
)
from tile.backends.interp.translate import Rules
from tile.backends.interp.values import Array, RunValue
from tile.ir.core import Operation
from tile.simt import ops

RULES: Rules = {}
rule, runs = rule_in(RULES), runs_in(RULES)
runs_by_program = runs_in(RULES, require_whole_programs)


@runs(ops.cluster.cluster_size)
def cluster_size(op: Operation, batch: ProgramBatch) -> Array:
    return np.full(1, chunk_of(batch).clusters.size, np.int32)


@runs_by_program(ops.cluster.cluster_arrive)
def cluster_arrive(op: Operation, batch: ProgramBatch) -> None:
    chunk_of(batch).clusters.arrive(op, thread_map_of(batch).programs)


@runs_by_program(ops.cluster.cluster_wait)
def cluster_wait(op: Operation, batch: ProgramBatch) -> None:
    chunk_of(batch).clusters.wait(op, thread_map_of(batch).programs)


@runs_by_program(ops.cluster.cluster_exchange_init)
def cluster_exchange_init(op: Operation, batch: ProgramBatch, mem: RunValue) -> None:
    """Do nothing: the values are no part of shared memory."""


@runs_by_program(ops.cluster.cluster_exchange)
def cluster_exchange(
    op: Operation, batch: ProgramBatch, mem: RunValue, *values: RunValue
) -> tuple[Array, ...]:
    return gathered(op, batch, values, launch_of(batch).threads)


@runs(ops.cluster.mbarrier_arrive_pair)
def mbarrier_arrive_pair(
    op: Operation, batch: ProgramBatch, bars: RunValue, iteration: RunValue, paired: RunValue
) -> None:
    use, _ = stage_of(batch, op, bars, iteration)
    chunk, both = chunk_of(batch), by_program(batch, paired)
    chunk.mbarriers.arrive(use)
    chunk.mbarriers.arrive(use.take_rows(~both))
    chunk.mbarriers.arrive_at_peers(use.take_rows(both), chunk.clusters)


@rule(ops.cluster.tma_load_multicast)
def tma_load_multicast(op: Operation) -> Run:
    block = DescriptorBlock(op)

    def run(batch: ProgramBatch, *operands: RunValue) -> None:
        load = block_load(batch, op, block, *operands)
        if load is None:
            return
        use, whole, read = load
        chunk = chunk_of(batch)
        own = replace(whole, start=_half_of(whole.start, use.programs))
        values = _half_of(read, use.programs)
        chunk.mbarriers.start_load(use, own, values)
        peers = chunk.clusters.peers(use.programs)
        horizon = chunk.acquired_of_peers[use.programs][:, None]
        shift = (peers - use.programs)[:, None] * chunk.memory.size
        other = replace(own, start=own.start + shift, barrier=horizon)
        chunk.mbarriers.start_load_at_peers(use, other, values, chunk.clusters)

    return run


def _half_of(vectors: Array, programs: Array) -> Array:
    """Return the half of a block's vectors that each program loads."""
    middle = vectors.shape[1] // 2
    second = (programs & 1 == 1).reshape(-1, *(1,) * (vectors.ndim - 1))
    return np.where(second, vectors[:, middle:], vectors[:, :middle])
