"""The versions of JAX that `tile.jax` supports."""

from __future__ import annotations

import importlib.metadata
import re

from tile.errors import JaxVersionError

LEAST = (0, 6)
INSTALL = 'pip install "tile-compiler[jax]"'


def check_version() -> None:
    """Raise `JaxVersionError` without a supported JAX; do not import it."""
    try:
        text = importlib.metadata.version("jax")
    except importlib.metadata.PackageNotFoundError:
        raise JaxVersionError(f"tile.jax needs JAX, which is not installed: {INSTALL}") from None
    if tuple(map(int, re.findall(r"\d+", text)[:2])) < LEAST:
        least = ".".join(map(str, LEAST))
        raise JaxVersionError(
            f"tile.jax needs JAX {least} or later, and {text} is installed: {INSTALL}"
        )
