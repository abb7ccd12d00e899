"""`tile info`: list backends and devices.

List the backends of this version, the packages that each needs, its devices with their
capabilities, and how to install missing parts.

  tile info               all backends
  tile info opencl        one backend
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Iterator

from tile import backends
from tile.backends.capabilities import Requirement, Surveyable
from tile.config import config
from tile.errors import BackendError


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command to a parser."""
    parser.add_argument("backends", nargs="*", metavar="BACKEND", help="backends (default: all)")


def run(options: argparse.Namespace) -> int:
    """Run the command, and return its exit status."""
    for name in options.backends:
        backends.require(name)
    print(f"Python {platform.python_version()} on {platform.system()} {platform.machine()}")
    for key, variable in config.variables().items():
        value = getattr(config, key)
        if value != variable.default:
            print(f"{variable.name}={value}")
    for name in options.backends or backends.names():
        print()
        print("\n".join(report(name)))
    return 0


def report(name: str) -> Iterator[str]:
    """Yield the lines on one backend."""
    yield name
    try:
        backend = backends.get(name)
        findings = backend.survey() if isinstance(backend, Surveyable) else ()
    except BackendError as error:
        yield f"  missing: {error.message}"
        return
    for finding in findings:
        yield from _lines(finding)


def _lines(finding: Requirement) -> Iterator[str]:
    if finding.missing:
        yield f"  {finding.part}: missing: {finding.missing}"
        return
    first, *rest = finding.lines or ("there",)
    yield f"  {finding.part}: {first}"
    for line in rest:
        yield f"    {line}"
