"""Templates made into pages, and pages into files."""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from tile.errors import ArgumentValueError
from tile.pages.drawing import LEFT, TOP

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


def rendered(template: str, **values: Any) -> str:
    """A template of `templates/` with its values."""
    return _environment().get_template(template).render(**values)


def prose(text: str) -> Markup:
    """A message: what stands between backticks as code, and lines may break in paths.

    Paths are those from the current folder, where they are in it.
    """
    parts = text.replace(f"{Path.cwd()}{os.sep}", "").split("`")
    return Markup("").join(
        Markup("<code>{}</code>").format(_breaking(part)) if number % 2 else _breaking(part)
        for number, part in enumerate(parts)
    )


def _breaking(text: str) -> Markup:
    return Markup("/<wbr>").join(escape(part) for part in text.split("/"))


def written(path: str | os.PathLike[str], text: str, what: str) -> Path:
    """Write a text to a file, whose path this gives.

    Raises `ArgumentValueError` where that cannot be done; `what` is said to be what was not
    written.
    """
    target = Path(path)
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ArgumentValueError(
            f"{what} cannot be written to {str(target)!r}: {error.strerror or error}",
            notes=["it is kept, and can be written to another path"],
        ) from None
    return target
