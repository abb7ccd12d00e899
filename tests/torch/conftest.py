"""Tests of `tile.torch` run where PyTorch is installed."""

import pytest

collect_ignore_glob: list[str] = []

try:
    import torch
except ImportError:
    collect_ignore_glob = ["test_*.py"]
else:

    @pytest.fixture(autouse=True)
    def fresh_graphs():
        """Start each test without compiled graphs."""
        torch.compiler.reset()
