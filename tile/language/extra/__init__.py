"""Functions of the language that follow a vendor's library: `libdevice`, and NVIDIA's `cuda`."""

from tile._lazy import LazyNames

_MODULES = ("cuda", "libdevice")
__getattr__ = LazyNames(__name__, {name: f"{__name__}.{name}" for name in _MODULES})
__dir__ = __getattr__.names

__all__ = ["cuda", "libdevice"]
