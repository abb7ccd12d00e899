"""Select the backend of a launch: the active setting, or else the device of the arguments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from tile import backends
from tile.backends.base import Target
from tile.config import config
from tile.errors import ArgumentTypeError, BackendError
from tile.instrumentation import Scoped
from tile.runtime.arguments.device_arrays import DeviceArray
from tile.short_repr import short_repr

DEFAULT = "interp"

# The backend for an array in device memory, by the kind of device.
BACKEND_OF_DEVICE = {"cuda": "nvptx", "opencl": "opencl"}
OPENCL = "opencl"  # this backend has several devices, so its targets name the device


_INTERPRETED = Scoped("tile_interpreted", default=False)


@contextmanager
def backend(name: str) -> Iterator[None]:
    """Run kernels on the backend `name` inside the `with` block, whatever their arguments are.

    `name` may include an architecture, as in `"nvptx:sm_90a"`. Applies to the current thread or
    task. Inside `tile.trace` and under `tile check`, `tile trace` and `tile debug`, kernels always
    run on the interpreter. Raises `BackendError` for an unknown backend.
    """
    if not isinstance(name, str):
        raise ArgumentTypeError(
            f"tile.backend takes a name such as 'interp', not {short_repr(name)}"
        )
    backends.require(Target.parse(name).backend)
    if _INTERPRETED():
        yield
        return
    with config.scope(backend=name):
        yield


@contextmanager
def interpreted(level: str) -> Iterator[None]:
    """Run kernels on the interpreter inside the `with` block, overriding `backend`."""
    with _INTERPRETED.scope(True), config.scope(backend=DEFAULT, interp_level=level):
        yield


def target_text(values: Iterable[Any]) -> str:
    """Return the target of a launch with these adapted arguments, as text for `Target.parse`.

    Raises `BackendError` if an array is in the memory of a device that no backend supports.
    """
    inferred = ""
    if config.backend in ("", OPENCL):  # the arguments may decide
        inferred = next(filter(None, map(_backend_of, values)), "")
    return qualified_target(inferred or config.backend or DEFAULT)


def target_of(values: Iterable[Any]) -> Target:
    """Return the target of a launch with these adapted arguments, resolved by its backend."""
    values = list(values)
    target = Target.parse(target_text(values))
    return backends.get(target.backend).resolve(target, _arrays(values))


def _arrays(values: Iterable[Any]) -> Iterator[DeviceArray]:
    for value in values:
        if type(value) is DeviceArray:
            yield value
        elif isinstance(value, tuple):
            yield from _arrays(value)


def qualified_target(target: str) -> str:
    """Return the target text, with the interpreter's level or the OpenCL device from settings."""
    if target == DEFAULT and config.interp_level == "thread":
        return f"{DEFAULT}:{config.interp_target}"
    if target == DEFAULT and config.interp_level == "steps":
        return f"{DEFAULT}:steps"
    if target == OPENCL and config.opencl_device:
        return f"{OPENCL}:@{config.opencl_device}"
    return target


def _backend_of(value: Any) -> str:
    """Return the backend for the device of an argument, or an empty string."""
    if type(value) is DeviceArray:
        kind, _, device = value.device.partition(":")
        name = BACKEND_OF_DEVICE.get(kind, "")
        if config.backend and name != config.backend:
            return ""
        if name and name not in backends.names():
            raise BackendError(
                f"arrays in the memory of a {kind.upper()} device are for the {name} backend, "
                "which this version does not have; set TILE_BACKEND=interp, or use "
                "`with tile.backend('interp'):`, to run on copies of them on the CPU"
            )
        return f"{name}:{device}" if name == OPENCL and device else name
    if isinstance(value, tuple):
        return next(filter(None, map(_backend_of, value)), "")
    return ""
