"""Kernels in NumPy: the meaning of the IR, and a debugger for it."""

from __future__ import annotations

from tile.backends.base import Backend
from tile.backends.interp.backend import InterpreterBackend

BACKEND: Backend = InterpreterBackend()
