"""Handle requested diagnostics that a launch does not support, with an error or one warning.

Unsupported checks of `with tile.sanitize(...)`, reports that collect faults, and traces are errors.
Environment variables apply to a whole program, with launches of any kind, so unsupported settings
there only cause a warning.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager

from tile.backends.base import Artifact, Backend, Target, unsupported_checks_error
from tile.backends.capabilities import Diagnosing, Diagnostics
from tile.checks import ALWAYS, NONE, Checks, LaunchKey, format_checks
from tile.config import Config, Origin, config
from tile.errors import ExecutionError, UnsupportedError
from tile.instrumentation import active_report, active_trace, count_launch, coverage_reports
from tile.tracebacks import warn

# Settings that only the interpreter implements, by attribute of `config`.
ON_TILES = ("interp_level", "interp_order", "chunk_bytes")
INTERPRETER = (*ON_TILES, "interp_target", "interp_races")


def supported_diagnostics(backend: Backend, artifact: Artifact) -> Diagnostics:
    """Return the diagnostics that launches of a compiled kernel support."""
    return backend.diagnostics(artifact) if isinstance(backend, Diagnosing) else Diagnostics()


@contextmanager
def diagnosed(kernel: str, artifact: Artifact, supported: Diagnostics) -> Iterator[None]:
    """Record the launch inside the `with` block, and a fault that it raises, in active reports.

    Raises `UnsupportedError` if the launch does not support the diagnostics of a `with` block, and
    warns once of unsupported environment variables.
    """
    requested, origin = _requested(artifact)
    missing = requested - supported.checks if requested else NONE
    refused = _refusal(kernel, artifact.target, supported, requested, missing, origin)
    if coverage_reports():
        performed = NONE if refused else _performed_checks(artifact, supported)
        count_launch(LaunchKey(kernel, str(artifact.target), performed))
    if refused is not None:
        raise refused
    if missing:
        _warn_unchecked(artifact.target, missing)
    for name in INTERPRETER:
        if name not in supported.settings and config.origin(name) is not Origin.DEFAULT:
            _warn_ignored(name, artifact.target)
    try:
        yield
    except ExecutionError as error:
        if error.fault is not None and coverage_reports():
            coverage_reports()[-1].add(error.fault)
        raise


def _performed_checks(artifact: Artifact, supported: Diagnostics) -> Checks:
    """Return the checks that a launch performs; some are always active."""
    chosen = artifact.options.checks
    return ((config.sanitize if chosen is None else chosen) | ALWAYS) & supported.checks


def _requested(artifact: Artifact) -> tuple[Checks, Origin]:
    """Return the checks that the user requested, and the origin of the setting."""
    if artifact.options.checks is not None:
        return artifact.options.checks, Origin.SCOPE
    origin = config.origin("sanitize")
    return (NONE if origin is Origin.DEFAULT else config.sanitize), origin


def _refusal(
    kernel: str,
    target: Target,
    supported: Diagnostics,
    requested: Checks,
    missing: Checks,
    origin: Origin,
) -> UnsupportedError | None:
    """Return the error for a launch that does not support the diagnostics of a `with` block."""
    if missing and origin is Origin.SCOPE:
        return unsupported_checks_error(f"`with tile.sanitize` around `{kernel}`", missing, target)
    if requested and active_report() is not None and not supported.collects:
        return UnsupportedError(
            f"`{kernel}` runs on {target}, whose faults are raised and not collected in a report; "
            "collect=False, or TILE_BACKEND=interp on tiles (TILE_INTERP_LEVEL=tile)"
        )
    if active_trace() is not None and not supported.traces:
        return UnsupportedError(
            f"`{kernel}` was compiled for {target}, whose accesses are not recorded; `tile.trace` "
            "records launches of the interpreter on tiles: compile for target 'interp'"
        )
    return None


@functools.cache
def _warn_unchecked(target: Target, missing: Checks) -> None:
    warn(
        f"TILE_SANITIZE asks for checks that {target} does not do: {format_checks(missing)}. "
        "Launches there are not checked for these; TILE_BACKEND=interp does all of them, on tiles"
    )


@functools.cache
def _warn_ignored(name: str, target: Target) -> None:
    variable = Config.variables()[name].name
    warn(
        f"{variable} has no effect on launches on {target}: it is a setting of the interpreter"
        f"{'' if name in ON_TILES else ' at TILE_INTERP_LEVEL=thread'}"
    )
