"""The driver and backend objects by which libraries ask for the device and its properties."""

from __future__ import annotations

import functools
import importlib
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tile import backends as tile_backends
from tile._lazy import lazy_import
from tile.backends.base import Options, Target
from tile.backends.nvptx.architectures import native
from tile.config import config
from tile.errors import TileError, UnsupportedError
from tile.runtime.autotuning.do_bench import do_bench
from tile.runtime.kernel_cache import compiler_identity
from tile.runtime.target_selection import DEFAULT

if TYPE_CHECKING:
    from tile.backends.nvptx.driver import device_properties
else:
    device_properties = lazy_import("tile.backends.nvptx.driver", "device_properties")

NVPTX = "nvptx"
WARP_SIZE = 32
# Triton's name of a backend, by the one of `tile`.
TRITON_BACKENDS = {NVPTX: "cuda", DEFAULT: "cpu", "opencl": "opencl"}
CACHE_BYTES = 256 << 20  # written before each timed run, to flush the L2 cache

# The interpreter has no limits. These are an H100's, so that libraries that choose by them choose
# what they would on that.
INTERPRETER_PROPERTIES: Mapping[str, int] = {
    "max_shared_mem": 232448,
    "max_num_regs": 65536,
    "warpSize": WARP_SIZE,
    "sm_clock_rate": 1980000,  # kHz
    "mem_clock_rate": 2619000,  # kHz
    "mem_bus_width": 5120,
}


@dataclass(frozen=True)
class GPUTarget:
    """A target: a backend, an architecture (90 for CUDA's 9.0; 0 for a CPU), lanes of a warp."""

    backend: str
    arch: int | str
    warp_size: int


class Language(Enum):
    """The language of a source."""

    TRITON = 0


class BaseBackend(ABC):
    """A compiler for some targets."""

    supports_native_tensor_specialization = True
    binary_ext = "ptx"

    def __init__(self, target: GPUTarget) -> None:
        if not self.supports_target(target):
            raise UnsupportedError(f"{type(self).__name__} does not compile for {target}")
        self.target = target

    @staticmethod
    @abstractmethod
    def supports_target(target: GPUTarget) -> bool:
        """Return True if it compiles for a target."""

    @abstractmethod
    def hash(self) -> str:
        """Return text that differs if the compiler does."""

    @abstractmethod
    def parse_options(self, options: dict[str, Any]) -> Any:
        """Return options as attributes."""

    @staticmethod
    def parse_attr(desc: str) -> list[list[Any]]:
        """Return the attributes of a specialization: `"D"` is divisibility by 16."""
        return [["tt.divisibility", 16]] if "D" in desc else []


class DriverBase(ABC):
    """A driver of devices."""

    @classmethod
    @abstractmethod
    def is_active(cls) -> bool:
        """Return True if kernels run on its device by default."""

    @abstractmethod
    def get_current_target(self) -> GPUTarget:
        """Return the target of the current device."""

    @abstractmethod
    def get_active_torch_device(self) -> Any:
        """Return the current device, as torch has it."""

    @abstractmethod
    def get_benchmarker(self) -> Callable[..., Any]:
        """Return the function that times kernels, such as `triton.testing.do_bench`."""


class Benchmarker(Protocol):
    """A function that times a call, as `triton.testing.do_bench`."""

    def __call__(self, kernel_call: Callable[[], object], *, quantiles: list[float]) -> Any:
        """Return the quantiles of the times in ms."""


class GPUDriver(DriverBase):
    """A driver of devices that torch knows as `cuda`."""


def default_target() -> Target:
    """Return the target of launches: by the setting, else a GPU if there is one."""
    return _resolved(config.backend or _default_backend())


def _resolved(text: str) -> Target:
    target = Target.parse(text)
    if target.backend == NVPTX and not target.arch:
        target = Target(NVPTX, _architecture_in_torch())
    return tile_backends.get(target.backend).resolve(target, ())


