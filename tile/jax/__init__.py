"""Kernels in programs of JAX: `call` runs one on arrays, also in functions that JAX transforms.

    import tile.jax

    @jax.jit
    def double(x):
        return tile.jax.call(
            x, x.size, kernel=double_kernel, out_shape={"out_ptr": x}, grid=..., BLOCK=1024
        )["out_ptr"]

`docs/jax.md` shows all of it. The import raises `JaxVersionError` without JAX 0.6 or later.
"""

from typing import TYPE_CHECKING

from tile._lazy import LazyNames
from tile._requirement import require_version
from tile.errors import JaxVersionError

require_version("jax", "JAX", (0, 6), JaxVersionError)

if TYPE_CHECKING:
    from tile.jax.calls import call
else:
    __getattr__ = LazyNames(__name__, {"call": "tile.jax.calls"})
    __dir__ = __getattr__.names

__all__ = ["call"]
