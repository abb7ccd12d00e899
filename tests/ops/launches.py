"""Which kernels an operation launches, and with which options."""

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


def record_option(monkeypatch: pytest.MonkeyPatch, name: str) -> list[Any]:
    """Return the values of an option of the launches from now on; None of one that lacks it."""
    values: list[Any] = []
    select = JITFunction.__getitem__

    def recording(kernel: JITFunction[..., Any], grid: Any) -> Any:
        launch = select(kernel, grid)

        def launched(*args: Any, **options: Any) -> Any:
            values.append(options.get(name))
            return launch(*args, **options)

        return launched

    monkeypatch.setattr(JITFunction, "__getitem__", recording)
    return values