def _architecture_in_torch() -> str:
    """Return the architecture of PyTorch's current device; an empty string if it uses none yet.

    `cuda-python`, which tells it too, takes longer to import than a kernel to compile, and launches
    by TorchInductor need it for nothing else.
    """
    torch = sys.modules.get("torch")
    cuda = getattr(torch, "cuda", None)
    if cuda is None or torch is None or torch.version.cuda is None or not cuda.is_initialized():
        return ""
    return native(*cuda.get_device_capability())


@functools.cache
def _default_backend() -> str:
    """Return the backend of the machine: nvptx if it has a GPU for that, else the interpreter."""
    try:
        _resolved(NVPTX)
    except TileError:
        return DEFAULT
    return NVPTX


def gpu_target(target: Target) -> GPUTarget:
    """Return a target as Triton describes it."""
    digits = "".join(filter(str.isdecimal, target.arch)) if target.backend == NVPTX else ""
    return GPUTarget(TRITON_BACKENDS[target.backend], int(digits or 0), WARP_SIZE)


def tile_target(target: GPUTarget) -> Target:
    """Return the target of `tile` for one that Triton describes."""
    name = next((one for one, triton in TRITON_BACKENDS.items() if triton == target.backend), None)
    if name is None:
        raise UnsupportedError(
            f"tile has no backend for {target.backend!r}; it has "
            f"{', '.join(TRITON_BACKENDS.values())}"
        )
    if name != NVPTX:
        return _resolved(name)
    if isinstance(target.arch, int):
        return _resolved(f"{NVPTX}:{native(*divmod(target.arch, 10))}")
    return _resolved(f"{NVPTX}:sm_{target.arch}")


class HostEvent:
    """A point in time, for calls that return when their work is done."""

    def __init__(self, enable_timing: bool = False) -> None:
        self._time = 0.0

    def record(self, stream: object = None) -> None:
        self._time = time.perf_counter()

    def elapsed_time(self, end: HostEvent) -> float:
        """Return the ms from this event to another."""
        return (end._time - self._time) * 1e3

    def synchronize(self) -> None:
        """Return at once."""


HOST_INTERFACE = SimpleNamespace(
    Event=HostEvent,
    synchronize=lambda device=None: None,
    current_device=lambda: 0,
    device_count=lambda: 1,
    is_available=lambda: False,
)
"""What torch's modules of devices offer, for kernels on the host."""


def _torch() -> ModuleType:
    return importlib.import_module("torch")


@dataclass(frozen=True)
class DeviceUtils:
    """Questions about devices."""

    def get_device_properties(self, device: int) -> dict[str, int]:
        """Return the properties of a device, as numbers by name."""
        if default_target().backend == NVPTX:
            return dict(device_properties(device))
        return {**INTERPRETER_PROPERTIES, "multiprocessor_count": os.cpu_count() or 1}


