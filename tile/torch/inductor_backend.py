"""`tile.torch.inductor`: let TorchInductor write its kernels for `tile`."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import torch
from torch.utils import _triton

from tile.compat import LATEST, install_as_triton
from tile.compat.environment import extend_path
from tile.errors import TritonLoadedError
from tile.tracebacks import public_function

# A module of TorchInductor, and a name in it that is a function if it found Triton, else a class.
HINTS = "torch._inductor.runtime.hints"
DESCRIBES = "AttrsDescriptorWrapper"


@public_function
def inductor(*, version: str = LATEST, cpu: bool | None = None) -> None:
    """Let TorchInductor use `tile` in place of Triton, in this process and its workers.

    version: the version of Triton that `tile` reports, as of `tile.compat.install_as_triton`.
    cpu: also compile for the CPU by kernels, which run on the interpreter with its checks, instead
        of by C++; by default where PyTorch has no GPU.

    It is for the rest of the process; a second call changes only `cpu`. Call it before anything
    imports Triton, before the first `torch.compile`, and before `torch._inductor` is imported.
    Raises `TritonLoadedError` afterwards.

        tile.torch.inductor()
        model = torch.compile(model)
    """
    hints = sys.modules.get(HINTS)
    if isinstance(getattr(hints, DESCRIBES, None), type):
        raise TritonLoadedError(
            "TorchInductor has been loaded without Triton, and remembers that; call "
            "tile.torch.inductor() before the first torch.compile"
        )
    install_as_triton(version)
    extend_path()
    for name, function in vars(_triton).items():
        if name.startswith("has_triton"):  # PyTorch remembers that there was none
            getattr(function, "cache_clear", _nothing)()
    config: Any = importlib.import_module("torch._inductor.config")
    if not torch.cuda.is_available() if cpu is None else cpu:
        config.cpu_backend = "triton"
    elif cpu is not None:
        config.cpu_backend = "cpp"


def _nothing() -> None:
    """Do nothing, for functions that remember nothing."""
