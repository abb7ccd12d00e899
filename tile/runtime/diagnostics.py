"""Diagnostics that users asked for and a launch does not support: refused, or warned of once.

Checks of `with tile.sanitize(...)`, reports that collect faults and traces are refused. Settings of
the environment hold for a whole program, with launches of any kind, and are warned of.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager

from tile.backends.base import Artifact, Backend, Diagnosing, Diagnostics, Target, unchecked
from tile.checks import ALWAYS, NONE, Checks, spelled
from tile.config import Config, Origin, config
from tile.coverage import Launched
from tile.errors import ExecutionError, UnsupportedError
from tile.in_force import collecting, cover, covering, tracing
from tile.warn import warn

# Settings that only the interpreter follows, by attribute of `config`.
ON_TILES = ("interp_level", "interp_order", "chunk_bytes")
INTERPRETER = (*ON_TILES, "interp_target", "interp_races")


def supported(backend: Backend, artifact: Artifact) -> Diagnostics:
    """Return the diagnostics that launches of a compiled kernel support."""
    return backend.diagnostics(artifact) if isinstance(backend, Diagnosing) else Diagnostics()


@contextmanager
def diagnosed(kernel: str, artifact: Artifact, offered: Diagnostics) -> Iterator[None]:
    """Launch inside the `with` block, with reports that count it and take a fault that it raises.

    Raises `UnsupportedError` if the launch does not support what was asked for, and warns once of
    what the environment asks for in vain.
    """
    wanted, origin = _requested(artifact)
    missing = wanted - offered.checks if wanted else NONE
    refused = _refusal(kernel, artifact.target, offered, wanted, missing, origin)
    if covering():
        done = NONE if refused else _done(artifact, offered)
        cover(Launched(kernel, str(artifact.target), done))
    if refused is not None:
        raise refused
    if missing:
        _warn_unchecked(artifact.target, missing)
    for name in INTERPRETER:
        if name not in offered.settings and config.origin(name) is not Origin.DEFAULT:
            _warn_ignored(name, artifact.target)
    try:
        yield
    except ExecutionError as error:
        if error.fault is not None and covering():
            covering()[-1].add(error.fault)
        raise


def _done(artifact: Artifact, offered: Diagnostics) -> Checks:
    """Return the checks that a launch does; some are done whatever was asked for."""
    chosen = artifact.options.checks
    return ((config.sanitize if chosen is None else chosen) | ALWAYS) & offered.checks


def _requested(artifact: Artifact) -> tuple[Checks, Origin]:
    """Return the checks that a user asked for, and where."""
    if artifact.options.checks is not None:
        return artifact.options.checks, Origin.SCOPE
    origin = config.origin("sanitize")
    return (NONE if origin is Origin.DEFAULT else config.sanitize), origin


def _refusal(
    kernel: str,
    target: Target,
    offered: Diagnostics,
    wanted: Checks,
    missing: Checks,
    origin: Origin,
) -> UnsupportedError | None:
    """Return the error for a launch that does not support what a `with` block asks for."""
    if missing and origin is Origin.SCOPE:
        return unchecked(f"`with tile.sanitize` around `{kernel}`", missing, target)
    if wanted and collecting() is not None and not offered.collects:
        return UnsupportedError(
            f"`{kernel}` runs on {target}, whose faults are raised and not collected in a report; "
            "collect=False, or TILE_BACKEND=interp on tiles (TILE_INTERP_LEVEL=tile)"
        )
    if tracing() is not None and not offered.traces:
        return UnsupportedError(
            f"`{kernel}` was compiled for {target}, whose accesses are not recorded; `tile.trace` "
            "records launches of the interpreter on tiles: compile for target 'interp'"
        )
    return None


@functools.cache
def _warn_unchecked(target: Target, missing: Checks) -> None:
    warn(
        f"TILE_SANITIZE asks for checks that {target} does not do: {spelled(missing)}. Launches "
        "there are not checked for these; TILE_BACKEND=interp does all of them, on tiles"
    )


@functools.cache
def _warn_ignored(name: str, target: Target) -> None:
    variable = Config.variables()[name].name
    warn(
        f"{variable} has no effect on launches on {target}: it is a setting of the interpreter"
        f"{'' if name in ON_TILES else ' at TILE_INTERP_LEVEL=thread'}"
    )
