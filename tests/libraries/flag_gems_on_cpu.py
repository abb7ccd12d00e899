"""FlagGems' operators for tensors on the CPU, which the library itself has no device for.

It asks for a vendor and takes the vendor's module of torch: with `GEMS_VENDOR=nvidia` that is
`torch.cuda`, also without a GPU. The few functions that it calls of that module answer for the CPU
here, and the operators are registered for CPUs. No file of the library is changed.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Mapping
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import torch

PROPERTIES = SimpleNamespace(
    name="cpu", multi_processor_count=os.cpu_count(), major=9, minor=0, total_memory=1 << 34
)


class PhiloxState:
    """The state of a generator as CUDA has it: a seed, and the numbers that were drawn."""

    def __init__(self, seed: int = 0) -> None:
        self._state = torch.tensor([seed, 0], dtype=torch.int64)

    def get_state(self) -> torch.Tensor:
        """Return a copy of the state, as bytes."""
        return self._state.clone().view(torch.uint8)

    def set_state(self, state: torch.Tensor) -> None:
        """Take the state from bytes."""
        self._state = state.clone().view(torch.int64)


ANSWERS: Mapping[str, Any] = {
    "current_device": lambda: 0,
    "default_generators": (PhiloxState(),),
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
    """Import FlagGems, and set it to register operators for CPUs and to take their tensors."""
    with answering_for_the_cpu():
        import flag_gems

    flag_gems.runtime.device.dispatch_key = "CPU"
    flag_gems.runtime.device.name = "cpu"
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] == "flag_gems" and vars(module).get("device") == "cuda":
            module.device = "cpu"  # many modules copied the name
    # It looks for a tensor that is not on the CPU by Python's `filter`, and requires one.
    sys.modules["flag_gems.ops.where"].filter = lambda keep, devices: devices
    return flag_gems


@contextlib.contextmanager
def operators() -> Iterator[None]:
    """Use the library's operators in place of torch's, for tensors that say they are on a GPU."""
    on_gpu = mock.patch.object(torch.Tensor, "is_cuda", property(lambda tensor: True))
    with answering_for_the_cpu(), on_gpu, library().use_gems():
        yield
