"""HTML pages of faults and traces: each is one file that needs no network and no server.

A page is made from the JSON of a report alone, so a saved report can be drawn later.

This file renders templates.

- `svg.py`: heatmaps (counts of the cells of `tile/heatmap.py`) as pictures.
- `source_listing.py`: source listings with annotated lines.
- `fault_page.py`: the page of a report of faults.
- `trace_page.py`: the page of a trace.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from tile.diagnostics.pages.svg import LEFT, TOP

TEMPLATES = Path(__file__).parent / "templates"


@functools.cache
def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.globals.update(left=LEFT, top=TOP)
    environment.filters["prose"] = prose
    return environment


def render(template: str, **values: Any) -> str:
    """Return a rendered template of `templates/`."""
    return _environment().get_template(template).render(**values)


def prose(text: str) -> Markup:
    """Return the HTML of a message: text in backticks as code, and line breaks allowed in paths.

    Paths inside the current folder are made relative to it.
    """
    parts = text.replace(f"{Path.cwd()}{os.sep}", "").split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(_breaking(part)) if number % 2 else _breaking(part)
        for number, part in enumerate(parts)
    )


def _breaking(text: str) -> Markup:
    return Markup("/<wbr>").join(escape(part) for part in text.split("/"))
