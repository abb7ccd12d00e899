"""Attributes of kernels and compiled kernels that tools and libraries read."""

import inspect
import pickle

import numpy as np
import pytest

import tile
import tile.language as tl
from tile.errors import ArgumentValueError, CompilationError


@tile.jit(do_not_specialize=["n"])
def scale(x_ptr, out_ptr: "tl.const", n: tl.int64, factor=2.0, BLOCK: tl.constexpr = 16):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + i, tl.load(x_ptr + i, i < n) * factor, i < n)


def compiled():
    return scale.warmup(np.ones(20, np.float32), np.ones(1), 20, 3.0)


def test_parameters() -> None:
    assert (
        [p.name for p in scale.params]
        == scale.arg_names
        == ["x_ptr", "out_ptr", "n", "factor", "BLOCK"]
    )
    assert [p.num for p in scale.params] == list(range(5))
    assert scale.constexprs == [4] == [p.num for p in scale.params if p.is_constexpr]
    assert [p.num for p in scale.params if p.is_const] == [1]
    assert [p.num for p in scale.params if p.do_not_specialize] == [2]
    assert scale.params[2].annotation_type == "i64"
    assert [p.default for p in scale.params if p.has_default] == [2.0, 16]
    assert list(scale.signature.parameters) == scale.arg_names


def test_source() -> None:
    assert scale.src.startswith("def scale(x_ptr,")
    assert scale.raw_src[0].startswith("@tile.jit")
    assert scale.starting_line_number == scale.fn.__code__.co_firstlineno
    assert scale.raw_src == inspect.getsourcelines(scale.fn)[0]
    assert scale.module == __name__


def test_cache_key_is_that_of_the_text(tmp_path) -> None:
    text = "import tile\nimport tile.language as tl\n\n\n{space}@tile.jit\ndef f(x):\n    tl.store(x, {value})\n"

    def key(name, **changes) -> str:
        path = tmp_path / f"{name}.py"
        path.write_text(text.format(**{"space": "", "value": 1, **changes}))
        names: dict = {}
        exec(compile(path.read_text(), str(path), "exec"), names)
        return names["f"].cache_key

    assert key("a") == key("b") == key("c", space="\n\n")
    assert key("a") != key("d", value=2)


def test_calling_a_kernel_is_a_runtime_error() -> None:
    with pytest.raises(RuntimeError, match=r"scale\(\) is a kernel and needs a grid"):
        scale(1, 2, 3)
    with pytest.raises(TypeError):
        scale(1, 2, 3)


def test_metadata() -> None:
    kernel = compiled()
    metadata = kernel.metadata
    assert metadata.name == kernel.name == "scale"
    assert (metadata.num_warps, metadata.num_ctas, metadata.shared) == (4, 1, 0)
    assert metadata.cluster_dims == (1, 1, 1)
    assert metadata._asdict()["hash"] == kernel.hash == compiled().hash
    assert kernel.packed_metadata == (4, 1, 0, 1, 1, 1)
    assert kernel.src.fn is scale
    assert kernel.src.constants == {(4,): 16}
    assert kernel.src.signature["n"] == "i64"
    kernel._init_handles()
    assert kernel.function is kernel.module is kernel.executable
    assert (kernel.n_regs, kernel.n_spills, kernel.n_max_threads) == (None, None, None)
    assert dict(kernel.metadata_group) == {}  # no file of a stage


def test_stages_by_the_names_of_triton() -> None:
    asm = compiled().asm
    assert asm["ttir"] == asm["tile"]
    assert "ttir" in asm and "ptx" not in asm and "ttgir" not in asm
    assert asm.get("ptx") is None and asm.get("llir", "") == ""
    with pytest.raises(KeyError, match="the stages of this kernel are source, tile"):
        asm["ptx"]


def test_a_handle_takes_all_arguments_or_the_runtime_ones() -> None:
    kernel = compiled()
    x = np.ones(20, np.float32)
    kernel[2, 1, 1](x, np.ones(1), 20, 3.0)
    kernel[2, 1, 1](x, np.ones(1), 20, 3.0, 16)
    kernel[2,](x, np.ones(1), 20, 3.0, tl.constexpr(16))
    np.testing.assert_array_equal(x, np.full(20, 27.0))
    with pytest.raises(
        ArgumentValueError, match=r"'BLOCK' of scale.* is 32, and .* compiled for 16"
    ):
        kernel[2,](x, np.ones(1), 20, 3.0, 32)


