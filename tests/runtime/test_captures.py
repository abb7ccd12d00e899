from __future__ import annotations

import types

import numpy as np
import pytest

import tile
import tile.language as tl

FACTOR = tl.constexpr(2)
settings = types.ModuleType("settings")
settings.OFFSET = tl.constexpr(10)


@tile.jit
def twice(x):
    return x * FACTOR


@tile.jit
def thrice(x):
    return x * 3


chosen = twice


@tile.jit
def direct(out_ptr, value):
    tl.store(out_ptr, value * FACTOR)


@tile.jit
def through_a_call(out_ptr, value):
    tl.store(out_ptr, chosen(value))


@tile.jit
def through_a_module(out_ptr, value):
    tl.store(out_ptr, value + settings.OFFSET)


@tile.jit
def alone(out_ptr, value):
    tl.store(out_ptr, value)


def result(kernel, value: int = 7) -> int:
    out = np.zeros(1, np.int32)
    kernel[1,](out, value)
    return int(out[0])


@pytest.mark.parametrize(
    ("kernel", "target", "name", "value", "before", "after"),
    [
        (direct, None, "FACTOR", tl.constexpr(5), 14, 35),
        (through_a_call, None, "FACTOR", tl.constexpr(5), 14, 35),
        (through_a_call, None, "chosen", thrice, 14, 21),
        (through_a_module, settings, "OFFSET", tl.constexpr(100), 17, 107),
    ],
)
def test_a_change_is_seen(monkeypatch, kernel, target, name, value, before, after) -> None:
    assert result(kernel) == before
    cached = list(kernel.cache.values())
    assert result(kernel) == before
    assert list(kernel.cache.values()) == cached
    if target is None:
        monkeypatch.setitem(globals(), name, value)
    else:
        monkeypatch.setattr(target, name, value)
    assert result(kernel) == after


def test_closures_are_watched() -> None:
    factor = tl.constexpr(2)

    @tile.jit
    def scaled(out_ptr, value):
        tl.store(out_ptr, value * factor)

    assert result(scaled) == 14
    factor = tl.constexpr(4)
    assert result(scaled) == 28


def test_a_change_elsewhere_keeps_what_was_compiled(monkeypatch) -> None:
    assert result(alone) == 7
    (kernel,) = alone.cache.values()
    monkeypatch.setitem(globals(), "FACTOR", tl.constexpr(9))
    assert result(alone) == 7
    assert list(alone.cache.values()) == [kernel]
