"""`tile info`: the backends, what each needs and has on this machine, and what would bring it."""

from __future__ import annotations

import argparse
import platform
from collections.abc import Iterator

from tile.backends import registry
from tile.backends.base import Finding, Surveyable
from tile.config import config
from tile.errors import BackendError
from tile.tools.command import Command

DESCRIPTION = """\
List the backends of this version, what each of them needs, the devices that it finds with what they
can do, and for what is missing the command that brings it.

  tile info               all backends
  tile info opencl        one of them
"""


def _configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("backends", nargs="*", metavar="BACKEND", help="backends (default: all)")


def _run(options: argparse.Namespace) -> int:
    for name in options.backends:
        registry.require(name)
    print(f"Python {platform.python_version()} on {platform.system()} {platform.machine()}")
    set_here = {v.name: getattr(config, key) for key, v in config.variables().items()}
    for variable in config.variables().values():
        if set_here[variable.name] != variable.default:
            print(f"{variable.name}={set_here[variable.name]}")
    for name in options.backends or registry.names():
        print()
        print("\n".join(report(name)))
    return 0


def report(name: str) -> Iterator[str]:
    """The lines on one backend."""
    yield name
    try:
        backend = registry.get(name)
    except BackendError as error:
        yield f"  missing: {error.message}"
        return
    found = backend.survey() if isinstance(backend, Surveyable) else ()
    for finding in found:
        yield from _lines(finding)


def _lines(finding: Finding) -> Iterator[str]:
    if finding.missing:
        yield f"  {finding.part}: missing: {finding.missing}"
        return
    first, *rest = finding.found or ("there",)
    yield f"  {finding.part}: {first}"
    for line in rest:
        yield f"    {line}"


COMMAND = Command("info", "list backends and devices", DESCRIPTION, _configure, _run)
