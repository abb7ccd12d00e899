"""`tile info`: each backend with what it has, and what would bring what it lacks."""

from __future__ import annotations

import importlib

import pytest

from tile import backends
from tile.backends.capabilities import Surveyable
from tile.errors import BackendError
from tile.tools import info
from tile.tools.cli import main


def test_every_backend_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert set(backends.names()) <= set(lines)
    assert any(line.startswith("  packages: numpy ") for line in lines)


def test_what_is_missing_comes_with_a_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def get(name: str) -> object:
        raise BackendError("it needs a package; pip install 'tile-compiler[cuda]' brings it")

    monkeypatch.setattr(backends, "get", get)
    assert list(info.report("nvptx")) == [
        "nvptx",
        "  missing: it needs a package; pip install 'tile-compiler[cuda]' brings it",
    ]


def test_unknown_backends_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", "vulkan"]) == 1
    assert "there is no backend 'vulkan'" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["nvptx", "opencl"])
def test_requirements_are_present_or_missing(name: str) -> None:
    backend = backends.get(name)
    assert isinstance(backend, Surveyable)
    try:
        findings = backend.survey()
    except BackendError as missing:
        pytest.skip(missing.message)
    assert all(bool(finding.lines) != bool(finding.missing) for finding in findings)
    lines = list(info.report(name))
    assert len(lines) == 1 + sum(max(1, len(finding.lines)) for finding in findings)


def test_the_device_that_is_set_is_shown(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILE_OPENCL_DEVICE", "7")
    main(["info", "interp"])
    assert "TILE_OPENCL_DEVICE=7" in capsys.readouterr().out


def test_devices_of_opencl_and_what_pip_brings() -> None:
    """Every device with what it has and lacks, and every runtime for CPUs that is not there."""
    pytest.importorskip("pyopencl", reason="pyopencl is not installed")
    devices = importlib.import_module("tile.backends.opencl.devices")
    runtimes = importlib.import_module("tile.backends.opencl.survey").RUNTIMES
    lines = "\n".join(info.report("opencl"))
    assert "packages: pyopencl " in lines
    try:
        available = devices.all_devices()
    except BackendError as error:
        assert "pip install 'tile-compiler[opencl]'" in error.message and error.message in lines
        available = ()
    for index, device in enumerate(available):
        assert f"{index}: {device.name.strip()}, " in lines
    for word in ("work-items", "local memory", "arrays of the host", " has ", " lacks "):
        assert lines.count(word) >= len(available)
    present = {device.platform.name.strip() for device in available}
    for platform, packages in runtimes.items():
        assert (f"pip install {packages}" in lines) == (platform not in present)
