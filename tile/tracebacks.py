"""Tracebacks without the frames of this package.

The message of an error names the place in the user's code, so the frames of the compiler between
that and the launch say nothing to a user. Public functions are decorated with `entry`: an error
that leaves one has the frames of the user alone, wherever it is printed, in scripts, pytest and
IPython. A failure of this package itself, which is not a `TileError`, keeps all frames, and so does
everything under TILE_FULL_TRACEBACK=1.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, TracebackType
from typing import ParamSpec, TypeVar

from tile.config import config
from tile.errors import TileError

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

GENERATED = "<a repeat launch>"
"""The file name of code that this package generates for launches."""

_PACKAGE = str(Path(__file__).parent) + os.sep
_STANDARD = os.path.dirname(os.__file__) + os.sep
_INSTALLED = ("site-packages", "dist-packages")  # folders inside of that of the standard library
# Packages whose frames belong to this one where it calls them.
_LIBRARIES = frozenset({"numpy", "ml_dtypes", "llvmlite", "cuda", "pyopencl"})


def entry(function: Callable[P, R]) -> Callable[P, R]:
    """Decorator of public functions: errors leave them without frames of this package."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            trim(error)
            raise

    return call


def constructed(kind: type[T]) -> type[T]:
    """Decorator of public classes: `entry` for their construction."""
    kind.__init__ = entry(kind.__init__)  # type: ignore[method-assign]
    return kind


def trim(error: Exception) -> None:
    """Take the frames of this package out of the traceback of an error, and of those before it.

    A caller in this package catches the error, trims it and ends with a bare `raise`. CPython then
    adds no entry for the caller itself: a bare `raise` continues with the traceback that the
    exception has, and the next entry is that of the frame outside.
    """
    if config.full_traceback:
        return
    raised = [one.tb_frame for one in _entries(error.__traceback__) if not _is_entry(one.tb_frame)]
    if raised and _is_own(raised[-1]) and not isinstance(error, TileError):
        return
    for one in _chain(error):
        raised_here = one.__traceback__ is None or _ends_inside(one.__traceback__)
        one.__traceback__ = _without_own(one.__traceback__)
        if raised_here and one.__cause__ is None:
            _skip_own_context(one)


def users_frame(frame: FrameType) -> FrameType:
    """Return the user's frame that called this package; the given one where there is none."""
    caller: FrameType | None = frame
    while caller is not None and (_is_own(caller) or _is_library(caller)):
        caller = caller.f_back
    return caller or frame


def _skip_own_context(error: BaseException) -> None:
    """Let an error of this package follow what the user was handling, if that was anything.

    What it follows inside of this package, which has no frames any more, is nothing to print.
    """
    before = error.__context__
    while before is not None and before.__traceback__ is None:
        before = before.__context__
    error.__context__ = before
    error.__suppress_context__ = False


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error after all that are printed before it, the first first."""
    chain: list[BaseException] = []
    pending = [error]
    while pending:
        one = pending.pop()
        if not any(one is other for other in chain):
            chain.append(one)
            pending += [other for other in (one.__cause__, one.__context__) if other is not None]
    return reversed(chain)


def _entries(traceback: TracebackType | None) -> Iterator[TracebackType]:
    """The entries of a traceback, outermost first."""
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _users(traceback: TracebackType | None) -> Iterator[tuple[TracebackType, bool]]:
    """The entries of a traceback, and of each whether it is the user's."""
    own = False
    for one in _entries(traceback):
        frame = one.tb_frame
        own = _is_own(frame) or (own and _is_library(frame))
        yield one, not own


def _ends_inside(traceback: TracebackType) -> bool:
    *_, (_, users) = _users(traceback)
    return not users


def _without_own(traceback: TracebackType | None) -> TracebackType | None:
    """The entries of a traceback that are the user's."""
    shown: TracebackType | None = None
    for one in reversed([one for one, users in _users(traceback) if users]):
        shown = TracebackType(shown, one.tb_frame, one.tb_lasti, one.tb_lineno)
    return shown


def _is_entry(frame: FrameType) -> bool:
    return frame.f_code.co_filename == __file__


def _is_own(frame: FrameType) -> bool:
    return frame.f_code.co_filename.startswith((_PACKAGE, GENERATED))


def _is_library(frame: FrameType) -> bool:
    """Return True for frames that belong to their caller: of Python's library, NumPy and so on."""
    file = frame.f_code.co_filename
    standard = file.startswith(_STANDARD) and not any(name in file for name in _INSTALLED)
    module = str(frame.f_globals.get("__name__", "")).partition(".")[0]
    return standard or module in _LIBRARIES or file.startswith("<frozen ") or file == "<string>"
