"""The packages that parts of `tile` need, each with an extra and a part named like it."""

from __future__ import annotations

import importlib.metadata
import re


def require_version(
    package: str, title: str, least: tuple[int, int], error: type[Exception]
) -> None:
    """Raise an error without a package, or with an older version than `least`; do not import it.

    title: its name in messages.
    """
    needs = f"tile.{package} needs {title}"
    install = f'pip install "tile-compiler[{package}]"'
    try:
        text = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        raise error(f"{needs}, which is not installed: {install}") from None
    if tuple(map(int, re.findall(r"\d+", text)[:2])) < least:
        wanted = ".".join(map(str, least))
        raise error(f"{needs} {wanted} or later, and {text} is installed: {install}")
