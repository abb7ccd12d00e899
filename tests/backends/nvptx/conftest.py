"""These tests compile; they need llvmlite and NVIDIA's wheels, but no GPU."""

from __future__ import annotations

import pytest

for package in ("llvmlite", "cuda.bindings"):
    pytest.importorskip(package, reason=f"{package} is not installed")
