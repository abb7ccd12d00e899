"""The interpreter: runs kernels in NumPy, as the reference semantics of the IR."""

from __future__ import annotations

from tile.backends.base import Backend
from tile.backends.interp.backend import InterpreterBackend

BACKEND: Backend = InterpreterBackend()
