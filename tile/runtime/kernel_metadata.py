"""The descriptions of a compiled kernel that tools read: its stages, metadata and source.

The names are Triton's.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from tile.backends.base import Artifact, Executable, Options, Target
from tile.backends.capabilities import KernelInfo
from tile.errors import UnsupportedError
from tile.frontend.python.source import DeviceFunction
from tile.runtime.arguments.adapt import retuple
from tile.runtime.binding import OPTION_DEFAULTS
from tile.runtime.specialize import Leaf

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
        stage = TRITON_STAGES.get(name, "")
        if not super().__contains__(stage):
            raise KeyError(f"{name}: the stages of this kernel are {', '.join(self)}")
        return self[stage]

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


WARP_SIZE = 32
REGISTER_BYTES = 4


class KernelDescription:
    """The part of a compiled kernel that describes it.

    - `src`: the function, signature and constants. `hash`: identifies the compiled code.
    - `n_regs`, `n_spills`, `n_max_threads`: of `info`, 32-bit registers and threads.
    """

    name: str
    target: Target
    options: Options
    artifact: Artifact
    asm: Stages
    leaves: Mapping[str, Leaf]
    signature: Mapping[str, Any]
    constants: Mapping[str, Any]
    fn: DeviceFunction | None

    if TYPE_CHECKING:

        @property
        def executable(self) -> Executable: ...
        @property
        def info(self) -> KernelInfo: ...

    @functools.cached_property
    def hash(self) -> str:
        """A hash of the text of all stages."""
        digest = hashlib.sha256()
        for stage, text in self.asm.items():
            digest.update(f"{stage}\n".encode())
            digest.update(text if isinstance(text, bytes) else text.encode())
        return digest.hexdigest()

    @property
    def metadata(self) -> KernelMetadata:
        """Name, target, signature, constants, written parameters, and options as attributes.

        Also `hash`, `shared` (bytes of shared memory), `warp_size` and `cluster_dims`.
        """
        facts = {
            n: getattr(self, n)
            for n in ("name", "target", "signature", "constants", "written", "hash")
        }
        options = {n: getattr(self.options, n) for n in OPTION_DEFAULTS}
        shared = self.artifact.launch_metadata.get("shared_bytes", 0)
        cluster = (self.options.num_ctas, 1, 1)
        return KernelMetadata(
            **facts, **options, shared=shared, cluster_dims=cluster, warp_size=WARP_SIZE
        )

    @property
    def packed_metadata(self) -> tuple[int, ...]:
        """The numbers of warps, CTAs and bytes of shared memory, and the extents of a cluster."""
        metadata = self.metadata
        return (metadata.num_warps, metadata.num_ctas, metadata.shared, *metadata.cluster_dims)

    @property
    def src(self) -> KernelSource:
        """The function, signature and constants that the kernel was compiled from."""
        names = list(self.leaves)
        constants: dict[tuple[int, ...], Any] = {
            (names.index(name),): value for name, value in self.constants.items()
        }
        types = {name: _plain_type(kind) for name, kind in self.signature.items()}
        return KernelSource(self.fn, self.name, types, constants)

    @property
    def n_regs(self) -> int | None:
        """32-bit registers of one thread; None where the backend has no registers."""
        return self.info.registers

    @property
    def n_spills(self) -> int | None:
        """Registers of one thread that are in local memory, with its stack."""
        local = self.info.local_bytes
        return None if local is None else local // REGISTER_BYTES

    @property
    def n_max_threads(self) -> int | None:
        """The most threads of one program that the registers permit."""
        return self.info.max_threads

    @property
    def function(self) -> Executable:
        """The loaded kernel."""
        return self.executable

    module = function

    @property
    def metadata_group(self) -> Mapping[str, str]:
        """No files, by the names of stages: an entry of the cache is one file, and `asm` has them.

        Programs written for Triton look here for files of its intermediate representations.
        """
        return {}

    def launch_metadata(self, grid: Any, stream: object, *args: Any) -> LazyDict:
        """Return the metadata of a launch: the name, and what `launch_metadata` of `jit` adds.

        args: the values of all parameters, in order.
        """
        metadata = LazyDict({"name": self.name, "function": self, "stream": stream})
        describe = getattr(self.fn, "launch_metadata", None)
        if describe is not None:
            arguments = dict(zip(self.leaves, args, strict=False))
            metadata.add(describe, (grid, self.metadata, arguments))
        return metadata


def _plain_type(kind: Any) -> Any:
    """Return a type of a signature without divisibility, as Triton has it."""
    if isinstance(kind, tuple):
        return retuple(kind, list(map(_plain_type, kind)))
    return kind.partition(":")[0]
