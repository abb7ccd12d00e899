"""`triton` as a view of `tile`, for one test."""

import pytest

import tile.compat


@pytest.fixture
def triton(monkeypatch):
    """Install the views, and remove them and their environment after the test."""
    monkeypatch.delenv("TILE_TRITON", raising=False)
    with tile.compat.install_as_triton():
        import triton

        yield triton
