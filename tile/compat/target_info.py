"""`triton.language.target_info`: the target, as kernels ask for it when they are compiled."""

from __future__ import annotations

from tile.compat.driver import GPUTarget, driver
from tile.frontend.python.constexpr_function import constexpr_function


@constexpr_function
def current_target() -> GPUTarget:
    """Return the target of launches without arguments on another device."""
    target: GPUTarget = driver.active.get_current_target()
    return target


@constexpr_function
def is_cuda() -> bool:
    """Return True on NVIDIA's GPUs."""
    target: GPUTarget = driver.active.get_current_target()
    return target.backend == "cuda"


@constexpr_function
def cuda_capability_geq(major: int, minor: int = 0) -> bool:
    """Return True on an NVIDIA GPU of at least a compute capability."""
    target: GPUTarget = driver.active.get_current_target()
    return target.backend == "cuda" and int(target.arch) >= major * 10 + minor


@constexpr_function
def is_hip() -> bool:
    """Return False: there is no backend for AMD's GPUs."""
    return False


is_hip_cdna3 = is_hip_cdna4 = is_hip_gfx1250 = is_hip