@dataclass(frozen=True)
class TileDriver(GPUDriver):
    """The driver of the devices that `tile` runs on."""

    utils: DeviceUtils = field(default_factory=DeviceUtils)

    @classmethod
    def is_active(cls) -> bool:
        return True

    def get_current_target(self) -> GPUTarget:
        return gpu_target(default_target())

    def _on_gpu(self) -> bool:
        return default_target().backend == NVPTX

    def get_device_interface(self) -> Any:
        """Return torch's module of the device, or the host's equivalent."""
        return _torch().cuda if self._on_gpu() else HOST_INTERFACE

    def get_active_torch_device(self) -> Any:
        kind = f"cuda:{self.get_current_device()}" if self._on_gpu() else "cpu"
        return _torch().device(kind)

    def get_current_device(self) -> int:
        """Return the number of the current device."""
        return int(self.get_device_interface().current_device())

    def set_current_device(self, device: int) -> None:
        """Make a device the current one."""
        if self._on_gpu():
            _torch().cuda.set_device(device)

    def get_current_stream(self, device: int | None = None) -> int:
        """Return the current stream's handle; 0 for the host."""
        return int(_torch().cuda.current_stream(device).cuda_stream) if self._on_gpu() else 0

    def get_device_capability(self, device: int | None = None) -> tuple[int, int]:
        """Return the compute capability, such as (9, 0); (0, 0) for the host."""
        major, minor = divmod(int(self.get_current_target().arch), 10)
        return major, minor

    def get_benchmarker(self) -> Callable[..., Any]:
        return do_bench

    def get_empty_cache_for_benchmark(self) -> Any:
        """Return memory to write between timed runs, as large as a cache."""
        if self._on_gpu():
            return _torch().empty(CACHE_BYTES // 4, dtype=_torch().int32, device="cuda")
        return np.empty(0, np.int32)

    def clear_cache(self, cache: Any) -> None:
        """Write the memory."""
        cache.fill(0) if isinstance(cache, np.ndarray) else cache.zero_()

    def map_python_to_cpp_type(self, ty: str) -> str:
        """Return the C++ type of a type in signatures."""
        if ty.startswith("*"):
            return "CUdeviceptr"
        kinds = {"i": "int", "u": "uint"}
        if ty[:1] in kinds and ty[1:].isdecimal():
            return f"{kinds[ty[0]]}{max(8, int(ty[1:]))}_t"
        return "float" if ty == "fp32" else "double"


class TileBackend(BaseBackend):
    """The compiler of `tile`."""

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        return target.backend in TRITON_BACKENDS.values()

    def hash(self) -> str:
        return f"tile {self.target} {compiler_identity()}"

    def parse_options(self, options: dict[str, Any]) -> SimpleNamespace:
        chosen = Options.of({k: v for k, v in options.items() if k in Options.names()})
        return SimpleNamespace(**{**options, **vars(chosen)}, extern_libs=())

    def add_stages(self, stages: dict[str, Any], options: object, language: object = None) -> None:
        """Raise `UnsupportedError`: the stages of `tile` cannot be replaced."""
        raise UnsupportedError("the stages of tile are passes of its own IR; see docs/passes.md")

    def load_dialects(self, context: object) -> None:
        """Do nothing: there are no dialects."""

    def get_module_map(self) -> dict[str, ModuleType]:
        """Return an empty map: the functions of libdevice are the same for all devices."""
        return {}

    def pack_metadata(self, metadata: Any) -> tuple[int, ...]:
        """Return the numbers of warps, CTAs and bytes of shared memory."""
        return metadata.num_warps, metadata.num_ctas, metadata.shared


@dataclass(frozen=True)
class Backend:
    """The compiler and the driver of a backend."""

    compiler: type[BaseBackend]
    driver: type[DriverBase]


def _runs_on_gpu() -> bool:
    """Return True if launches are for a GPU by default.

    In a process that was forked from one that uses CUDA, the driver refuses to start (CUDA C++
    Programming Guide, "Initialization"). TorchInductor's workers are such processes: they compile
    for the device of their parent, and ask here whether it is a GPU. There PyTorch knows.
    """
    if config.backend:
        return default_target().backend == NVPTX
    torch = sys.modules.get("torch")
    in_torch = torch is not None and torch.version.cuda is not None and torch.cuda.is_available()
    return in_torch or _default_backend() == NVPTX


class _GpuOnly(TileDriver):
    @classmethod
    def is_active(cls) -> bool:
        return _runs_on_gpu()


class _HostOnly(TileDriver):
    @classmethod
    def is_active(cls) -> bool:
        return not _runs_on_gpu()


backends: dict[str, Backend] = {
    "nvidia": Backend(TileBackend, _GpuOnly),
    "cpu": Backend(TileBackend, _HostOnly),
}


class DriverConfig:
    """The drivers in use: `default` by the machine, and `active`, which a program may set."""

    def __init__(self) -> None:
        self._active: DriverBase | None = None
        self._default = TileDriver()

    @property
    def default(self) -> Any:
        """The driver of the machine."""
        return self._default

    @property
    def active(self) -> Any:
        """The driver in use."""
        return self._default if self._active is None else self._active

    def set_active(self, driver: Any) -> None:
        """Use another driver. Launches go to the devices of their arguments all the same."""
        self._active = driver

    def reset_active(self) -> None:
        """Use the driver of the machine again."""
        self._active = None


driver = DriverConfig()
