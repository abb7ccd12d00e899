"""Lazy imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import tile
from docs.reference.stubs import functions
from tile import language
from tile._lazy import is_lazy_reexport, lazy_import


def test_every_public_name_is_there() -> None:
    for module in (tile, tile.runtime, tile.language):
        assert all(getattr(module, name) is not None for name in module.__all__)
    assert tile.Autotuner is tile.runtime.Autotuner
    assert tile.testing is sys.modules["tile.testing"]
    for module in (tile, tile.runtime, tile.language, tile.testing):
        assert set(module.__all__) <= set(dir(module))
    with pytest.raises(AttributeError, match="module 'tile' has no attribute 'autotun'"):
        tile.autotun


def test_nothing_is_loaded_before_it_is_used() -> None:
    code = (
        "import sys, tile\n"
        "late = {'tile.testing', 'tile.runtime.autotuning.autotuner', 'tile.frontend.python.code_generator', "
        "'tile.diagnostics'}\n"
        "assert {'Config', 'testing', 'trace'} <= set(dir(tile))\n"
        "assert not late & set(sys.modules)\n"
        "from tile import Autotuner, Config, testing\n"
        "assert {'tile.testing', 'tile.runtime.autotuning.autotuner'} <= set(sys.modules)\n"
        "assert 'Config' in vars(tile)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_function() -> None:
    repeated = lazy_import("textwrap", "shorten")
    assert [repeated("a  b", width=9) for _ in "ab"] == ["a b"] * 2
    with pytest.raises(ModuleNotFoundError):
        lazy_import("tile.absent", "nothing")()


def test_every_function_of_a_module_of_the_language_is_in_tl() -> None:
    """The generated table is complete; `dir` shows what it names without an import."""
    assert (
        functions().items() <= {name: getattr(language, name) for name in language.__all__}.items()
    )
    assert set(language.__all__) <= set(dir(language))


def test_a_name_of_the_language_is_never_a_module_by_accident() -> None:
    """A submodule that is imported becomes an attribute of its package, over a name like its."""
    files = Path(language.__file__).parent.glob("*.py")
    assert {path.stem for path in files} & set(language.__all__) == {"math"}
    code = (
        "import tile.language.tensor_methods, tile.language.random, tile.language as tl\n"
        "assert tl.constexpr(3).value == 3 and isinstance(tl.tensor, type)\n"
        "assert tl.reduce.name == 'reduce' and tl.math.exp is tl.exp\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_which_names_are_lazy(monkeypatch: pytest.MonkeyPatch) -> None:
    assert is_lazy_reexport(language, "load") and is_lazy_reexport(language, "math")
    assert not is_lazy_reexport(language, "constexpr") and not is_lazy_reexport(language, "absent")
    assert not is_lazy_reexport(sys, "path")
    monkeypatch.setattr(language, "load", language.store)
    assert not is_lazy_reexport(language, "load")
