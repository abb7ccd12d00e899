"""Marks of tests that need an optional package."""

from __future__ import annotations

import importlib.util

import pytest

pyopencl = pytest.mark.skipif(
    importlib.util.find_spec("pyopencl") is None, reason="pyopencl is not installed"
)
