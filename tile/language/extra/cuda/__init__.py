"""Functions of the language for NVIDIA GPUs.

`gdc_wait` and `gdc_launch_dependents` order kernels whose launches overlap (programmatic dependent
launch). `tile` launches a kernel when the one before it in the stream is complete, in which case
the PTX ISA defines both as doing nothing; so they emit nothing.
"""

from __future__ import annotations

from tile.ir.builder import Builder
from tile.language.core.builtin import builtin
from tile.language.extra import libdevice

__all__ = ["gdc_launch_dependents", "gdc_wait", "libdevice"]


@builtin
def gdc_wait(build: Builder) -> None:
    """Wait until the kernels that this launch depends on are complete, which they are."""


@builtin
def gdc_launch_dependents(build: Builder) -> None:
    """Allow the kernels that depend on this launch to start, which they do when it is complete."""


for _function in (gdc_wait, gdc_launch_dependents):
    _function.name = f"extra.cuda.{_function.name}"
