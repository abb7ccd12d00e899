"""The language of kernels: `import tile.language as tl`.

A kernel from the disk cache needs only `tl.constexpr`, so all other names are imported on first
use.
"""

from typing import TYPE_CHECKING

from tile.language.constexpr import constexpr
from tile.language.tensor import Tensor, tensor, tensor_descriptor
from tile.late import LateNames

if TYPE_CHECKING:
    from tile.language import math
    from tile.language.atomics import (
        atomic_add,
        atomic_and,
        atomic_cas,
        atomic_max,
        atomic_min,
        atomic_or,
        atomic_xchg,
        atomic_xor,
    )
    from tile.language.combine import associative_scan, reduce
    from tile.language.creation import arange, cast, full, to_tensor, zeros, zeros_like
    from tile.language.debug import device_assert, device_print, static_assert, static_print
    from tile.language.descriptor import (
        load_tensor_descriptor,
        make_tensor_descriptor,
        store_tensor_descriptor,
    )
    from tile.language.dtypes import (
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
    from tile.language.hints import (
        assume,
        debug_barrier,
        max_constancy,
        max_contiguous,
        multiple_of,
    )
    from tile.language.index import gather, histogram, sort, topk
    from tile.language.iterators import condition, range, static_range
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
    from tile.language.memory import load, store
    from tile.language.program import num_programs, program_id
    from tile.language.python import PYTHON_BUILTINS
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
        cumprod,
        cumsum,
        max,
        min,
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
        "atomics": (
            "atomic_add atomic_and atomic_cas atomic_max atomic_min atomic_or atomic_xchg "
            "atomic_xor"
        ),
        "combine": "associative_scan reduce",
        "creation": "arange cast full to_tensor zeros zeros_like",
        "debug": "device_assert device_print static_assert static_print",
        "descriptor": "load_tensor_descriptor make_tensor_descriptor store_tensor_descriptor",
        "dtypes": (
            "bfloat16 block_type const dtype float8e4nv float8e5 float16 float32 float64 int1 "
            "int8 int16 int32 int64 pi32_t pointer_type uint8 uint16 uint32 uint64"
        ),
        "hints": "assume debug_barrier max_constancy max_contiguous multiple_of",
        "index": "gather histogram sort topk",
        "iterators": "condition range static_range",
        "linalg": "dot",
        "math": (
            "abs ceil cos div_rn erf exp exp2 fdiv floor fma log log2 rsqrt sin sqrt sqrt_rn "
            "tanh umulhi"
        ),
        "memory": "load store",
        "program": "num_programs program_id",
        "python": "PYTHON_BUILTINS",
        "random": (
            "pair_uniform_to_normal philox philox_impl rand rand4x randint randint4x randn "
            "randn4x uint_to_uniform_float"
        ),
        "reductions": "argmax argmin cumprod cumsum max min reduce_or sum xor_sum",
        "selection": "PropagateNan clamp maximum minimum where",
        "shape": (
            "broadcast broadcast_to cat expand_dims flip interleave join permute ravel "
            "reshape split squeeze trans unsqueeze view"
        ),
        "standard": "add cdiv mul sigmoid softmax sub swizzle2d",
    }
    __getattr__ = LateNames(
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
