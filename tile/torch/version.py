"""The versions of PyTorch that `tile.torch` supports."""

from __future__ import annotations

import importlib.metadata
import re

from tile.errors import TorchVersionError

LEAST = (2, 11)
INSTALL = 'pip install "tile-compiler[torch]"'


def check_version() -> None:
    """Raise `TorchVersionError` without a supported PyTorch; do not import it."""
    try:
        text = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        raise TorchVersionError(
            f"tile.torch needs PyTorch, which is not installed: {INSTALL}"
        ) from None
    if version_of(text) < LEAST:
        least = ".".join(map(str, LEAST))
        raise TorchVersionError(
            f"tile.torch needs PyTorch {least} or later, and {text} is installed: {INSTALL}"
        )


def version_of(text: str) -> tuple[int, ...]:
    """Return the first two numbers of a version: (2, 13) of "2.13.0+cpu"."""
    return tuple(map(int, re.findall(r"\d+", text)[:2]))
