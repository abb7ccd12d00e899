"""Source locations: positions in the user's Python files, with the chains of calls to them."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace

from tile.short_repr import clip_line


@dataclass(frozen=True, slots=True)
class Loc:
    """A span of source text: 1-based `line`, 0-based `column`, and the call it was inlined at."""

    file: str
    line: int
    column: int = 0
    end_column: int = 0
    function: str = ""
    caller: Loc | None = None

    def __str__(self) -> str:
        column = "" if cell_of(self.file) else f":{self.column + 1}"
        return line_of(self.file, self.line) + column

    def called_from(self, caller: Loc | None) -> Loc:
        """Return this location with one more call at the outer end of its chain."""
        if caller is None:
            return self
        if self.caller is None:
            return replace(self, caller=caller)
        return replace(self, caller=self.caller.called_from(caller))

    def chain(self) -> Iterator[Loc]:
        """Yield this location, then each call that led to it, innermost first."""
        loc: Loc | None = self
        while loc is not None:
            yield loc
            loc = loc.caller

    def excerpt(self) -> str:
        """Return the source line with carets under the span, or "" if it cannot be read."""
        text = linecache.getline(self.file, self.line).rstrip("\n")
        if not text:
            return ""
        number = f"{self.line} | "
        text, column, end = clip_line(text, self.column, min(self.end_column, len(text)))
        width = max(1, end - column)
        indent = "".join("\t" if c == "\t" else " " for c in text[:column])
        return f"{number}{text}\n{' ' * (len(number) - 2)}| {indent}{'^' * width}"


CALLS = 12  # the most calls of a chain that are shown at either end


def cell_of(file: str) -> str:
    """Return the name of an IPython cell, such as `Cell In[3]`, or "" for any other file.

    IPython compiles each cell under a file name of its own, and maps it back to the cell.
    """
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    name = getattr(getattr(shell, "compile", None), "format_code_name", lambda _: None)(file)
    return "" if name is None else " ".join(name)


def line_of(file: str, line: int) -> str:
    """Return `file:line`, or IPython's name for the line of a cell."""
    cell = cell_of(file)
    return f"{cell}, line {line}" if cell else f"{file}:{line}"


def describe(loc: Loc) -> str:
    """Return the text of a location: position, source excerpt, then the chain of calls."""
    lines: list[str] = []
    chain = list(loc.chain())
    for depth, call in enumerate(chain):
        if CALLS <= depth < len(chain) - CALLS:
            if depth == CALLS:
                lines.append(f"  ... called through {len(chain) - 2 * CALLS} more")
            continue
        inside = f", in {call.function}" if call.function else ""
        lines.append(f"{'  at' if depth == 0 else '  called from'} {call}{inside}")
        excerpt = call.excerpt()
        if excerpt:
            lines.extend("    " + line for line in excerpt.splitlines())
    return "\n".join(lines)
