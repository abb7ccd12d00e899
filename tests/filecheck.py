"""Textual tests: `*.tile` files that say how to run `tile opt` on them and what comes out.

    // RUN: tile opt %s -p canonicalize
    // CHECK-LABEL: func @f
    // CHECK: [[sum:%\\w+]] = add %x, {{%[xy]}} : i32
    // CHECK-NEXT: return [[sum]]

`CHECK` matches at or behind the last match, `-NEXT` on the line after it, `-SAME` on the rest of its
line, `-NOT` nowhere between the matches around it. A `-LABEL` is looked for first, and the checks behind
it do not look beyond the next one. Runs of blanks are one blank. `{{...}}` is a regular expression,
`[[x:...]]` one whose match is kept, `[[x]]` what was kept.

n successive `-NEXT-DAG` match the next n lines, in any order. Use them for operations without effects: they check
the operands, and that there are no other operations.

A file with `// ERROR: text` lines is one that is refused: each part between `// -----` lines must fail
with an error at that line whose message has that text, and a part without one must not fail.
"""

from __future__ import annotations

import io
import itertools
import re
import shlex
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tile.errors import TileError
from tile.ir.parser import parse_module
from tile.tools import cli, opt
from tile.tools.command import chunks

RUN = re.compile(r"//\s*RUN:\s*tile\s+(.*)")
CHECK = re.compile(r"//\s*CHECK(?:-(LABEL|NEXT-DAG|NEXT|SAME|NOT))?:\s*(.*)")
MISSPELT = re.compile(r"//\s*(CHECK|ERROR|RUN)\b(?!:)[^:\s]*")
ERROR = re.compile(r"//\s*ERROR:\s*(.*?)\s*$")
MOST_TRIES = 10_000  # of lines for the directives of a block in any order
PART = re.compile(r"\{\{(?P<regex>.+?)\}\}|\[\[(?P<name>\w+)(?::(?P<captured>.+?))?\]\](?!\])")


class CheckError(Exception):
    """A textual test did not find what it says."""


@dataclass(frozen=True)
class Directive:
    kind: str
    pattern: str
    line: int

    def compile(self, captured: dict[str, str]) -> re.Pattern[str]:
        """The pattern as a regular expression, with what was kept filled in."""
        position, parts = 0, []
        for match in PART.finditer(self.pattern):
            parts.append(re.escape(self.pattern[position : match.start()]))
            parts.append(self.part(match, captured))
            position = match.end()
        parts.append(re.escape(self.pattern[position:]))
        return re.compile("".join(parts))

    def part(self, match: re.Match[str], captured: dict[str, str]) -> str:
        if match["regex"]:
            return f"(?:{match['regex']})"
        if match["captured"]:
            return f"(?P<{match['name']}>{match['captured']})"
        if match["name"] not in captured:
            raise CheckError(f"line {self.line}: [[{match['name']}]] is used before it is kept")
        return re.escape(captured[match["name"]])

    def __str__(self) -> str:
        kind = f"-{self.kind}" if self.kind else ""
        return f"line {self.line}: CHECK{kind}: {self.pattern}"


def directives(source: str) -> list[Directive]:
    result = []
    for number, line in enumerate(source.splitlines(), 1):
        wrong = MISSPELT.search(line)
        match = CHECK.search(line)
        if match is not None:
            result.append(Directive(match[1] or "", _blanks(match[2]), number))
        elif wrong is not None:
            raise CheckError(f"line {number}: {wrong[0]} is no directive")
    return result


def _blanks(text: str) -> str:
    return "\n".join(" ".join(line.split()) for line in text.split("\n"))


def check(source: str, output: str) -> None:
    """Hold an output to the directives in a source. Raises `CheckError`."""
    output = _blanks(output)
    captured: dict[str, str] = {}
    sections = list(_sections(directives(source)))
    starts, position = [], 0
    for first, *_ in sections:
        if first.kind == "LABEL":
            position = _find(first, output, position, len(output), captured).start()
        starts.append(position)
        position += first.kind == "LABEL"
    for section, start, end in zip(sections, starts, [*starts[1:], len(output)], strict=True):
        _check_section(section, output[start:end], captured)


def _sections(checks: list[Directive]) -> Iterator[list[Directive]]:
    """The checks cut in front of each label."""
    starts = [i for i, item in enumerate(checks) if item.kind == "LABEL" or i == 0]
    for start, end in zip(starts, [*starts[1:], len(checks)], strict=True):
        yield checks[start:end]


def _find(
    item: Directive, text: str, start: int, end: int, captured: dict[str, str]
) -> re.Match[str]:
    match = item.compile(captured).search(text, start, end)
    if match is None:
        near = text[start:end].strip("\n").split("\n")[:16]
        raise CheckError("\n    ".join([f"{item}\n  not found from here on:", *near]))
    captured.update({name: value for name, value in match.groupdict().items() if value is not None})
    return match


