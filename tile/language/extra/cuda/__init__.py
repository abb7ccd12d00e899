"""Functions of the language for NVIDIA GPUs."""

from tile.language.extra import libdevice

__all__ = ["libdevice"]
