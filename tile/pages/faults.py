"""The page of a report of faults, from its JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tile.coverage import Coverage
from tile.errors import line_of
from tile.pages import array_drawing, fault_drawings
from tile.pages.drawing import TIMES, Drawing
from tile.pages.listing import Listing, Mark, listings
from tile.pages.page import rendered

Json = Mapping[str, Any]

# Faults of one line that are listed; all are counted, and drawn.
LISTED = 40
# Places that have a section; further ones are counted.
SECTIONS = 60

ABOUT = {
    "bounds": "accesses outside the array or view that was passed",
    "race": "accesses of two programs, one a write, that nothing orders",
    "undef": "values that nobody defined, where they matter",
    "overflow": "signed arithmetic that wrapped on its way to an address, mask or loop",
    "assume": "promises to the compiler that are false",
    "deadlock": "programs that wait for what nobody is left to do",
}


@dataclass
class Entry:
    """One fault in the list of its line; `keys` name the cells that show it."""

    number: int
    program: str
    element: str
    place: str
    count: int
    keys: str


@dataclass
class Side:
    """One of the two accesses of a race."""

    who: str
    what: str
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
    entries: list[Entry]
    unlisted: int
    way: str  # in which alone `tile check` found it


@dataclass(frozen=True)
class Rehearsed:
    """Findings of `tile check` beside faults: launches, results that changed, the verdict."""

    launched: Sequence[Json]
    dependences: Sequence[str]
    verdict: str
    status: int
    note: str


def check_page(found: Json) -> str:
    """The page of the findings of `tile check`, with all that the terminal is told."""
    report = found["report"]
    groups = [*report["groups"], *found["elsewhere"]]
    every = {**report, "groups": groups, "faults": sum(group["executions"] for group in groups)}
    told = [dependence["text"] for dependence in found["dependences"]]
    rehearsed = Rehearsed(found["launched"], told, found["verdict"], found["status"], found["note"])
    return faults_page(every, rehearsed)


def faults_page(report: Json, rehearsed: Rehearsed | None = None) -> str:
    """The page; sources are read from the files that locations name."""
    coverage = Coverage.of(report.get("coverage", ()))
    groups = report["groups"][:SECTIONS]
    sections = [_section(f"fault-{number}", group) for number, group in enumerate(groups, 1)]
    totals = Counter[str]()
    for group in report["groups"]:
        totals[group["check"]] += group["executions"]
    return rendered(
        "faults.html",
        title=_title(report, coverage),
        coverage=[*coverage.lines()],
        rehearsed=rehearsed,
        kernels=sorted({section.kernel for section in sections}),
        totals=[(check, ABOUT[check], count) for check, count in totals.most_common()],
        listings=listings(_marks(groups, sections)),
        sections=sections,
        left_out=len(report["groups"]) - len(groups),
    )


def _title(report: Json, coverage: Coverage) -> str:
    faults, places = report["faults"], len(report["groups"])
    if not faults:
        return coverage.verdict().capitalize()
    return f"{_some(faults, 'fault')} at {_some(places, 'place')}"


def _some(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"


def _marks(groups: Sequence[Json], sections: Sequence[Section]) -> Iterator[Mark]:
    for group, section in zip(groups, sections, strict=True):
        if group["loc"] is not None:
            text = f"{section.check} {TIMES}{section.executions:,}"
            yield _mark(group["loc"], section.check, text, section.key)
        first = group["faults"][0]
        if first["cause"] not in (None, group["loc"]):
            yield _mark(first["cause"], "cause", f"cause of {section.check}", section.key)
        if first["other"] is not None and first["other"]["loc"] not in (None, group["loc"]):
            text = f"other side of {section.check}"
            yield _mark(first["other"]["loc"], "other", text, section.key)


def _mark(loc: Json, kind: str, text: str, target: str) -> Mark:
    columns = loc["column"], max(loc["end_column"], loc["column"] + 1)
    return Mark(loc["file"], loc["line"], columns, kind, text, target)


def _section(key: str, group: Json) -> Section:
    first = group["faults"][0]
    loc = group["loc"]
    faults = group["faults"][:LISTED]
    entries = [_entry(key, number, group, fault) for number, fault in enumerate(faults, 1)]
    keys = {name for entry in entries for name in entry.keys.split()}
    drawings = fault_drawings.drawings(key, group, keys)
    return Section(
        key,
        group["check"],
        first["kernel"],
        first["message"],
        _place(loc),
        [] if loc is None else [_place(call) for call in _callers(loc)],
        group["executions"],
        group["elements"] if first["place"] or first["element"] else 0,
        first["notes"],
        drawings,
        list(_sides(first)),
        entries,
        group["executions"] - len(faults),
        group.get("way", ""),
    )


def _place(loc: Json | None) -> str:
    if loc is None:
        return "an unknown place"
    inside = f", in {loc['function']}" if loc["function"] else ""
    return line_of(loc["file"], loc["line"]) + inside


def _callers(loc: Json) -> Iterator[Json]:
    while loc["caller"] is not None:
        loc = loc["caller"]
        yield loc


def _entry(key: str, number: int, group: Json, fault: Json) -> Entry:
    place = fault["place"]
    return Entry(
        number,
        _programs(fault),
        f"[{', '.join(map(str, fault['element']))}]" if fault["element"] else "",
        "" if place is None else _spelt(place, group["arrays"]),
        fault["count"],
        " ".join(fault_drawings.keys_of(key, group, fault)),
    )


def _spelt(place: Json, arrays: Sequence[Json] = ()) -> str:
    """Where an address fell; in rows, if it is outside of one of these arrays that has rows."""
    if place["index"] is None:
        views = (found["view"] for found in arrays)
        own = [view for view in views if view["argument"] == place["argument"]]
        number = place["element"]
        where = array_drawing.element(own[0], number) if own else f"element {number:,}"
        return f"{place['argument']} at {where}"
    return f"{place['argument']}[{', '.join(map(str, place['index']))}]"


def _indices(program: Sequence[int]) -> str:
    return f"({', '.join(map(str, program))})"


def _programs(fault: Json) -> str:
    """The program of a fault, or both of a race."""
    own, other = _indices(fault["program"]), fault["other"]
    return own if other is None else f"{own} and {_indices(other['program'])}"


def _sides(fault: Json) -> Iterator[Side]:
    """Both accesses of a race, the one that was found first in front."""
    other, place = fault["other"], fault["place"]
    if other is None:
        return
    spelt = "" if place is None else f"`{_spelt(place)}`"
    own = fault["message"].split("` ", 1)[-1].split(" ", 1)[0]
    for program, verb, loc in (
        (other["program"], other["verb"], other["loc"]),
        (fault["program"], own, fault["loc"]),
    ):
        yield Side(f"program {_indices(program)}", f"{verb} {spelt}", _place(loc), _line(loc))


def _line(loc: Json | None) -> Listing | None:
    """The one line that an access stands at."""
    if loc is None:
        return None
    for listing in listings([_mark(loc, "race", "", "")]):
        (line,) = (line for line in listing.lines if line.marks)
        first, *rest = line.pieces
        return Listing(listing.file, [replace(line, pieces=[first.stripped(), *rest])])
    return None
