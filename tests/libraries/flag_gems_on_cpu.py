"""FlagGems' operators for tensors on the CPU, which the library itself has no device for.

It asks for a vendor and takes the vendor's module of torch: with `GEMS_VENDOR=nvidia` that is
`torch.cuda`, also without a GPU. The few functions that it calls of that module answer for the CPU
here, and the operators are registered for CPUs. No file of the library is changed.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import torch

PROPERTIES = SimpleNamespace(
    name="cpu", multi_processor_count=os.cpu_count(), major=9, minor=0, total_memory=1 << 34
)
ANSWERS: Mapping[str, Any] = {
    "current_device": lambda: 0,
    "default_generators": (torch.default_generator,),
    "device": lambda device=None: contextlib.nullcontext(),
    "device_count": lambda: 1,
    "get_device_capability": lambda device=None: (PROPERTIES.major, PROPERTIES.minor),
    "get_device_name": lambda device=None: PROPERTIES.name,
    "get_device_properties": lambda device=None: PROPERTIES,
    "synchronize": lambda device=None: None,
}


@contextlib.contextmanager
def answering_for_the_cpu() -> Iterator[None]:
    """Replace the functions of `torch.cuda` that the library calls."""
    with mock.patch.multiple(torch.cuda, **ANSWERS):
        yield


def library() -> ModuleType:
    """Import FlagGems, and set it to register operators for CPUs."""
    with answering_for_the_cpu():
        import flag_gems

    flag_gems.runtime.device.dispatch_key = "CPU"
    return flag_gems


@contextlib.contextmanager
def operators() -> Iterator[None]:
    """Use the library's operators in place of torch's."""
    with answering_for_the_cpu(), library().use_gems():
        yield
