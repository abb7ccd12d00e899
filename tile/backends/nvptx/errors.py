"""Status codes of the driver as errors that say what to do."""

from __future__ import annotations

from typing import Any

from cuda.bindings import driver as cuda

from tile.errors import BackendError, ExecutionError, OutOfResourcesError, TileError

_R = cuda.CUresult

_OUT_OF_RESOURCES = frozenset({_R.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES, _R.CUDA_ERROR_OUT_OF_MEMORY})

# Faults of a running kernel, which the next call of any kind reports.
_ASYNCHRONOUS = frozenset(
    {
        _R.CUDA_ERROR_ILLEGAL_ADDRESS,
        _R.CUDA_ERROR_MISALIGNED_ADDRESS,
        _R.CUDA_ERROR_ILLEGAL_INSTRUCTION,
        _R.CUDA_ERROR_INVALID_ADDRESS_SPACE,
        _R.CUDA_ERROR_INVALID_PC,
        _R.CUDA_ERROR_HARDWARE_STACK_ERROR,
        _R.CUDA_ERROR_ASSERT,
        _R.CUDA_ERROR_LAUNCH_FAILED,
        _R.CUDA_ERROR_LAUNCH_TIMEOUT,
        _R.CUDA_ERROR_ECC_UNCORRECTABLE,
    }
)

# Faults of a machine or its driver, and their remedies.
_MACHINE = {
    _R.CUDA_ERROR_NO_DEVICE: (
        "the NVIDIA driver finds no device; CUDA_VISIBLE_DEVICES may hide it, and in a container "
        "it must be passed in"
    ),
    _R.CUDA_ERROR_STUB_LIBRARY: (
        "libcuda is the stub of a CUDA toolkit, which programs are only linked with; the one of "
        "the driver must be found before it"
    ),
    _R.CUDA_ERROR_SYSTEM_DRIVER_MISMATCH: (
        "libcuda and the NVIDIA driver of the system are of different versions; after an update "
        "of the driver the machine must be restarted"
    ),
    _R.CUDA_ERROR_UNSUPPORTED_PTX_VERSION: (
        "the NVIDIA driver is older than the PTX that this architecture needs; update the driver"
    ),
    _R.CUDA_ERROR_NO_BINARY_FOR_GPU: "the code is for another architecture than the device's",
    _R.CUDA_ERROR_DEVICE_UNAVAILABLE: "the device is taken by another process alone",
}


def error(status: Any, doing: str) -> TileError:
    """Return the error for an unsuccessful status of a call that was `doing` something."""
    _, text = cuda.cuGetErrorString(status)
    description = text.decode() if isinstance(text, bytes) else str(text)
    code = getattr(status, "name", str(status))
    if status in _MACHINE:
        return BackendError(f"{doing} failed: {_MACHINE[status]} ({code})")
    if status in _ASYNCHRONOUS:
        return ExecutionError(
            f"{doing} found that a kernel failed on the device: {description} ({code})",
            notes=[
                "launches do not wait, so it may be any kernel that was launched before, of any "
                "library; with CUDA_LAUNCH_BLOCKING=1 each launch waits for its own",
                "the process cannot use the device any more; run the program under "
                "TILE_BACKEND=interp, or compute-sanitizer, to find the line",
            ],
        )
    message = f"{doing} failed: {description} ({code})"
    return OutOfResourcesError(message) if status in _OUT_OF_RESOURCES else ExecutionError(message)
