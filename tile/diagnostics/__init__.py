"""Checks, traces and differential runs as users call them, and their HTML pages."""

from __future__ import annotations

import os
from pathlib import Path

from tile.errors import ArgumentValueError


def write_report(path: str | os.PathLike[str], text: str, description: str) -> Path:
    """Write a text to a file, and return its path.

    Raises `ArgumentValueError` if that fails; `description` names the text in the message.
    """
    target = Path(path)
    try:
        target.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ArgumentValueError(
            f"{description} cannot be written to {str(target)!r}: {error.strerror or error}",
            notes=["it is kept, and can be written to another path"],
        ) from None
    return target
