"""Tuning constants have the values of these tables, and say where the values come from.

Who changes a constant measures again, and changes the table and the constant's source with it.
"""

from __future__ import annotations

import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from tile.backends.interp.tuning import TUNING as INTERPRETER
from tile.config import Config
from tile.measured import NOT_MEASURED, sources
from tile.simt.target import TARGETS
from tile.simt.tuning import TUNING

ROOT = Path(__file__).parents[2]
REGISTERS = "docs/results/registers.md"
PRESSURE = "docs/notes/register-pressure.md"
OCCUPANCY = "tile/simt/schedule/resources.py"

# Values, and the beginnings of their sources; None: not measured.
SIMT: dict[str, tuple[float, str | None]] = {
    "conversion_sync_cost": (32, None),
    "sector_cost": (0.5, "docs/results/traffic.md"),
    "long_op_cost": (8, None),
    "divisions_by_reciprocal": (12, None),
    "quotients_by_reciprocal": (48, None),
    "unrolled_iterations": (4, "docs/notes/rows.md#loops-of-a-few-iterations"),
    "unrolled_fmas": (2048, PRESSURE),
    "loop_weight": (4, None),
    "replicated_registers": (8, None),
    "recomputed_ops": (24, None),
    "rematerialized_ops": (32, None),
    "crossed_ops": (16, None),
    "conversion_sweeps": (3, None),
    "barrier_cost": (16, None),
    "selections_per_shuffle": (4, None),
    "conversion_share": (2, None),
    "resident_programs": (16, None),
    "barrier_trip_count": (8, None),
    "transposed_dots": (True, "docs/notes/hopper.md#transposing-b-in-shared-memory"),
    "gathered_instructions": (16, "docs/notes/rows.md#loops-of-a-few-iterations"),
    "repeated_instructions": (256, "docs/notes/rows.md#sums-by-columns"),
    "staged_elements": (128, "docs/notes/ops.md#compared-with-a-copy"),
    "max_oversubscription": (8, None),
    "other_registers": (64, f"{REGISTERS}#spills"),
    "least_other_registers": (24, f"{REGISTERS}#spills"),
    "live_k_bytes": (32, f"{PRESSURE}#the-emitter"),
    "hoisted_load_bytes": (32, f"{REGISTERS}#layer-norm"),
    "loads_above_dots": (True, "docs/notes/opencl.md#loads-above-dots"),
    "dot_chain_slices": (2, f"{PRESSURE}#passes"),
    "reserved_iterations": (1, f"{PRESSURE}#passes"),
    "slice_register_share": (0.75, f"{REGISTERS}#fma-dots"),
    "slice_shared_share": (4, None),
    "prefetch_register_share": (3, None),
    "address_registers": (32, OCCUPANCY),
    "consumer_address_registers": (24, "docs/notes/ops.md#attention"),
    "overlap_registers": (8, OCCUPANCY),
    "enough_programs": (6, "docs/notes/attention.md"),
    "enough_loaded_bytes": (73728, "docs/notes/rows.md#programs-that-read-rows-again"),
    "least_block_bytes": (64, "docs/notes/descriptor-loads.md#some-operands"),
    "ordered_warpgroups": (False, "docs/notes/scheduling.md"),
}

INTERP: dict[str, tuple[float, str | None]] = {
    "chunk_programs": (65536, "docs/results/interpreter.md#time-and-memory-as-the-grid-grows"),
    "chunk_shared_bytes": (64 << 20, None),
    "reordered_batches": (32, None),
    "heap_reserve": (33488896, "2026-11-21"),
    "mapped_bytes": (64 << 20, None),
    "check_interval": (64, None),
    "idle_yields": (16, None),
    "observed_accesses": (256, None),
    "extra_readers": (1 << 20, None),
    "cached_views": (64, None),
    "sampled_elements": (256, None),
}

ARRAYS = "docs/notes/opencl.md#fragments-as-arrays"
OPENCL: dict[str, tuple[float, str | None]] = {
    "unrolled": (65536, ARRAYS),
    "variables": (1 << 20, ARRAYS),
    "least_unrolled": (4, ARRAYS),
    "short_loop": (16, "docs/notes/opencl.md#intels-runtime"),
    "block_sums": (8, None),
    "recomputed_ops": (8, None),
}
OPENCL_DEVICES = {
    "GPU": {},
    "SIMD_CPU": {"unrolled": 4},
    "POCL": {"unrolled": 64, "variables": 3500},
}


def check(constants: Any, table: dict[str, tuple[float, str | None]]) -> None:
    """The constants are those of the table; their sources begin as it says, and exist."""
    assert asdict(constants) == {name: value for name, (value, _) in table.items()}
    named = sources(constants)
    for name, (_, source) in table.items():
        assert named[name].startswith(source or NOT_MEASURED), name
        if source is not None:
            check_source(source)


def check_source(source: str) -> None:
    """A page that a source names exists, and has the section."""
    page, _, section = source.partition("#")
    if "/" not in page:
        return
    text = (ROOT / page).read_text()
    headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    slugs = {re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings}
    assert not section or section in slugs, f"{page} has no section {section}"


def test_simt() -> None:
    check(TUNING, SIMT)


@pytest.mark.parametrize("target", TARGETS.values(), ids=str)
def test_simulated_targets_have_the_same(target) -> None:
    assert target.tuning == TUNING


@pytest.mark.parametrize("name", ["sm_75", "sm_80", "sm_90a", "sm_100"])
def test_architectures_have_the_same(name: str) -> None:
    architecture = pytest.importorskip("tile.backends.nvptx.target").architecture
    assert architecture(name).simt.tuning == TUNING


def test_interpreter() -> None:
    check(INTERPRETER, INTERP)
    assert Config.variables()["chunk_bytes"].default == 2 << 20
    check_source("docs/results/interpreter.md#time-and-memory-as-the-grid-grows")


@pytest.mark.parametrize("device", OPENCL_DEVICES)
def test_opencl(device: str) -> None:
    pytest.importorskip("pyopencl", reason="pyopencl is not installed")
    from tile.backends.opencl import tuning

    changed = {name: (value, OPENCL[name][1]) for name, value in OPENCL_DEVICES[device].items()}
    check(getattr(tuning, device), {**OPENCL, **changed})


def test_loads_stay_below_dots_on_opencl_cpus() -> None:
    target = pytest.importorskip("tile.backends.opencl.target", reason="pyopencl is not installed")
    cpu = target.Capabilities("cpu", **target.SIMD_CPU).simt
    assert cpu.tuning == replace(TUNING, loads_above_dots=False)
    assert target.NAMED["nvidia"].simt.tuning == TUNING
