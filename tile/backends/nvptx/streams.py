"""The current stream of the library that owns the arrays, without importing that library."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from typing import Any

DEFAULT = 0


def current_stream(sources: Iterable[object], ordinal: int) -> int:
    """Return the current stream of the library whose arrays are passed; else the default stream.

    Without such arrays it is torch's, if the program uses torch on a GPU.
    """
    roots = {type(source).__module__.partition(".")[0] for source in sources}
    if "cupy" in roots:
        return int(sys.modules["cupy"].cuda.get_current_stream().ptr)
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        return int(torch._C._cuda_getCurrentRawStream(ordinal))
    return DEFAULT


def stream_reader(sources: Iterable[object], ordinal: int) -> Callable[[], int] | None:
    """Return a function that returns the current stream; None for arrays of other libraries."""
    torch: Any = sys.modules.get("torch")
    roots = {type(source).__module__.partition(".")[0] for source in sources}
    if roots != {"torch"} or torch is None:
        return None
    return functools.partial(torch._C._cuda_getCurrentRawStream, ordinal)
