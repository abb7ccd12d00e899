"""Lists of tensors have equal keys only if nothing but their addresses differs."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")

import torch

from tile.ops.core.list_keys import ListKeys, UnplannedError
from tile.runtime.arguments.torch_tensors import tensor_guard


def tensors(*changed: Any) -> list[Any]:
    return [torch.zeros(3, 4), torch.zeros(5), *(changed or [torch.zeros(2, 2)])]


OTHERS = {
    "shape": lambda: tensors(torch.zeros(4)),
    "dtype": lambda: tensors(torch.zeros(2, 2, dtype=torch.float16)),
    "strides": lambda: tensors(torch.zeros(2, 4)[:, ::2]),
    "class": lambda: tensors(torch.nn.Parameter(torch.zeros(2, 3))),
    "device": lambda: tensors(torch.zeros(2, 2, device="meta")),
    "count": lambda: tensors()[:2],
    "order": lambda: tensors()[::-1],
    "gradient": lambda: tensors(torch.zeros(2, 2, requires_grad=True)),
    "no tensor": lambda: tensors(2),
}


@pytest.mark.parametrize("guarded", [True, False])
def test_numbers_of_lists(guarded: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not guarded:
        monkeypatch.setattr("tile.ops.core.list_keys.tensor_guard", lambda values: None)
    keys = ListKeys()
    first = keys.number(tensors())
    for make in OTHERS.values():
        other = keys.number(make())
        assert other != first and keys.number(make()) == other
        assert keys.number(tuple(tensors())) == first == keys.number(tensors())
    with torch.no_grad():
        assert keys.number(tensors()) == first
    changed = tensors()
    changed[1].data = torch.zeros(6)
    assert keys.number(changed) != first
    with pytest.raises(UnplannedError):
        keys.number(tensors(object()))


def test_a_guard_is_no_coarser_than_keys() -> None:
    guard = tensor_guard(tensors())
    assert guard is not None and guard(*tensors())
    for name, make in OTHERS.items():
        values = make()
        assert name == "count" or not guard(*values), name
    assert tensor_guard([]) is None and tensor_guard(tensors(2)) is None


def test_numbers_are_not_used_again() -> None:
    keys = ListKeys()
    numbers = {keys.number(tensors())}
    keys.clear()
    numbers.add(keys.number(tensors()))
    assert len(numbers) == 2


def test_tuples_of_numbers() -> None:
    keys = ListKeys()
    tuples: list[Any] = [(0.0, 1), (-0.0, 1), (0.0, 1.0), (0.0, True), (0.0, None), (0.0, "1")]
    numbers = [keys.number(values) for _ in range(2) for values in tuples]
    assert len({*numbers}) == len(tuples) and numbers[:6] == numbers[6:]
