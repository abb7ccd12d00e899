"""The descriptions of a compiled kernel that tools read: its stages, metadata and source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from tile.errors import UnsupportedError
from tile.frontend.python.source import DeviceFunction

TRITON_STAGES = {"ttir": "tile", "ttgir": "thread", "llir": "llvm"}
"""The stages of Triton, each with the stage here that it corresponds to."""


class Stages(dict[str, str | bytes]):
    """The texts of a kernel by stage; `TRITON_STAGES` can be looked up as well.

    absent: why there are no others, by stage: a lookup of these raises `UnsupportedError`.
    unfinished: functions that wait for other stages, and add them or the reason why not.
    """

    def __init__(self, texts: Mapping[str, str | bytes]) -> None:
        super().__init__(texts)
        self.absent: dict[str, str] = {}
        self.unfinished: dict[str, Callable[[], None]] = {}

    def finish(self, name: str) -> None:
        """Wait for a stage, if it is unfinished."""
        finish = self.unfinished.pop(name, None)
        if finish is not None:
            finish()

    def __missing__(self, name: str) -> str | bytes:
        if name in self.unfinished:
            self.finish(name)
            return self[name]
        if name in self.absent:
            raise UnsupportedError(self.absent[name])
        return self[TRITON_STAGES[name]]

    def __contains__(self, name: object) -> bool:
        self.finish(str(name))
        return super().__contains__(name) or super().__contains__(TRITON_STAGES.get(str(name)))

    def get(self, name: str, default: Any = None) -> Any:
        """Return the text of a stage, or `default` if there is none."""
        try:
            return self[name]
        except (KeyError, UnsupportedError):
            return default


class KernelMetadata(SimpleNamespace):
    """Facts about a kernel, as attributes."""

    def _asdict(self) -> dict[str, Any]:
        return dict(vars(self))

    @property
    def _fields(self) -> tuple[str, ...]:
        return tuple(vars(self))


@dataclass(frozen=True)
class KernelSource:
    """The function and types that a kernel was compiled from.

    fn: the jitted function, or None for a kernel of another process.
    signature: the type of each parameter, constants included.
    constants: the values of constants, by the path of the parameter: `(2,)`.
    """

    fn: DeviceFunction | None
    name: str
    signature: Mapping[str, Any]
    constants: Mapping[tuple[int, ...], Any]
    ext: str = "ttir"


class LazyDict:
    """The metadata of a launch, part of which is computed at the first `get`.

    metadata = LazyDict({"name": "add"})
    metadata.add(flops, (1024,))     # flops(1024) returns a dict
    metadata.get()
    """

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data = dict(data)
        self.extras: list[tuple[Callable[..., Mapping[str, Any]], tuple[Any, ...]]] = []

    def get(self) -> dict[str, Any]:
        """Return all of the metadata."""
        for function, arguments in self.extras:
            self.data.update(function(*arguments))
        self.extras.clear()
        return self.data

    def add(self, func: Callable[..., Mapping[str, Any]], args: tuple[Any, ...]) -> None:
        """Add the entries that `func(*args)` returns, which is called if they are needed."""
        self.extras.append((func, args))
