"""The language of kernels: `import tile.language as tl`.

A kernel from the disk cache needs only `tl.constexpr`, so all other names are imported on first
use.
"""

from typing import TYPE_CHECKING

from tile._lazy import LazyNames
from tile.language.core.constexpr import constexpr
from tile.language.core.tensor import Tensor, tensor, tensor_descriptor

if TYPE_CHECKING:
    from tile.language import math
    from tile.language.core.dtypes import (
        bfloat16,
        block_type,
        const,
        dtype,
        float8e4nv,
        float8e5,
        float16,
        float32,
        float64,
        int1,
        int8,
        int16,
        int32,
        int64,
        pi32_t,
        pointer_type,
        uint8,
        uint16,
        uint32,
        uint64,
    )
    from tile.language.creation import arange, cast, full, to_tensor, zeros, zeros_like
    from tile.language.debug import device_assert, device_print, static_assert, static_print
    from tile.language.descriptor import (
        load_tensor_descriptor,
        make_tensor_descriptor,
        store_tensor_descriptor,
    )
    from tile.language.indexing import gather, histogram, sort, topk
    from tile.language.linalg import dot
    from tile.language.math import (
        abs,
        ceil,
        cos,
        div_rn,
        erf,
        exp,
        exp2,
        fdiv,
        floor,
        fma,
        log,
        log2,
        rsqrt,
        sin,
        sqrt,
        sqrt_rn,
        tanh,
        umulhi,
    )
    from tile.language.memory import (
        atomic_add,
        atomic_and,
        atomic_cas,
        atomic_max,
        atomic_min,
        atomic_or,
        atomic_xchg,
        atomic_xor,
        load,
        store,
    )
    from tile.language.program import (
        assume,
        debug_barrier,
        max_constancy,
        max_contiguous,
        multiple_of,
        num_programs,
        program_id,
    )
    from tile.language.python_builtins import PYTHON_BUILTINS, condition, range, static_range
    from tile.language.random import (
        pair_uniform_to_normal,
        philox,
        philox_impl,
        rand,
        rand4x,
        randint,
        randint4x,
        randn,
        randn4x,
        uint_to_uniform_float,
    )
    from tile.language.reductions import (
        argmax,
        argmin,
        associative_scan,
        cumprod,
        cumsum,
        max,
        min,
        reduce,
        reduce_or,
        sum,
        xor_sum,
    )
    from tile.language.selection import PropagateNan, clamp, maximum, minimum, where
    from tile.language.shape import (
        broadcast,
        broadcast_to,
        cat,
        expand_dims,
        flip,
        interleave,
        join,
        permute,
        ravel,
        reshape,
        split,
        squeeze,
        trans,
        unsqueeze,
        view,
    )
    from tile.language.standard import add, cdiv, mul, sigmoid, softmax, sub, swizzle2d
else:
    _NAMES = {  # module -> its public names
        "core.dtypes": (
            "bfloat16 block_type const dtype float16 float32 float64 float8e4nv float8e5 int1 "
            "int16 int32 int64 int8 pi32_t pointer_type uint16 uint32 uint64 uint8"
        ),
        "creation": "arange cast full to_tensor zeros zeros_like",
        "debug": "device_assert device_print static_assert static_print",
        "descriptor": "load_tensor_descriptor make_tensor_descriptor store_tensor_descriptor",
        "indexing": "gather histogram sort topk",
        "linalg": "dot",
        "math": (
            "abs ceil cos div_rn erf exp exp2 fdiv floor fma log log2 rsqrt sin sqrt sqrt_rn "
            "tanh umulhi"
        ),
        "memory": (
            "atomic_add atomic_and atomic_cas atomic_max atomic_min atomic_or atomic_xchg "
            "atomic_xor load store"
        ),
        "program": (
            "assume debug_barrier max_constancy max_contiguous multiple_of num_programs program_id"
        ),
        "python_builtins": "PYTHON_BUILTINS condition range static_range",
        "random": (
            "pair_uniform_to_normal philox philox_impl rand rand4x randint randint4x randn "
            "randn4x uint_to_uniform_float"
        ),
        "reductions": (
            "argmax argmin associative_scan cumprod cumsum max min reduce reduce_or sum xor_sum"
        ),
        "selection": "PropagateNan clamp maximum minimum where",
        "shape": (
            "broadcast broadcast_to cat expand_dims flip interleave join permute ravel "
            "reshape split squeeze trans unsqueeze view"
        ),
        "standard": "add cdiv mul sigmoid softmax sub swizzle2d",
    }
    __getattr__ = LazyNames(
        __name__,
        {
            "math": "tile.language.math",
            "random": "tile.language.random",
            **{name: f"tile.language.{m}" for m, names in _NAMES.items() for name in names.split()},
        },
    )
    __dir__ = __getattr__.names

__all__ = [
    "PYTHON_BUILTINS",
    "PropagateNan",
    "Tensor",
    "abs",
    "add",
    "arange",
    "argmax",
    "argmin",
    "associative_scan",
    "assume",
    "atomic_add",
    "atomic_and",
    "atomic_cas",
    "atomic_max",
    "atomic_min",
    "atomic_or",
    "atomic_xchg",
    "atomic_xor",
    "bfloat16",
    "block_type",
    "broadcast",
    "broadcast_to",
    "cast",
    "cat",
    "cdiv",
    "ceil",
    "clamp",
    "condition",
    "const",
    "constexpr",
    "cos",
    "cumprod",
    "cumsum",
    "debug_barrier",
    "device_assert",
    "device_print",
    "div_rn",
    "dot",
    "dtype",
    "erf",
    "exp",
    "exp2",
    "expand_dims",
    "fdiv",
    "flip",
    "float8e4nv",
    "float8e5",
    "float16",
    "float32",
    "float64",
    "floor",
    "fma",
    "full",
    "gather",
    "histogram",
    "int1",
    "int8",
    "int16",
    "int32",
    "int64",
    "interleave",
    "join",
    "load",
    "load_tensor_descriptor",
    "log",
    "log2",
    "make_tensor_descriptor",
    "math",
    "max",
    "max_constancy",
    "max_contiguous",
    "maximum",
    "min",
    "minimum",
    "mul",
    "multiple_of",
    "num_programs",
    "pair_uniform_to_normal",
    "permute",
    "philox",
    "philox_impl",
    "pi32_t",
    "pointer_type",
    "program_id",
    "rand",
    "rand4x",
    "randint",
    "randint4x",
    "randn",
    "randn4x",
    "range",
    "ravel",
    "reduce",
    "reduce_or",
    "reshape",
    "rsqrt",
    "sigmoid",
    "sin",
    "softmax",
    "sort",
    "split",
    "sqrt",
    "sqrt_rn",
    "squeeze",
    "static_assert",
    "static_print",
    "static_range",
    "store",
    "store_tensor_descriptor",
    "sub",
    "sum",
    "swizzle2d",
    "tanh",
    "tensor",
    "tensor_descriptor",
    "to_tensor",
    "topk",
    "trans",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "uint_to_uniform_float",
    "umulhi",
    "unsqueeze",
    "view",
    "where",
    "xor_sum",
    "zeros",
    "zeros_like",
]
