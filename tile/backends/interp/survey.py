"""The interpreter's requirements, and the GPUs that its SIMT simulator offers."""

from __future__ import annotations

from importlib import metadata

from tile.backends.capabilities import Requirement
from tile.simt.target import TARGETS


def survey() -> list[Requirement]:
    """Return the versions of packages, and the targets of the SIMT simulator."""
    packages = tuple(f"{name} {metadata.version(name)}" for name in ("numpy", "ml_dtypes"))
    targets = f"{', '.join(TARGETS)}, as in interp:{next(iter(TARGETS))}"
    return [Requirement("packages", packages), Requirement("simulated GPUs", (targets,))]
