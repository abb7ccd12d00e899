"""`tl.core`: the types of the language, and the functions that are not composed of others.

They are those of `tl` itself: `tl.core.load` is `tl.load`. As in Triton, `tl.math`, `tl.random`
and `tl.standard` have the other functions.
"""

from tile._lazy import LazyNames
from tile.language import SOURCES, standard

_ELSEWHERE = frozenset({"tile.language.math", "tile.language.random"})
_SOURCES = {
    "constexpr": "tile.language.base.constexpr",
    "tensor": "tile.language.base.tensor",
    "tensor_descriptor": "tile.language.base.tensor",
} | {
    name: module
    for name, module in SOURCES.items()
    if module not in _ELSEWHERE and name not in standard.__all__
}
__getattr__ = LazyNames(__name__, _SOURCES)
__dir__ = __getattr__.names

__all__: list[str] = []
__all__ += list(_SOURCES)
