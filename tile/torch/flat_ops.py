"""Operators of PyTorch with flat schemas.

PyTorch's dispatcher calls a Python function for an operator in about 4 us if each tensor and number
is an argument of its own. With lists it takes 13 us, and `torch.library.custom_op` takes 40 us
(torch 2.11).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

NAMESPACE = "tile"
LAUNCHES = torch.library.Library(NAMESPACE, "FRAGMENT")
"""The operators of launches, which live as long as the process."""

# The kernels address elements by the strides that the program has passed, so TorchInductor must not
# choose other layouts for the arguments.
TAGS = (torch.Tag.needs_exact_strides, torch.Tag.pt2_compliant_tag)


def define(
    library: torch.library.Library,
    schema: str,
    implementation: Callable[..., Any],
    fake: Callable[..., Any],
    *,
    tags: Sequence[Any] = TAGS,
) -> Any:
    """Define an operator, and return its overload.

    schema: the operator's name, arguments and results in PyTorch's syntax, without a namespace:
        `"add(Tensor x, Tensor(a!) out, SymInt n) -> ()"`.
    implementation: computes it, for tensors on any device.
    fake: returns tensors of the right shapes for tensors without memory.
    """
    name = schema.partition("(")[0]
    library.define(schema, tags=tuple(tags))
    library.impl(name, implementation, "CompositeExplicitAutograd")
    torch.library.register_fake(f"{library.ns}::{name}", fake, lib=library)
    return getattr(getattr(torch.ops, library.ns), name).default
