"""Properties of a device by the names that Triton's driver gives them."""

from __future__ import annotations

from cuda.bindings import driver as cuda

from tile.backends.nvptx.driver import device

_Attribute = cuda.CUdevice_attribute
_ATTRIBUTES = {
    "max_shared_mem": _Attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
    "max_num_regs": _Attribute.CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK,
    "multiprocessor_count": _Attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
    "warpSize": _Attribute.CU_DEVICE_ATTRIBUTE_WARP_SIZE,
    "sm_clock_rate": _Attribute.CU_DEVICE_ATTRIBUTE_CLOCK_RATE,
    "mem_clock_rate": _Attribute.CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE,
    "mem_bus_width": _Attribute.CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH,
}


def device_properties(ordinal: int) -> dict[str, int]:
    """Return the properties of a device. Raises `BackendError` if there is no such device."""
    asked = device(ordinal)
    return {name: asked.attribute(attribute) for name, attribute in _ATTRIBUTES.items()}
