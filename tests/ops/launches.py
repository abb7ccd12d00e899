"""Which kernels an operation launches."""

from __future__ import annotations

from typing import Any

import pytest

from tile.runtime.jit import JITFunction


def record_launches(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the kernels that are launched from now on."""
    names: list[str] = []
    select = JITFunction.__getitem__

    def recording(kernel: JITFunction[..., Any], grid: Any) -> Any:
        names.append(kernel.__name__)
        return select(kernel, grid)

    monkeypatch.setattr(JITFunction, "__getitem__", recording)
    return names
