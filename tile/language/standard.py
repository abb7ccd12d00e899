"""`tl.standard`: the functions of the language that Triton composes of those in `tl.core`.

They are those of `tl` itself: `tl.standard.cdiv` is `tl.cdiv`.
"""

from tile._lazy import LazyNames
from tile.language import SOURCES

_NAMES = (
    "argmax argmin bitonic_merge cdiv cumprod cumsum flip interleave max min ravel reduce_or "
    "sigmoid softmax sort squeeze sum swizzle2d topk unsqueeze xor_sum zeros zeros_like"
)
_SOURCES = {name: SOURCES[name] for name in _NAMES.split()}
__getattr__ = LazyNames(__name__, _SOURCES)
__dir__ = __getattr__.names

__all__: list[str] = []
__all__ += list(_SOURCES)
