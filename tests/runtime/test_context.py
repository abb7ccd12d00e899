from __future__ import annotations

import os
import threading

import numpy as np
import pytest

import tile
from tests.runtime.fake_cuda import CudaArray
from tile import backends
from tile.config import config
from tile.errors import ArgumentTypeError, ArgumentValueError, BackendError
from tile.runtime.arguments.adapt import adapt
from tile.runtime.target_selection import target_text


@pytest.fixture(autouse=True)
def _no_setting(monkeypatch):
    monkeypatch.delenv("TILE_BACKEND", raising=False)


def arguments(*values):
    return [adapt(value, "x") for value in values]


def test_names_come_from_the_folders() -> None:
    assert "interp" in backends.names()
    assert not {"base", "registry"} & set(backends.names())


def test_a_backend_is_loaded_once() -> None:
    assert backends.get("interp") is backends.get("interp")
    assert backends.get("interp").name == "interp"


def test_an_unknown_backend() -> None:
    with pytest.raises(BackendError, match=r"no backend 'interpp'; this version has .*interp"):
        backends.get("interpp")
    with (
        pytest.raises(BackendError, match=r"no backend 'cuda'.*\n.*NVIDIA's GPUs are nvptx"),
        tile.backend("cuda"),
    ):
        pass
    with (
        pytest.raises(ArgumentTypeError, match="takes a name such as 'interp', not 3"),
        tile.backend(3),
    ):
        pass


def test_a_backend_whose_package_is_missing(tmp_path, monkeypatch) -> None:
    folder = tmp_path / "broken"
    folder.mkdir()
    (folder / "__init__.py").write_text("import no_such_package_anywhere\n")
    monkeypatch.setattr(backends, "__path__", [str(tmp_path)])
    backends.names.cache_clear()
    try:
        assert backends.names() == ("broken",)
        with pytest.raises(
            BackendError, match=r"'no_such_package_anywhere'.*tile-compiler\[broken\]"
        ):
            backends.get("broken")
    finally:
        monkeypatch.undo()
        backends.names.cache_clear()


def test_the_interpreter_is_the_default() -> None:
    assert target_text(arguments(np.zeros(3), 1, None)) == "interp"


def test_the_environment_decides(monkeypatch) -> None:
    monkeypatch.setenv("TILE_BACKEND", "nvptx:sm_90a")
    assert target_text(arguments(np.zeros(3))) == "nvptx:sm_90a"


def test_the_environment_is_read_each_time(monkeypatch) -> None:
    for text, expected in (("5", 5), ("6", 6), ("5", 5)):
        monkeypatch.setenv("TILE_INTERP_CHUNK", text)
        assert config.chunk_bytes == expected
    monkeypatch.setenv("TILE_INTERP_CHUNK", "many")
    for _ in range(2):
        with pytest.raises(ArgumentValueError, match="TILE_INTERP_CHUNK='many' cannot be read"):
            _ = config.chunk_bytes
    monkeypatch.delenv("TILE_INTERP_CHUNK")
    assert config.chunk_bytes == 1 << 21
    monkeypatch.setattr(os, "environ", {"TILE_INTERP_CHUNK": "7"})
    assert config.chunk_bytes == 7


@pytest.mark.parametrize(
    ("variable", "attribute", "text"),
    [
        ("TILE_VERIFY", "verify", "flase"),
        ("TILE_CACHE", "cache", "2"),
        ("TILE_INTERP_CHUNK", "chunk_bytes", "0"),
        ("TILE_INTERP_CHUNK", "chunk_bytes", "-5"),
        ("TILE_INTERP_LEVEL", "interp_level", "threads"),
        ("TILE_INTERP_ORDER", "interp_order", "random"),
        ("TILE_SANITIZE", "sanitize", "races"),
        ("TILE_CACHE_LIMIT", "cache_limit", "lots"),
        ("TILE_CACHE_LIMIT", "cache_limit", "2X"),
    ],
)
def test_values_that_do_not_exist_are_refused(monkeypatch, variable, attribute, text) -> None:
    monkeypatch.setenv(variable, text)
    expected = {
        "TILE_VERIFY": "expected 1, true, yes or on, or 0, false, no or off",
        "TILE_CACHE": "expected 1, true, yes or on, or 0, false, no or off",
        "TILE_INTERP_CHUNK": "expected a positive integer",
        "TILE_INTERP_LEVEL": "",
        "TILE_INTERP_ORDER": "expected reverse, or an integer seed for a random order",
        "TILE_SANITIZE": "there is no check 'races'",
        "TILE_CACHE_LIMIT": "expected a number of bytes, such as 4096, 500M or 2G",
    }
    message = f"{variable}='{text}' cannot be read: {expected[variable]}"
    with pytest.raises(ArgumentValueError, match=message):
        getattr(config, attribute)


def test_a_scope_of_a_setting_that_does_not_exist() -> None:
    with (
        pytest.raises(ArgumentTypeError, match="no setting named 'backends'; there are backend, "),
        config.scope(backends="interp"),
    ):
        pass


@pytest.mark.parametrize(("text", "value"), [("1", True), ("ON", True), ("", False), ("no", False)])
def test_flags(monkeypatch, text, value) -> None:
    monkeypatch.setenv("TILE_VERIFY", text)
    assert config.verify is value


def test_scopes_nest_and_end(monkeypatch) -> None:
    monkeypatch.setenv("TILE_BACKEND", "other")
    with tile.backend("interp"):
        assert target_text([]) == "interp"
        with tile.backend("interp:x"):
            assert target_text([]) == "interp:x"
        assert target_text([]) == "interp"
    assert target_text([]) == "other"


def test_scopes_end_with_an_error() -> None:
    with pytest.raises(KeyError), tile.backend("interp"):
        raise KeyError
    assert config.backend == ""


def test_a_scope_is_a_threads_own() -> None:
    seen = []
    with tile.backend("interp:here"):
        thread = threading.Thread(target=lambda: seen.append(target_text([])))
        thread.start()
        thread.join()
    assert seen == ["interp"]


@pytest.mark.parametrize("wrap", [lambda x: x, lambda x: (1, (x,))])
def test_device_arrays_ask_for_their_backend(monkeypatch, wrap) -> None:
    values = arguments(1, wrap(CudaArray(np.zeros(3))))
    monkeypatch.setattr(backends, "names", lambda: ("interp", "nvptx"))
    assert target_text(values) == "nvptx"
    monkeypatch.setattr(backends, "names", lambda: ("interp",))
    with pytest.raises(BackendError) as caught:
        target_text(values)
    assert "CUDA device" in str(caught.value)
    assert "nvptx backend, which this version does not have; set TILE_BACKEND=interp" in str(
        caught.value
    )
    with tile.backend("interp"):
        assert target_text(values) == "interp"