def test_run_as_launchers_of_triton_do() -> None:
    kernel, x, calls = compiled(), np.ones(20, np.float32), []
    metadata = kernel.launch_metadata((2, 1, 1), 0, x, np.ones(1), 20, 3.0, 16)
    head = (2, 1, 1, 0, kernel.function, kernel.packed_metadata, metadata)
    kernel.run(
        *head, lambda m: calls.append(m.get()["name"]), calls.append, x, np.ones(1), 20, 3.0, 16
    )
    assert calls == ["scale", metadata]
    np.testing.assert_array_equal(x, np.full(20, 3.0))
    with pytest.raises(TypeError, match="scale needs a grid"):
        kernel.run(x, 20)


def test_pickles() -> None:
    kernel = pickle.loads(pickle.dumps(compiled()))
    assert kernel.src.fn is None and kernel.hash == compiled().hash


def test_options_of_other_backends_warn() -> None:
    x = np.ones(20, np.float32)
    with pytest.warns(
        RuntimeWarning, match=r"'waves_per_eu' and 'kpack' of scale\(\) have no effect"
    ):
        scale[2,](x, np.ones(1), 20, waves_per_eu=2, kpack=1)
    np.testing.assert_array_equal(x, np.full(20, 2.0))
    with pytest.raises(TypeError, match="has no parameter 'wave_per_eu'"):
        scale[2,](x, np.ones(1), 20, wave_per_eu=2)


class Buffer:
    """As FlagGems' StridedBuffer."""

    def __init__(self, array, strided=True) -> None:
        self.array, self.dtype = array, array.dtype
        if strided:
            self.shape = array.shape
            self.stride = lambda: [step // array.itemsize for step in array.strides]

    def data_ptr(self) -> int:
        return self.array.ctypes.data


def test_objects_with_an_address() -> None:
    x = np.ones((10, 4), np.float32)
    scale[1,](Buffer(x), np.ones(1), 7)
    assert x.ravel().tolist() == [2.0] * 7 + [1.0] * 33
    scale[1,](Buffer(x[5:, 0]), np.ones(1), 1)
    assert x[5, 0] == 2.0
    with pytest.raises(tile.errors.OutOfBoundsError):
        scale[1,](Buffer(x[:1]), np.ones(1), 5)
    with pytest.raises(TypeError, match="Buffer with an address and no `shape`"):
        scale[1,](Buffer(x, strided=False), np.ones(1), 5)


def test_globals_are_those_of_the_function() -> None:
    assert scale.__globals__ is globals()


def cast_block(x_ptr, y_ptr, N: "tl.constexpr"):
    x = tl.make_block_ptr(x_ptr, (N,), (1,), (0,), (N,), (0,))
    y = tl.make_block_ptr(y_ptr, (N,), (1,), (0,), (N,), (0,))
    tl.store(y, tl.load(x).to(y.type.element_ty))


def test_a_type_of_tiles_stands_for_that_of_elements(triton) -> None:
    x, y = np.arange(8, dtype=np.float32) + 0.75, np.zeros(8, np.int32)
    triton.jit(cast_block)[1,](x, y, 8)
    assert y.tolist() == list(range(8))


@tl.constexpr
def accumulated(dtype):
    return tl.int64 if dtype.is_int() else dtype


@tile.jit
def lowest(dtype):
    known = dtype.value
    return -(2 ** (known.int_bitwidth - 1))


@tile.jit
def widen(x_ptr, y_ptr):
    wide = accumulated(x_ptr.dtype.element_ty)
    tl.static_assert(wide == tl.int64)
    tl.store(y_ptr, tl.load(x_ptr).to(wide) + lowest(x_ptr.dtype.element_ty))


def test_a_function_in_constexpr_runs_at_compile_time() -> None:
    x, y = np.array([7], np.int16), np.zeros(1, np.int64)
    widen[1,](x, y)
    assert y.tolist() == [7 - 2**15]


def add_bias(x_ptr, bias_ptr):
    x = tl.load(x_ptr)
    if bias_ptr:
        x += tl.load(bias_ptr)
    tl.store(x_ptr, x)


def test_a_pointer_as_condition_is_true_unless_it_is_null(triton) -> None:
    x, bias = np.ones(1, np.float32), np.full(1, 2, np.float32)
    triton.jit(add_bias)[1,](x, bias)
    triton.jit(add_bias)[1,](x, None)
    assert x.tolist() == [3.0]
    with pytest.raises(CompilationError, match="takes a number as its condition, not the pointer"):
        tile.jit(add_bias)[1,](x, bias)
