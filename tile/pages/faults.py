"""The page of a report of faults, made from its JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tile.coverage import Coverage
from tile.errors import line_of
from tile.pages.array_drawing import element_name
from tile.pages.drawing import TIMES, Drawing
from tile.pages.fault_drawings import fault_cells, group_drawings
from tile.pages.listing import Annotation, Listing, listings
from tile.pages.page import render

Json = Mapping[str, Any]

# The number of faults of one line that are listed; all are counted and drawn.
MAX_ROWS = 40
# The number of source lines that have a section; further ones are counted.
MAX_SECTIONS = 60

ABOUT = {
    "bounds": "accesses outside the array or view that was passed",
    "race": "unordered accesses of two programs, at least one of them a write",
    "undef": "undefined values that reach memory, a branch, an address or an atomic operation",
    "overflow": "signed arithmetic that wrapped in computing an address, mask or loop bound",
    "assume": "assumptions stated to the compiler that are false",
    "deadlock": "programs that wait for an event that cannot happen",
}


@dataclass
class FaultRow:
    """One fault in the table of its line; `keys` are the element ids of the cells that show it."""

    number: int
    program: str
    element: str
    address: str
    count: int
    keys: str


@dataclass
class Side:
    """One of the two accesses of a race."""

    program: str
    access: str
    where: str
    listing: Listing | None


@dataclass
class Section:
    """The faults of one line and check."""

    key: str
    check: str
    kernel: str
    title: str
    where: str
    calls: list[str]
    executions: int
    elements: int  # 0: the fault is of whole programs
    notes: list[str]
    drawings: list[Drawing]
    sides: list[Side]
    entries: list[FaultRow]
    unlisted: int
    way: str  # the only way of launching in which `tile check` found it, or ""


@dataclass(frozen=True)
class CheckSummary:
    """The findings of `tile check` besides faults: launches, changed results, the verdict."""

    launched: Sequence[Json]
    dependences: Sequence[str]
    verdict: str
    status: int
    note: str


def check_page(findings: Json) -> str:
    """Return the page of the findings of `tile check`, with all that the terminal shows."""
    report = findings["report"]
    groups = [*report["groups"], *findings["elsewhere"]]
    combined = {**report, "groups": groups, "faults": sum(group["executions"] for group in groups)}
    texts = [dependence["text"] for dependence in findings["dependences"]]
    summary = CheckSummary(
        findings["launched"], texts, findings["verdict"], findings["status"], findings["note"]
    )
    return faults_page(combined, summary)


def faults_page(report: Json, summary: CheckSummary | None = None) -> str:
    """Return the page of a report; sources are read from the files that locations name."""
    coverage = Coverage.of(report.get("coverage", ()))
    groups = report["groups"][:MAX_SECTIONS]
    sections = [_section(f"fault-{number}", group) for number, group in enumerate(groups, 1)]
    totals = Counter[str]()
    for group in report["groups"]:
        totals[group["check"]] += group["executions"]
    return render(
        "faults.html",
        title=_title(report, coverage),
        coverage=[*coverage.lines()],
        summary=summary,
        kernels=sorted({section.kernel for section in sections}),
        totals=[(check, ABOUT[check], count) for check, count in totals.most_common()],
        listings=listings(_annotations(groups, sections)),
        sections=sections,
        left_out=len(report["groups"]) - len(groups),
    )


def _title(report: Json, coverage: Coverage) -> str:
    faults, lines = report["faults"], len(report["groups"])
    if not faults:
        return coverage.verdict().capitalize()
    return f"{_count(faults, 'fault')} at {_count(lines, 'place')}"


def _count(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"


def _annotations(groups: Sequence[Json], sections: Sequence[Section]) -> Iterator[Annotation]:
    for group, section in zip(groups, sections, strict=True):
        if group["loc"] is not None:
            text = f"{section.check} {TIMES}{section.executions:,}"
            yield _annotation(group["loc"], section.check, text, section.key)
        first = group["faults"][0]
        if first["cause"] not in (None, group["loc"]):
            yield _annotation(first["cause"], "cause", f"cause of {section.check}", section.key)
        if first["other"] is not None and first["other"]["loc"] not in (None, group["loc"]):
            text = f"other side of {section.check}"
            yield _annotation(first["other"]["loc"], "other", text, section.key)


def _annotation(loc: Json, kind: str, text: str, target: str) -> Annotation:
    columns = loc["column"], max(loc["end_column"], loc["column"] + 1)
    return Annotation(loc["file"], loc["line"], columns, kind, text, target)


def _section(key: str, group: Json) -> Section:
    first = group["faults"][0]
    loc = group["loc"]
    faults = group["faults"][:MAX_ROWS]
    entries = [_entry(key, number, group, fault) for number, fault in enumerate(faults, 1)]
    keys = {name for entry in entries for name in entry.keys.split()}
    drawings = group_drawings(key, group, keys)
    return Section(
        key,
        group["check"],
        first["kernel"],
        first["message"],
        _location(loc),
        [] if loc is None else [_location(call) for call in _callers(loc)],
        group["executions"],
        group["elements"] if first["place"] or first["element"] else 0,
        first["notes"],
        drawings,
        list(_sides(first)),
        entries,
        group["executions"] - len(faults),
        group.get("way", ""),
    )


def _location(loc: Json | None) -> str:
    if loc is None:
        return "an unknown location"
    inside = f", in {loc['function']}" if loc["function"] else ""
    return line_of(loc["file"], loc["line"]) + inside


def _callers(loc: Json) -> Iterator[Json]:
    while loc["caller"] is not None:
        loc = loc["caller"]
        yield loc


def _entry(key: str, number: int, group: Json, fault: Json) -> FaultRow:
    address = fault["place"]
    return FaultRow(
        number,
        _programs(fault),
        f"[{', '.join(map(str, fault['element']))}]" if fault["element"] else "",
        "" if address is None else _address(address, group["arrays"]),
        fault["count"],
        " ".join(fault_cells(key, group, fault)),
    )


def _address(address: Json, arrays: Sequence[Json] = ()) -> str:
    """Return the element of an address; with row and column if outside of an array with rows."""
    if address["index"] is None:
        views = (heatmap["view"] for heatmap in arrays)
        own = [view for view in views if view["argument"] == address["argument"]]
        number = address["element"]
        where = element_name(own[0], number) if own else f"element {number:,}"
        return f"{address['argument']} at {where}"
    return f"{address['argument']}[{', '.join(map(str, address['index']))}]"


def _indices(program: Sequence[int]) -> str:
    return f"({', '.join(map(str, program))})"


def _programs(fault: Json) -> str:
    """Return the program of a fault, or both programs of a race."""
    own, other = _indices(fault["program"]), fault["other"]
    return own if other is None else f"{own} and {_indices(other['program'])}"


def _sides(fault: Json) -> Iterator[Side]:
    """Yield both accesses of a race, the earlier one first."""
    other, address = fault["other"], fault["place"]
    if other is None:
        return
    text = "" if address is None else f"`{_address(address)}`"
    own = fault["message"].split("` ", 1)[-1].split(" ", 1)[0]
    for program, verb, loc in (
        (other["program"], other["verb"], other["loc"]),
        (fault["program"], own, fault["loc"]),
    ):
        yield Side(f"program {_indices(program)}", f"{verb} {text}", _location(loc), _line(loc))


def _line(loc: Json | None) -> Listing | None:
    """Return the listing of an access's line."""
    if loc is None:
        return None
    for listing in listings([_annotation(loc, "race", "", "")]):
        (line,) = (line for line in listing.lines if line.annotations)
        first, *rest = line.spans
        return Listing(listing.file, [replace(line, spans=[first.stripped(), *rest])])
    return None
