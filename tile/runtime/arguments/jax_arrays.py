"""JAX's arrays as arguments, without importing JAX: the caller has imported it.

They are immutable: kernels read them in place, and `tile.jax.call` returns new ones.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from tile.errors import ArgumentTypeError
from tile.runtime.arguments.device_arrays import Array, DeviceArray

ROOTS = frozenset({"jax", "jaxlib"})


def is_jax(kind: type) -> bool:
    """Return True if `kind` is JAX's array, or what stands for one while JAX traces a function."""
    return str(kind.__module__).partition(".")[0] in ROOTS and hasattr(kind, "aval")


def notes_on_read_only() -> list[str]:
    """Return the notes of an error about a read-only array: what to do if it is JAX's."""
    return ["JAX's arrays are; tile.jax.call returns new ones"] if "jax" in sys.modules else []


def jax_array(value: Any, label: str) -> Array | DeviceArray:
    """Return JAX's memory as a read-only NumPy array on the CPU, else as a `DeviceArray`."""
    if isinstance(value, sys.modules["jax"].core.Tracer):
        raise ArgumentTypeError(
            f"{label} is a {type(value).__name__}, which stands for an array while JAX traces a "
            "function",
            notes=["call the kernel by tile.jax.call, which makes the launch part of the program"],
        )
    devices = sorted(value.devices(), key=lambda one: int(one.id))
    if len(devices) > 1:
        raise ArgumentTypeError(
            f"{label} is an array of JAX on {len(devices)} devices; launch on its parts, as "
            "jax.shard_map does"
        )
    if devices[0].platform == "cpu":
        host: Array = np.asarray(value)
        return host
    if devices[0].platform != "gpu":
        raise ArgumentTypeError(
            f"{label} is an array of JAX on a {devices[0].platform}, where no kernels run"
        )
    value.block_until_ready()  # JAX does not name its streams
    dtype = np.dtype(value.dtype)
    return DeviceArray(
        source=value,
        device="cuda",
        dtype=dtype,
        shape=value.shape,
        strides=np.empty((0, *value.shape), dtype).strides[1:],
        address=value.unsafe_buffer_pointer(),
        fetch=lambda: np.asarray(value),
        put=lambda host: None,
        writeable=False,
    )
