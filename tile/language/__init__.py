"""The language of kernels: `import tile.language as tl`.

These functions are called inside a `@tile.jit` function, after `import tile.language as tl`. A
*tile* is a block of elements whose extents are compile-time integers. Most functions take tiles,
scalars and Python numbers, broadcast them as NumPy does, and promote their types as Triton does.

## Statements

Kernels can use expressions with all of Python's operators, chained comparisons, `and`, `or`, `not`
and conditional expressions; assignments (augmented, annotated, of tuples); `if`, `for` over
`range`, `tl.range` and `tl.static_range`, `while`, `break`, `continue`, `return` anywhere,
`assert`, `pass`; and calls of other `@tile.jit` functions, which may return tuples and have keyword
parameters and defaults.

- A parameter annotated `tl.constexpr` is a compile-time constant, as tile extents must be. So is a
  name assigned as `x: tl.constexpr = ...`. An `if` on a constant compiles only the branch taken.
- For other parameters of a kernel, an annotation such as `n: tl.int64`, `f: "fp16"`, `p: "*fp32"`,
  `x: float` (fp32) or `b: bool` sets the type, whatever number is passed; a number out of its range
  is an error. `p: tl.const` is a pointer that the kernel only reads through. Other annotations are
  ignored: a Python integer is an `int32`, or else the first of `int64` and `uint64` that can hold
  it; a Python or NumPy float is a `float32`; a NumPy integer keeps its type; an array is a pointer.
- Values can be grouped: in tuples, in named tuples, and in classes decorated with `tile.aggregate`,
  whose annotations are fields and whose `@tile.jit` functions are methods. Groups may be assigned,
  loop-carried, passed to kernels and functions, and returned. `p.x = 3` and `t[0] = 3` bind `p` and
  `t` to a group with another part; other names of the earlier group keep that. `getattr` and
  `hasattr` take a value and a name known at compile time.
- A name that is assigned in a loop or in a branch keeps its type and shape.
- A tile is indexed as in NumPy, by compile-time integers and slices, `None` and `...`: `x[3]`,
  `x[0:16, :]`, `x[:, 1::2]`, `x[::-1]`, `x[:, None]`. A slice that keeps a quarter of the elements
  or more costs nothing if each thread holds elements of all such parts, as it does of two or four
  loaded columns, and otherwise one conversion of the layout. Elements, rows and other small parts
  are a reduction. `x[8:24]`, whose start is not a multiple of its length, and slices of a number of
  elements that is no power of two go through shared memory.
- Kernels can read globals that are `tl.constexpr(...)` objects, functions, modules or types.
- A tuple of numbers, or an array of NumPy in a `tl.constexpr(...)`, is a *table*: runtime integers
  index it, as in `CODEBOOK[x & 15]` and `GRID[i, j]`, one for each axis, and the result has their
  shape and the array's element type; `tl.gather(CODEBOOK, x)` is `CODEBOOK[x]`. A lookup in a table
  of up to 64 entries takes as many selects, and no memory. Larger ones, of at most 65,536 entries,
  are constants in the kernel's code that are loaded from. The result for an index outside of the
  table is undefined.
- `/` of integers returns a float. `//` and `%` truncate towards zero, as in C: `-7 // 2` is -3 and
  `-7 % 2` is -1. Between compile-time numbers they follow Python. `>>` of a signed integer is an
  arithmetic shift, even if the shift amount is unsigned.
- A *descriptor*, made by `tl.make_tensor_descriptor` or passed as a `tile.TensorDescriptor`, is an
  array with bounds. It is loaded and stored in blocks and has no arithmetic; it may be assigned,
  loop-carried, passed to functions and returned.
- Integers wrap at their width, and the wrapped values are exact. It is an error, though, if signed
  arithmetic that leads to an address or to the mask of an access wraps: the compiler decides how
  many contiguous elements an access takes as if it did not wrap. Offsets beyond 2**31 need `int64`.
- `(start + tl.arange(0, N)) % n` is known to be contiguous in runs if `start` cannot be negative,
  such as a multiple of `tl.program_id(0)`, and `n` is a multiple of 16. For other numbers,
  `tl.assume` states it: `tl.assume(start >= 0)`.
- A literal assigned to a name is an `int32` or `float32`.
- `breakpoint()` opens the debugger if the interpreter runs the kernel (see debugging.md); GPU
  backends ignore it, with a warning.

## Extents

Extents may be any positive integers. GPUs hold tiles whose extents are powers of two, so others are
padded: a tile of 3 x 100 elements takes the registers and the instructions of 4 x 128, at most
2**20 elements. What the *padding* past the end would change is masked by the compiler:

    rows, at = tl.arange(0, 3)[:, None], tl.arange(0, 100)[None, :]
    x = tl.load(p + rows * 100 + at)  # as with mask=(rows < 3) & (at < 100) for 4 x 128
    tl.store(out + rows, tl.sum(x, axis=1, keep_dims=True))  # adds no padding

- Loads, stores, atomics, `tl.histogram` and `tl.device_assert` have a mask for it, besides that of
  the kernel; `tl.device_print` does not print it. Block pointers are loads and stores.
- Functions of elements, `tl.where`, casts, `tl.map_elementwise`, broadcasts, `x[:, None]`,
  `tl.trans`, `tl.permute`, `tl.join`, `tl.split`, `tl.interleave`, `tl.gather` and forward scans of
  any function compute with it: no element depends on it.
- Reductions and backward scans have the identity there: -0.0 for a sum of floats, NaN for a maximum
  that ignores NaNs. In `tl.reduce` and a backward `tl.associative_scan`, whose function has no
  identity that is known, the compiler combines a mask as well. `tl.sort`, `tl.topk` and `tl.rank`
  have there what comes last, and `tl.dot` zeros along the axis that is summed over. `tl.scatter`
  leaves padding where it is. `tl.flip` gathers.
- The first of the axes that `tl.reshape`, `tl.ravel`, `tl.view` and `tl.cat` merge or split may be
  padded: 6 x 4 elements become 24, or 3 x 2 x 4. Padding of another axis would be
  between elements of the result, where no mask along an axis can exclude it: 3 x 100 elements to
  300 are refused: make such a tile in the shape that you need, by an index for each axis, or mask
  3 x 128. Reductions of all elements reduce such a tile axis by axis, `tl.argmax` and
  `tl.argmin` included, which count in row-major order. `tl.histogram` flattens, and is refused.
- Blocks of descriptors are copied whole, with padding, so their extents are powers of two. So are
  those of `tl.inline_asm_elementwise` with `is_pure=False`, whose effects padding would have, and
  with `pack` above 1, whose groups it would share with elements.

A refusal names the operation and the extent, with the masks to write instead. The masks of padding
cost what masks by hand cost: on an H200, a kernel that multiplies 2^26 floats by two takes 131 us
in blocks of 768 and of 1024, and 133 in blocks of 1000, either way. Tiles whose extents are powers
of two have none.

## Editors and type checkers

The package has type stubs: mypy and pyright check kernels, and editors complete members and show
signatures. `tl.tensor`, `tl.tensor_descriptor` and the element types annotate parameters; a
parameter annotated with `tl.constexpr` or an element type accepts any argument. Type checkers apply
Python's rules to Python's objects, which differ from the compiler's rules in two cases:

- For them, the variable of a loop over `range` is an `int`. Over `tl.range` it is a tensor, with
  methods: `i.to(tl.int64)`.
- A name that is first assigned a Python number has no methods. Start with a tensor if you need
  them: `tl.zeros((), tl.float32)`, `tl.to_tensor(0.0)`.
"""

