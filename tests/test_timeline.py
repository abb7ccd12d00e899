"""Timelines follow the trace event format, and tracks hold one slice at a time."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tile
from docs.traced_program import main, transpose
from tile.diagnostics.trace import Trace
from tile.trace_data import MAX_SLICES, TRACKS, Timeline

# What Perfetto's importer asks of each event, by its phase: fields with their types.
EVENT = {"name": str, "ph": str, "pid": int, "tid": int, "ts": int, "args": dict}
PHASES = {"X": {**EVENT, "cat": str, "dur": int}, "M": EVENT}
METADATA = {
    "process_name": ("name", str),
    "thread_name": ("name", str),
    "process_sort_index": ("sort_index", int),
    "thread_sort_index": ("sort_index", int),
}


def check(timeline: dict[str, Any]) -> None:
    """Hold a timeline to the object form of the format."""
    assert set(timeline) == {"traceEvents", "displayTimeUnit", "otherData"}
    assert timeline["displayTimeUnit"] in ("ms", "ns")
    assert all(isinstance(value, str) for value in timeline["otherData"].values())
    named, used = set(), set()
    ends: dict[tuple[int, int], int] = defaultdict(int)
    for event in timeline["traceEvents"]:
        fields = PHASES[event["ph"]]
        assert {name: type(value) for name, value in event.items()} == fields
        track = event["pid"], event["tid"]
        assert min(track) >= 1  # 0 is the idle process
        if event["ph"] == "M":
            key, kind = METADATA[event["name"]]
            assert type(event["args"][key]) is kind
            if event["name"] == "thread_name":
                assert track not in named
                named.add(track)
        else:
            used.add(track)
            assert event["dur"] > 0
            assert event["ts"] >= ends[track], "slices of one track overlap"
            ends[track] = event["ts"] + event["dur"]
    assert named == used


@pytest.fixture(scope="module")
def trace() -> Trace:
    with tile.trace() as trace:
        main()
    return trace


def test_format(trace: Trace, tmp_path: Path) -> None:
    path = trace.perfetto(tmp_path / "trace.json")
    timeline = json.loads(path.read_text("utf-8"))
    check(timeline)
    names = [e["args"]["name"] for e in timeline["traceEvents"] if e["name"] == "process_name"]
    assert names == ["launch 1: triangle (3, 7, 1)", "launch 2: transpose (7, 5, 1)"]


def test_programs_do_what_their_lines_say(trace: Trace) -> None:
    events = [e for e in trace.timeline.as_dict()["traceEvents"] if e["ph"] == "X"]
    own = [e for e in events if (e["pid"], e["tid"]) == (1, 6)]
    accesses = [(e["cat"], e["args"]) for e in own if e["cat"] != "compute"]
    assert [kind for kind, _ in accesses] == ["load", "load"] * 4 + ["store"]
    first = accesses[0][1]
    assert first["line"].endswith("docs/traced_program.py:23")
    assert (first["elements"], first["bytes"], first["sectors"]) == (32 * 16, 2048, 64)
    assert any("tl.dot" in e["name"] for e in own)
    assert "program 5 (2, 1, 0)" in tracks(trace, launch=1)
    # Program 18 is of the last row of tiles, which has 8 rows inside.
    edge = next(e for e in events if (e["pid"], e["tid"], e["cat"]) == (1, 19, "load"))
    assert edge["args"]["elements"] == 8 * 16


def tracks(trace: Trace, launch: int) -> set[str]:
    """Return the names of a launch's tracks."""
    events = [e for e in trace.timeline.as_dict()["traceEvents"] if e["name"] == "thread_name"]
    return {e["args"]["name"] for e in events if e["pid"] == launch}


def test_only_the_first_programs_have_tracks() -> None:
    x = np.zeros((60, 60), np.int8)
    with tile.trace() as trace:
        transpose[(30, 30)](x, x.copy(), 60, 60, M=2, N=2)
    timeline = trace.timeline.as_dict()
    check(timeline)
    assert {e["tid"] for e in timeline["traceEvents"]} == set(range(1, TRACKS + 1))


def test_slices_are_bounded() -> None:
    timeline = Timeline()
    launch = timeline.begin("k", (64, 1, 1))
    programs = tuple(range(64))
    for _ in range(MAX_SLICES):
        timeline.step(launch, programs, None, "load", [{"bytes": 1}] * 64)
    dumped = timeline.as_dict()
    check(dumped)
    slices = [e for e in dumped["traceEvents"] if e["ph"] == "X"]
    assert MAX_SLICES - 64 <= len(slices) <= MAX_SLICES
    assert int(dumped["otherData"]["slices left out"]) + len(slices) == 64 * MAX_SLICES
