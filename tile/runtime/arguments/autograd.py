"""Tell autograd of the tensors that a launch writes.

PyTorch counts the changes of a tensor's memory, and `backward()` raises if a tensor has changed
since autograd saved it. A launch counts as a change of the tensors that the kernel writes. No
operation of autograd's graph stands for a launch, so a gradient that would pass one is refused.
Nothing here imports torch: a caller with tensors has imported it.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, Mapping
from types import CodeType
from typing import Any

from tile.errors import ArgumentValueError
from tile.runtime.arguments.tensor_descriptor import TensorDescriptor
from tile.runtime.signature import Path
from tile.tracebacks import GENERATED

NoteWrites = Callable[..., object]
"""A function to call before a launch, with some of its tensors as arguments."""


def tensors_in(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield the tensors of torch in an argument, each with its path.

    It may be one, or have items, or wrap one, as its `base`.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return
    if isinstance(value, torch.Tensor):
        yield path, value
    elif isinstance(value, tuple | list):
        for at, item in enumerate(value):
            yield from tensors_in(item, (*path, at))
    elif isinstance(base := getattr(value, "base", None), torch.Tensor):
        yield (*path, 0) if isinstance(value, TensorDescriptor) else path, base


def note_writes(
    kernel: str, count: int, written: Mapping[int, str], *, refuse_gradients: bool
) -> NoteWrites:
    """Return a function that notes a kernel's writes to some of `count` tensors, its arguments.

    written: by position among these tensors, the parameters through which the kernel writes them.
    refuse_gradients: raise `ArgumentValueError` where autograd records, for a tensor that requires
        a gradient.

    It is called for each launch, and is generated:
    `lambda t0, t1: t1.requires_grad and check(1) or count((t1,))`.
    """
    if not written:
        return _nothing
    torch: Any = sys.modules["torch"]

    def check(position: int) -> None:
        if torch.is_grad_enabled():
            raise ArgumentValueError(
                f"{kernel}() writes {written[position]!r}, which requires a gradient, and autograd "
                "does not see it; pass x.detach(), launch under torch.no_grad(), or give the "
                "function that launches it a backward by tile.torch.op"
            )

    code = _code(count, tuple(written), refuse_gradients)
    function: NoteWrites = eval(code, {"check": check, "count": version_counter(torch)})
    return function


def _nothing(*tensors: Any) -> None:
    """Note nothing."""


@functools.cache
def _code(count: int, positions: tuple[int, ...], refuse_gradients: bool) -> CodeType:
    checks = [f"t{at}.requires_grad and check({at})" for at in positions if refuse_gradients]
    changed = "".join(f"t{at}, " for at in positions)
    tensors = ", ".join(f"t{at}" for at in range(count))
    text = f"lambda {tensors}: {' or '.join([*checks, f'count(({changed}))'])}"
    return compile(text, GENERATED, "eval")


def version_counter(torch: Any) -> Callable[[tuple[Any, ...]], object]:
    """Return the function that counts a change of each tensor in a tuple."""
    direct: Callable[[tuple[Any, ...]], object] = torch._C._increment_version
    try:
        direct(())
    except TypeError:  # an older version, where it takes one tensor
        documented: Callable[[tuple[Any, ...]], object] = torch.autograd.graph.increment_version
        return documented
    return direct