def _check_section(checks: list[Directive], text: str, captured: dict[str, str]) -> None:
    position = 0
    absent: list[Directive] = []
    for kind, group in itertools.groupby(checks, lambda item: item.kind):
        items = list(group)
        if kind == "NOT":
            absent = items
        elif kind == "NEXT-DAG":
            start = min(_line_end(text, position) + 1, len(text))
            end = _in_any_order(items, text, start, captured)
            _refuse(absent, text, position, start, captured)
            absent, position = [], end
        else:
            for item in items:
                match = _find(item, text, *_window(item, text, position), captured)
                _refuse(absent, text, position, match.start(), captured)
                absent, position = [], match.end()
    _refuse(absent, text, position, len(text), captured)


def _in_any_order(items: list[Directive], text: str, start: int, captured: dict[str, str]) -> int:
    """Match the next lines one to one with as many directives; return the end of the last line.

    If a line matches several directives, try each until the captured names fit the others.
    """
    lines = text[start:].split("\n")[: len(items)]
    tries, farthest = 0, 0

    def fits(number: int, free: list[int], names: dict[str, str]) -> dict[str, str] | None:
        nonlocal tries, farthest
        if number == len(items):
            return names
        farthest = max(farthest, number)
        pattern = items[number].compile(names)
        for line in free:
            tries += 1
            match = pattern.search(lines[line])
            if match is not None and tries <= MOST_TRIES:
                more = {
                    name: value for name, value in match.groupdict().items() if value is not None
                }
                rest = fits(number + 1, [other for other in free if other != line], names | more)
                if rest is not None:
                    return rest
        return None

    names = fits(0, list(range(len(lines))), captured)
    if names is None:
        raise CheckError("\n    ".join([f"{items[farthest]}\n  not among these lines:", *lines]))
    captured.update(names)
    return start + len("\n".join(lines))


def _window(item: Directive, text: str, position: int) -> tuple[int, int]:
    """Return where a check may match that follows a match ending at `position`."""
    line_end = _line_end(text, position)
    if item.kind == "SAME":
        return position, line_end
    if item.kind == "NEXT":
        return min(line_end + 1, len(text)), _line_end(text, line_end + 1)
    return position, len(text)


def _line_end(text: str, position: int) -> int:
    end = text.find("\n", position)
    return len(text) if end < 0 else end


def _refuse(
    absent: list[Directive], text: str, start: int, end: int, captured: dict[str, str]
) -> None:
    for item in absent:
        match = item.compile(captured).search(text, start, end)
        if match is not None:
            line = text[text.rfind("\n", 0, match.start()) + 1 : _line_end(text, match.start())]
            raise CheckError(f"{item}\n  found in: {line}")


def run(command: str, path: Path) -> tuple[int, str, str]:
    """Exit status, output and errors of `tile` with these arguments, run in this process."""
    arguments = [part.replace("%s", str(path)) for part in shlex.split(command)]
    output, errors = io.StringIO(), io.StringIO()
    with redirect_stdout(output), redirect_stderr(errors):
        status = cli.main(arguments)
    return status, output.getvalue(), errors.getvalue()


def check_file(path: Path) -> None:
    """Run a textual test."""
    source = path.read_text(encoding="utf-8")
    commands = [match[1] for match in map(RUN.search, source.splitlines()) if match]
    if not commands:
        raise CheckError(f"{path.name} has no RUN line")
    for command in commands:
        if any(ERROR.search(line) for line in source.splitlines()):
            check_errors(source, path, command)
            continue
        if not directives(source):
            raise CheckError(f"{path.name} has no CHECK line")
        status, output, errors = run(command, path)
        if status != 0:
            raise CheckError(f"tile {command} failed:\n{errors}")
        check(source, output)


def check_errors(source: str, path: Path, command: str) -> None:
    """Each part of a source fails at the line of its `ERROR`, with that text."""
    options = cli.parser().parse_args(shlex.split(command.replace("%s", str(path))))
    for chunk in chunks(source):
        marks = [
            (number, match[1])
            for number, match in enumerate(map(ERROR.search, chunk.splitlines()), 1)
            if match
        ]
        try:
            with redirect_stdout(io.StringIO()):
                module = parse_module(chunk, str(path))
                opt.transform(module, opt.parse_passes(options.passes), options)
        except TileError as error:
            line = 0 if error.loc is None else error.loc.line
            if (line, True) not in [(number, text in error.message) for number, text in marks]:
                raise CheckError(f"line {line} has another error: {error}") from error
        else:
            if marks:
                raise CheckError(f"line {marks[0][0]}: no error, where one says: {marks[0][1]}")


class TileFile(pytest.File):
    """A `*.tile` file as pytest collects it: one test."""

    def collect(self) -> Iterator[pytest.Item]:
        yield TextTest.from_parent(self, name="text")


class TextTest(pytest.Item):
    def runtest(self) -> None:
        check_file(self.path)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> str:
        if isinstance(excinfo.value, CheckError):
            return f"{self.path}: {excinfo.value}"
        return str(super().repr_failure(excinfo, style))

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, 0, str(self.path.name)
