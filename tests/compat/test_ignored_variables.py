"""Environment variables of Triton without an effect are named in a warning."""

from __future__ import annotations

import re
import warnings

import pytest

from tile.compat import install_as_triton
from tile.compat.ignored_variables import IGNORED
from tile.compat.knobs import EFFECTS


@pytest.mark.parametrize("name", IGNORED)
def test_a_variable_without_effect_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "1")
    text = f"{name} has no effect where tile is Triton: {IGNORED[name]}"
    with pytest.warns(RuntimeWarning, match=re.escape(text)), install_as_triton():
        pass


def test_variables_that_are_off_or_have_effects_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in IGNORED:
        monkeypatch.setenv(name, "0")
    for name in EFFECTS:
        monkeypatch.setenv(name, "1")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with install_as_triton():
            pass
    assert not set(IGNORED) & set(EFFECTS)
