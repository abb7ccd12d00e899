"""The language of kernels: `import tile.language as tl`.

A kernel from the disk cache needs only `tl.constexpr`, so all other names are imported on first
use. `FUNCTIONS` names the functions; type checkers read the stub.
"""

from tile._lazy import LazyNames
from tile.language._functions import FUNCTIONS
from tile.language.core.constexpr import constexpr
from tile.language.core.tensor import Tensor, tensor, tensor_descriptor

_TYPES = (
    "bfloat16 const dtype float16 float32 float64 float8e4nv float8e5 int1 int8 int16 int32 int64 "
    "pi32_t pointer_type uint8 uint16 uint32 uint64"
)
_PYTHON = "PYTHON_BUILTINS condition range static_range"
_SOURCES = {
    "math": "tile.language.math",
    **FUNCTIONS,
    **dict.fromkeys(_TYPES.split(), "tile.language.core.dtypes"),
    **dict.fromkeys(_PYTHON.split(), "tile.language.python_builtins"),
    "PropagateNan": "tile.language.selection",
}
__getattr__ = LazyNames(__name__, {"random": "tile.language.random", **_SOURCES})
__dir__ = __getattr__.names

__all__ = ["Tensor", "constexpr", "tensor", "tensor_descriptor"]
__all__ += list(_SOURCES)
