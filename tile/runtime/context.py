"""Which backend a launch runs on: the setting in force, else what the arguments ask for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from tile.backends import registry
from tile.backends.base import Target
from tile.brief import brief
from tile.config import config
from tile.errors import ArgumentTypeError, BackendError
from tile.runtime.device_arrays import DeviceArray

DEFAULT = "interp"

# Which backend runs where an array lies, by the kind of its device.
BACKEND_OF_DEVICE = {"cuda": "nvptx", "opencl": "opencl"}
OPENCL = "opencl"  # the backend of many devices: which one is a part of its targets


_INTERPRETED: ContextVar[bool] = ContextVar("tile_interpreted", default=False)


@contextmanager
def backend(name: str) -> Iterator[None]:
    """Run kernels on the backend `name` inside the `with` block, whatever their arguments are.

    `name` may have an architecture, as in `"nvptx:sm_90a"`. Holds for the current thread or task;
    inside `tile.trace` and under `tile check`, `tile trace` and `tile debug` kernels run on the
    interpreter in any case. Raises `BackendError` for a backend that does not exist.
    """
    if not isinstance(name, str):
        raise ArgumentTypeError(f"tile.backend takes a name such as 'interp', not {brief(name)}")
    registry.require(Target.parse(name).backend)
    if _INTERPRETED.get():
        yield
        return
    with config.scope(backend=name):
        yield


@contextmanager
def interpreted(level: str) -> Iterator[None]:
    """Run kernels on the interpreter inside the `with` block, whatever `backend` says in there."""
    token = _INTERPRETED.set(True)
    try:
        with config.scope(backend=DEFAULT, interp_level=level):
            yield
    finally:
        _INTERPRETED.reset(token)


def target_text(values: Iterable[Any]) -> str:
    """The target of a launch with these adapted arguments, as text that `Target.parse` reads.

    Raises `BackendError` when arrays lie in the memory of a device that no backend of this version
    runs on.
    """
    wanted = next(filter(None, map(_wanted, values)), "") if _is_open(config.backend) else ""
    return leveled(wanted or config.backend or DEFAULT)


def _is_open(target: str) -> bool:
    """Whether arguments have a say in where a launch runs."""
    return target in ("", OPENCL)


def target_of(values: Iterable[Any]) -> Target:
    """The target of a launch with these adapted arguments, resolved by its backend."""
    values = list(values)
    target = Target.parse(target_text(values))
    return registry.get(target.backend).resolve(target, _arrays(values))


def _arrays(values: Iterable[Any]) -> Iterator[DeviceArray]:
    for value in values:
        if type(value) is DeviceArray:
            yield value
        elif isinstance(value, tuple):
            yield from _arrays(value)


def leveled(target: str) -> str:
    """The target, with the machine whose threads the interpreter shall run, if settings ask so."""
    if target == DEFAULT and config.interp_level == "thread":
        return f"{DEFAULT}:{config.interp_target}"
    if target == DEFAULT and config.interp_level == "steps":
        return f"{DEFAULT}:steps"
    if target == OPENCL and config.opencl_device:
        return f"{OPENCL}:@{config.opencl_device}"
    return target


def _wanted(value: Any) -> str:
    """The backend that an argument asks for, or nothing."""
    if type(value) is DeviceArray:
        kind, _, which = value.device.partition(":")
        name = BACKEND_OF_DEVICE.get(kind, "")
        if config.backend and name != config.backend:
            return ""
        if name and name not in registry.names():
            raise BackendError(
                f"arrays in the memory of a {kind.upper()} device are for the {name} backend, "
                "which this version does not have; set TILE_BACKEND=interp, or use "
                "`with tile.backend('interp'):`, to run on copies of them on the CPU"
            )
        return f"{name}:{which}" if name == OPENCL and which else name
    if isinstance(value, tuple):
        return next(filter(None, map(_wanted, value)), "")
    return ""
