"""Kernels as citizens of PyTorch: in compiled graphs, as operators, and in place of operators.

    import tile.torch

    @tile.torch.op("mine::sin", backward=sin_backward)
    def sin(x: torch.Tensor) -> torch.Tensor: ...

    with tile.torch.override("aten::gelu", gelu): ...

Launches in functions that `torch.compile` compiles need no import of this package. `docs/torch.md`
shows all of it. The import raises `TorchVersionError` without PyTorch 2.11 or later.
"""

from typing import TYPE_CHECKING

from tile._lazy import LazyNames
from tile._requirement import require_version
from tile.errors import TorchVersionError

require_version("torch", "PyTorch", (2, 11), TorchVersionError)

if TYPE_CHECKING:
    from tile.torch.inductor_backend import inductor
    from tile.torch.operators import op
    from tile.torch.overrides import Override, override
else:
    __getattr__ = LazyNames(
        __name__,
        {
            "inductor": "tile.torch.inductor_backend",
            "op": "tile.torch.operators",
            **dict.fromkeys(("Override", "override"), "tile.torch.overrides"),
        },
    )
    __dir__ = __getattr__.names

__all__ = ["Override", "inductor", "op", "override"]
