"""Warnings attributed to the user's line."""

from __future__ import annotations

import sys
import warnings

from tile.errors import Loc
from tile.tracebacks import users_frame


def warn(message: str, loc: Loc | None = None) -> None:
    """Warn at a location in a kernel, or at the user's line that called this package if None.

    Python shows a warning at a kernel's location every time, and one at a call once for each line.
    """
    if loc is not None:
        warnings.warn_explicit(message, RuntimeWarning, loc.file, loc.line)
        return
    frame = users_frame(sys._getframe(1))
    names = frame.f_globals
    warnings.warn_explicit(
        message,
        RuntimeWarning,
        frame.f_code.co_filename,
        frame.f_lineno,
        names.get("__name__"),
        names.setdefault("__warningregistry__", {}),
    )