from tile._lazy import LazyNames
from tile.language._functions import MODULES
from tile.language.base.constexpr import constexpr
from tile.language.base.tensor import Tensor, tensor, tensor_descriptor

# A kernel from the disk cache needs only `tl.constexpr`, so all other names are imported on first
# use. `MODULES` names the functions; type checkers read the stub.
_OTHERS = {
    "base.dtypes": (
        "TRITON_MAX_TENSOR_NUMEL bfloat16 block_type const dtype float16 float32 float64 "
        "float8e4b15 float8e4b8 float8e4nv float8e5 float8e5b16 int1 int8 int16 int32 int64 pi32_t "
        "pointer_type uint8 uint16 uint32 uint64 void"
    ),
    "base.constexpr": "constexpr_type",
    "python_builtins": "PYTHON_BUILTINS condition range static_range",
    "selection": "PropagateNan",
}
_PYTHON = ("slice", "tuple")  # sequences in kernels are Python's own
SOURCES = {"math": f"{__name__}.math", **dict.fromkeys(_PYTHON, "builtins")} | {
    name: f"{__name__}.{module}"
    for module, names in (*MODULES.items(), *_OTHERS.items())
    for name in names.split()
}
_MODULES = {name: f"{__name__}.{name}" for name in ("core", "extra", "random", "standard")}
__getattr__ = LazyNames(__name__, {**_MODULES, **SOURCES})
__dir__ = __getattr__.names

__all__ = ["Tensor", "constexpr", "tensor", "tensor_descriptor"]
__all__ += list(SOURCES)
