"""What the interpreter needs, and the machines whose threads it can run."""

from __future__ import annotations

from importlib import metadata

from tile.backends.base import Finding
from tile.simt.target import TARGETS


def survey() -> list[Finding]:
    """Packages and machines."""
    packages = tuple(f"{name} {metadata.version(name)}" for name in ("numpy", "ml_dtypes"))
    machines = f"{', '.join(TARGETS)}, as in interp:{next(iter(TARGETS))}"
    return [Finding("packages", packages), Finding("machines of threads", (machines,))]
