"""TorchInductor's Triton templates for flex attention, for tensors on a CPU.

TorchInductor writes flex attention for a CPU in C++, without gradients. Here it takes the templates
that it has for GPUs, with its configurations for an H100. So the interpreter runs these kernels,
and they can be compiled for sm_90a, without a GPU.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch._inductor import choices
from torch._inductor.kernel.flex import flex_attention as lowering
from torch._inductor.template_heuristics.triton import CUDAConfigHeuristic
from torch.nn.attention import flex_attention as frontend

H100 = SimpleNamespace(multi_processor_count=132, major=9, minor=0)
NO_DEVICE = "none"
apply_kernel_options: Any = frontend._apply_kernel_options


def kernel_options(*arguments: Any, **keywords: Any) -> dict[str, Any]:
    """Return the options of kernels, which store what gradients need."""
    options: dict[str, Any] = apply_kernel_options(*arguments, **keywords)
    options["OUTPUT_LOGSUMEXP"] |= torch.is_grad_enabled()
    return options


@contextmanager
def templates() -> Iterator[None]:
    """Let TorchInductor take its Triton templates for flex attention on a CPU."""
    function: Any = inspect.unwrap(lowering.flex_attention)
    code = function.__code__
    # The only constant of this text is what the device's type is compared with.
    assert code.co_consts.count("cpu") == 1, "TorchInductor chooses its templates in another way"
    constants = tuple(NO_DEVICE if one == "cpu" else one for one in code.co_consts)
    replaced = {
        (frontend, "_validate_device"): lambda *_: None,  # it refuses gradients
        (frontend, "_apply_kernel_options"): kernel_options,
        (torch.cuda, "get_device_capability"): lambda *_: (H100.major, H100.minor),
        (torch.cuda, "get_device_properties"): lambda *_: H100,
        (choices.InductorChoices, "get_config_heuristics"): lambda *_: CUDAConfigHeuristic(),
    }
    with ExitStack() as stack:
        for (owner, name), value in replaced.items():
            stack.enter_context(mock.patch.object(owner, name, value))
        function.__code__ = code.replace(co_consts=constants)
        stack.callback(setattr, function, "__code__", code)
        yield
