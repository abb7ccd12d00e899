"""Tracebacks without the frames of this package, and warnings at the user's line.

The message of an error names the location in the user's code, so the compiler's frames between that
and the launch do not help a user. Public functions are decorated with `public_function`: an error
that leaves one has only the user's frames, wherever it is printed, in scripts, pytest and IPython.
An internal failure of this package, which is not a `TileError`, keeps all frames, and
TILE_FULL_TRACEBACK=1 keeps them always.

`warn` attributes a warning to the user's line.
"""

from __future__ import annotations

import functools
import os
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, ParamSpec, TypeVar

from tile.config import config
from tile.errors import TileError
from tile.location import Loc

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

GENERATED = "<launch fast path>"
"""The file name of code that this package generates for launches."""

_PACKAGE = str(Path(__file__).parent) + os.sep
_STANDARD = os.path.dirname(os.__file__) + os.sep
_INSTALLED = ("site-packages", "dist-packages")  # folders inside the standard library's folder
# Packages whose frames count as this package's own if it calls them.
_LIBRARIES = frozenset({"numpy", "ml_dtypes", "llvmlite", "cuda", "pyopencl"})


def public_function(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a public function: remove this package's frames from the errors that leave it."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            trim(error)
            raise

    return call


def public_class(kind: type[T]) -> type[T]:
    """Decorate a public class: apply `public_function` to its constructor."""
    kind.__init__ = public_function(kind.__init__)  # type: ignore[method-assign]
    return kind


def trim(error: Exception) -> None:
    """Remove this package's frames from the tracebacks of an error and of its chained exceptions.

    A caller in this package catches the error, trims it and ends with a bare `raise`. CPython then
    adds no entry for the caller itself: a bare `raise` continues with the traceback that the
    exception has, and the next entry is that of the frame outside.
    """
    if config.full_traceback:
        return
    entries = _entries(error.__traceback__)
    frames = [item.tb_frame for item in entries if not _is_entry(item.tb_frame)]
    if frames and _is_own(frames[-1]) and not isinstance(error, TileError):
        return
    for chained in _chain(error):
        raised_here = chained.__traceback__ is None or _ends_inside(chained.__traceback__)
        chained.__traceback__ = _without_own(chained.__traceback__)
        if raised_here and chained.__cause__ is None:
            _skip_own_context(chained)


def user_frame(frame: FrameType) -> FrameType:
    """Return the user's frame that called this package, or `frame` if there is none."""
    caller: FrameType | None = frame
    while caller is not None and (_is_own(caller) or _is_library(caller)):
        caller = caller.f_back
    return caller or frame


def _skip_own_context(error: BaseException) -> None:
    """Set the context of an error to the exception that the user was handling, if any.

    Exceptions raised inside this package have no frames left after trimming, and are skipped.
    """
    before = error.__context__
    while before is not None and before.__traceback__ is None:
        before = before.__context__
    error.__context__ = before
    error.__suppress_context__ = False


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield the exceptions chained to an error in the order in which they print, then the error."""
    chain: list[BaseException] = []
    pending: list[BaseException | None] = [error]
    while pending:
        exception = pending.pop()
        if exception is not None and not any(exception is other for other in chain):
            chain.append(exception)
            pending += [exception.__cause__, exception.__context__]
    return reversed(chain)


def _entries(traceback: TracebackType | None) -> Iterator[TracebackType]:
    """Yield the entries of a traceback, outermost first."""
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _users(traceback: TracebackType | None) -> Iterator[tuple[TracebackType, bool]]:
    """Yield the entries of a traceback, each with True if it is the user's."""
    own = False
    for item in _entries(traceback):
        frame = item.tb_frame
        own = _is_own(frame) or (own and _is_library(frame))
        yield item, not own


def _ends_inside(traceback: TracebackType) -> bool:
    *_, (_, users) = _users(traceback)
    return not users


def _without_own(traceback: TracebackType | None) -> TracebackType | None:
    """Return a traceback of the user's entries only."""
    trimmed: TracebackType | None = None
    for item in reversed([item for item, users in _users(traceback) if users]):
        trimmed = TracebackType(trimmed, item.tb_frame, item.tb_lasti, item.tb_lineno)
    return trimmed


def _is_entry(frame: FrameType) -> bool:
    return frame.f_code.co_filename == __file__


def _is_own(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith((_PACKAGE, GENERATED))


def _is_library(frame: FrameType) -> bool:
    """Return True for frames that count as their caller's: the standard library, NumPy, ..."""
    file = frame.f_code.co_filename
    standard = file.startswith(_STANDARD) and not any(name in file for name in _INSTALLED)
    module = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    return standard or module in _LIBRARIES or file.startswith("<frozen ") or file == "<string>"


def warn(message: str, loc: Loc | None = None, category: type[Warning] = RuntimeWarning) -> None:
    """Warn at a location in a kernel, or at the user's line that called this package if None.

    Python shows a `RuntimeWarning` at a kernel's location every time, one of another category once
    for each line of an imported module, and a warning at a call once for each line.
    """
    if loc is not None:
        registry = None if category is RuntimeWarning else _registry(loc.file)
        warnings.warn_explicit(message, category, loc.file, loc.line, registry=registry)
        return
    frame = user_frame(sys._getframe(1))
    names = frame.f_globals
    warnings.warn_explicit(
        message,
        category,
        frame.f_code.co_filename,
        frame.f_lineno,
        names.get("__name__"),
        names.setdefault("__warningregistry__", {}),
    )


class OnceWarner:
    """Warns of each message once."""

    def __init__(self) -> None:
        self._messages: set[str] = set()

    def warn(self, message: str) -> None:
        """Warn at the user's line that called this package, unless it was done before."""
        if message not in self._messages:
            self._messages.add(message)
            warn(message)


def _registry(file: str) -> dict[Any, Any] | None:
    """Return the record of warnings that were shown for an imported file; None for another file."""
    for module in list(sys.modules.values()):
        if getattr(module, "__file__", None) == file:
            registry: dict[Any, Any] = vars(module).setdefault("__warningregistry__", {})
            return registry
    return None
