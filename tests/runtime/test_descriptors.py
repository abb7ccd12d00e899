"""Host-side descriptors: launches with them, signatures, and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tile
import tile.language as tl
from tests.runtime.fake_cuda import CudaArray
from tests.runtime.fake_torch import Tensor as FakeTensor
from tests.runtime.fake_torch import install
from tile import TensorDescriptor
from tile.errors import ArgumentError, ArgumentTypeError, ArgumentValueError, CompilationError
from tile.runtime.arguments import tensor_descriptor


@tile.jit
def scale(x, y, factor):
    row = tl.program_id(0) * x.block_shape[0]
    for column in range(0, x.shape[1], x.block_shape[1]):
        y.store([row, column], x.load([row, column]) * factor)


@tile.jit
def sizes(x, out):
    tl.store(out, x.shape[0])
    tl.store(out + 1, x.shape[1])
    tl.store(out + 2, x.strides[0].to(tl.int32))
    tl.store(out + 3, x.strides[1].to(tl.int32))


def aligned(*shape: int, dtype: Any = np.float32, pitch: int = 0) -> np.ndarray:
    """Random numbers at an address of 16 bytes, rows `pitch` elements apart."""
    pitch = pitch or -(-shape[-1] * np.dtype(dtype).itemsize // 16) * 16 // np.dtype(dtype).itemsize
    raw = np.empty((*shape[:-1], pitch), dtype)
    raw[...] = np.random.default_rng(0).integers(-9, 9, raw.shape)
    assert raw.ctypes.data % 16 == 0
    return raw[..., : shape[-1]]


def described(array: np.ndarray, *block: int, padding: str = "zero") -> TensorDescriptor:
    return TensorDescriptor.from_tensor(array, block, padding)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.int32])
@pytest.mark.parametrize("shape", [(1, 1), (37, 100), (64, 64)])
@pytest.mark.parametrize("backend", ["interp", "interp:generic"])
def test_launches(backend: str, shape: tuple[int, int], dtype: Any) -> None:
    x, y = aligned(*shape, dtype=dtype), aligned(*shape, dtype=dtype)
    with tile.backend(backend):
        kernel = scale[tile.cdiv(shape[0], 16),](described(x, 16, 32), described(y, 16, 32), 3)
    np.testing.assert_array_equal(y, x * np.array(3, dtype))
    assert kernel.written == {"y"}


def test_what_a_kernel_is_compiled_for() -> None:
    scale.cache.clear()
    x, y = aligned(33, 40), aligned(33, 40)
    first = scale[3,](described(x, 16, 16), described(y, 16, 16), 2)
    other = aligned(50, 40)
    assert scale[3,](described(other, 16, 16), described(y, 16, 16), 2) is first
    assert scale[3,](described(x, 16, 32), described(y, 16, 32), 2) is not first
    assert scale[3,](described(x, 16, 16, padding="nan"), described(y, 16, 16), 2) is not first
    assert first.signature == {
        "x": "tensordesc<fp32[16,16]>", "y": "tensordesc<fp32[16,16]>", "factor": "i32"
    }  # fmt: skip
    assert "x: tensordesc<fp32[16,16]>" in repr(first)


def test_bounds_are_the_descriptors() -> None:
    """A descriptor of part of an array leaves the rest alone, and reads it as padding."""
    x, y = aligned(8, 16), aligned(8, 16)
    before = y.copy()
    part = TensorDescriptor(y, [5, 7], [16, 1], [8, 16])
    scale[1,](TensorDescriptor(x, [4, 16], [16, 1], [8, 16], "nan"), part, 2)
    np.testing.assert_array_equal(y[:4, :7], x[:4, :7] * 2)
    assert np.isnan(y[4, :7]).all()
    y[:5, :7] = before[:5, :7]
    np.testing.assert_array_equal(y, before)


def test_a_kernel_compiled_from_a_signature() -> None:
    text = "tensordesc<fp16[16, 32]>"
    kernel = tile.compile(scale, {"x": text, "y": text, "factor": "fp32"}, target="interp")
    x, y = aligned(20, 48, dtype=np.float16), aligned(20, 48, dtype=np.float16)
    kernel[2,](described(x, 16, 32), described(y, 16, 32), 0.5)
    np.testing.assert_array_equal(y, x / 2)
    assert kernel.signature["x"] == "tensordesc<fp16[16,32]>"
    wrong = [
        (described(x, 16, 16), "blocks of shape [16, 16] and zero outside the array"),
        (described(x, 16, 32, padding="nan"), "blocks of shape [16, 32] and nan outside"),
        (described(aligned(20, 48), 16, 32), "and the kernel was compiled for *fp16:16"),
        (x, "an array of float16, and the kernel was compiled for tensordesc<fp16[16,32]>"),
    ]
    for given, words in wrong:
        with pytest.raises(ArgumentError) as refused:
            kernel[2,](given, described(y, 16, 32), 0.5)
        assert words in str(refused.value)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tensordesc<fp16>", "is written tensordesc<fp16[64,32]>"),
        ("tensordesc<fp16[16,]>", "is written tensordesc<fp16[64,32]>"),
        ("tensordesc<fp16[16,16],one>", "is written tensordesc<fp16[64,32]>"),
        ("tensordesc<half[16,16]>", "there is no type 'half'"),
        ("tensordesc<fp16[16,4]>", "the least is 16, 8 elements"),
        ("tensordesc<i32[16,4],nan>", "cannot be NaN"),
    ],
)
def test_signatures_that_there_are_not(text: str, words: str) -> None:
    with pytest.raises(ArgumentValueError) as refused:
        tile.compile(scale, {"x": text, "y": "tensordesc<fp16[16,8]>", "factor": "fp32"})
    assert words in str(refused.value)


def test_a_warmup_takes_types_for_arrays() -> None:
    mock = TensorDescriptor(tl.float16, [64, 64], [64, 1], [16, 16])
    kernel = scale.warmup(mock, mock, 2)
    assert kernel.signature["x"] == "tensordesc<fp16[16,16]>"


def test_extents_and_strides_are_seen_in_the_kernel() -> None:
    out = np.zeros(4, np.int32)
    sizes[1,](TensorDescriptor(aligned(6, 40), [5, 7], [40, 1], [4, 8]), out)
    assert out.tolist() == [5, 7, 40, 1]


def test_a_stride_that_is_never_gone_along_is_made_to_fit() -> None:
    x = aligned(5, 8)[:1, :]
    odd = np.lib.stride_tricks.as_strided(x, strides=(12, 4))
    assert described(odd, 4, 8).strides == (16, 1)


def test_arrays_of_other_libraries() -> None:
    x, y = aligned(16, 32), aligned(16, 32)
    ours: list[Any] = [CudaArray(x), CudaArray(y)]
    with tile.backend("interp"):
        scale[1,](*(described(array, 16, 32) for array in ours), 2)
    np.testing.assert_array_equal(y, x * 2)


@pytest.mark.parametrize("stored", [False, True])
def test_block_shapes_are_set_while_tuning(tmp_path: Path, stored: bool) -> None:
    """The blocks that a call passes need not be valid."""

    def shape_blocks(arguments: dict[str, Any]) -> None:
        for name in ("x", "y"):
            arguments[name].block_shape = [16, arguments["BN"]]

    @tile.autotune(
        [tile.Config({"BN": bn}, pre_hook=shape_blocks) for bn in (16, 32)],
        key=["N"],
        cache_results=tmp_path if stored else False,
    )
    @tile.jit
    def tuned(x, y, N, BN: tl.constexpr):
        for column in range(0, N, BN):
            y.store([0, column], x.load([0, column]) + 1)

    x, y = aligned(16, 64), aligned(16, 64)
    before = x.copy()
    dummy = [1, 1]
    tuned[1,](
        TensorDescriptor(x, x.shape, [64, 1], dummy),
        TensorDescriptor(y, y.shape, [64, 1], dummy),
        64,
    )
    np.testing.assert_array_equal(x, before)
    np.testing.assert_array_equal(y, x + 1)


def test_tuning_tells_types_of_arrays_behind_descriptors_apart() -> None:
    @tile.autotune([tile.Config({"B": b}) for b in (1, 2)], key=["N"])
    @tile.jit
    def tuned(x, N, B: tl.constexpr):
        x.store([0, 0], x.load([0, 0]) + B)

    for dtype in (np.float32, np.float16, np.float32):
        tuned[1,](described(aligned(16, 16, dtype=dtype), 16, 16), 16)
    assert len(tuned.cache) == 2


X = aligned(16, 32)
REFUSED = [
    (lambda: TensorDescriptor(X, [16], [32, 1], [16, 16]), ArgumentValueError, "1 extents, 2 strides and 2 extents"),
    (lambda: TensorDescriptor(X, 16, [32, 1], [16, 16]), ArgumentTypeError, "the shape of a TensorDescriptor is a sequence"),
    (lambda: TensorDescriptor(X, [-1, 32], [32, 1], [16, 16]), ArgumentValueError, "extents of a TensorDescriptor are 0 to"),
    (lambda: TensorDescriptor(X, [16, 32], [32, 2], [16, 16]), ArgumentValueError, "the last stride of a TensorDescriptor is 1, not 2"),
    (lambda: TensorDescriptor(X, [16, 32], [32, 1], [16, 16], "one"), ArgumentValueError, '"zero" or "nan", not'),
    (lambda: TensorDescriptor(X, [16, 32], [32, 1], [16, 16], "zero", True), ArgumentValueError, "leave round_f32_to_tf32 out"),
    (lambda: TensorDescriptor.from_tensor(X, [16, 16], round_f32_to_tf32=True), ArgumentValueError, "loads through a TensorDescriptor have no rounding"),
    (lambda: TensorDescriptor.from_tensor(X.T, [16, 16]), ArgumentValueError, "the last stride"),
    (lambda: TensorDescriptor.from_tensor(3, [16]), ArgumentTypeError, "is an array, not 3"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "error", "words"), REFUSED)
def test_descriptors_that_are_refused(make: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error) as refused:
        make()
    assert words in str(refused.value)


AT_LAUNCH = [
    (TensorDescriptor(X, [16, 32], [30, 1], [16, 16]), ArgumentValueError, "along axis 0 is 30 elements of fp32, 120 bytes; it is a multiple of 16"),
    (TensorDescriptor(X, [16, 16], [-32, 1], [16, 16]), ArgumentValueError, "and not negative"),
    (TensorDescriptor(X[:, 1:], [16, 31], [32, 1], [16, 16]), ArgumentValueError, "not a multiple of 16 bytes"),
    (TensorDescriptor(X, [17, 32], [32, 1], [16, 16]), ArgumentValueError, "reaches 544 elements from its base, which has 512"),
    (TensorDescriptor(X, [16, 32], [32, 1], [16, 24]), ArgumentValueError, "powers of two, and 24 is not"),
    (TensorDescriptor(X, [16, 32], [32, 1], [16, 2]), ArgumentValueError, "the least is 16, 4 elements"),
    (TensorDescriptor(X.astype(np.int32), [16, 32], [32, 1], [16, 16], "nan"), ArgumentValueError, "cannot be NaN"),
    (TensorDescriptor(X > 0, [16, 32], [32, 1], [16, 16]), ArgumentValueError, "elements of a number type, not i1"),
    (TensorDescriptor(3, [16, 32], [32, 1], [16, 16]), ArgumentTypeError, "the base of argument 'x' of scale() is an array, not 3"),
    (TensorDescriptor([1], [16, 32], [32, 1], [16, 16]), ArgumentTypeError, "the base of argument 'x' of scale() is of type list"),
]  # fmt: skip


@pytest.mark.parametrize(("desc", "error", "words"), AT_LAUNCH)
def test_descriptors_that_launches_refuse(
    desc: TensorDescriptor, error: type[Exception], words: str
) -> None:
    y = aligned(16, 32)
    before = y.copy()
    with pytest.raises(error) as refused:
        scale[1,](desc, described(y, 16, 16), 2)
    assert words in str(refused.value)
    np.testing.assert_array_equal(y, before)


def test_a_descriptor_of_a_read_only_array_is_not_written() -> None:
    y = aligned(16, 32)
    y.flags.writeable = False
    with pytest.raises(ArgumentValueError, match="is read-only, and the kernel writes to it"):
        scale[1,](described(X, 16, 16), described(y, 16, 16), 2)


def test_a_descriptor_for_an_array_parameter_is_refused() -> None:
    @tile.jit
    def copy(x, y):
        tl.store(y, tl.load(x))

    with pytest.raises(CompilationError, match="is a descriptor, which arithmetic does not accept"):
        copy[1,](described(X, 16, 16), np.zeros(1, np.float32))


@pytest.mark.parametrize(
    ("shape", "steps"),
    [
        ((8, 32), (32, 1)),
        ((8, 16), (32, 1)),
        ((1, 32), (7, 1)),
        ((8, 1), (32, 5)),
        ((0, 8), (8, 1)),
    ],
)
def test_torch_tensors_are_described_as_other_arrays(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, int], steps: tuple[int, int]
) -> None:
    """Also without adapting them, once a descriptor of this kind was made."""
    install(monkeypatch)
    memory = aligned(512)
    strides = tuple(step * memory.itemsize for step in steps)
    array = np.lib.stride_tricks.as_strided(memory, shape, strides)
    block = [4, 16]
    other = TensorDescriptor.from_tensor(array, block)
    monkeypatch.setattr(tensor_descriptor, "adapt", None)
    made = TensorDescriptor.from_tensor(FakeTensor(array), block)
    assert (made.shape, made.strides, made.padding) == (other.shape, other.strides, "zero")
    assert made.block_shape is block and made.base.array is array
    nan = TensorDescriptor.from_tensor(FakeTensor(array), (4, 16), "nan")
    assert nan.padding == "nan" and nan.block_shape == (4, 16)


@pytest.mark.parametrize(
    ("change", "arguments", "text"),
    [
        ({}, ([4],), "2 extents, 2 strides and 1 extents of a block"),
        ({}, ([4, 16], "one"), "the padding of a TensorDescriptor"),
        ({}, (4,), "the block_shape of a TensorDescriptor is a sequence"),
        ({}, ([4, []],), "the block_shape of a TensorDescriptor is a sequence"),
        ({"layout": "torch.sparse_coo"}, ([4, 16],), "torch.sparse_coo"),
        ({"dtype": "torch.quint4x2"}, ([4, 16],), "quint4x2"),
        ({"stride": lambda: (1, 8)}, ([4, 16],), "the last stride of a TensorDescriptor is 1"),
    ],
)
def test_torch_tensors_are_refused_as_other_arrays(
    monkeypatch: pytest.MonkeyPatch, change: dict[str, Any], arguments: Any, text: str
) -> None:
    install(monkeypatch)
    tensor = FakeTensor(aligned(256).reshape(8, 32))
    TensorDescriptor.from_tensor(tensor, [4, 16])
    for name, value in change.items():
        setattr(tensor, name, value)
    for _ in range(2):
        with pytest.raises(ArgumentError, match=text):
            TensorDescriptor.from_tensor(tensor, *arguments)


def test_a_subclass_makes_its_own_descriptors(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)

    class Counted(TensorDescriptor):
        made = 0

        def __post_init__(self) -> None:
            Counted.made += 1

    tensor = FakeTensor(aligned(256).reshape(8, 32))
    for _ in range(2):
        assert type(Counted.from_tensor(tensor, [4, 16])) is Counted
    assert Counted.made == 2


def test_arrays_that_no_descriptor_describes() -> None:
    raw = np.zeros(1024, np.uint8)
    odd = np.ndarray((8, 8), np.float32, raw, strides=(34, 4))
    with pytest.raises(
        ArgumentValueError, match="strides are whole elements; along axis 0 this on"
    ):
        TensorDescriptor.from_tensor(odd, [8, 8])
    pointers = tile.pointers([np.zeros(16, np.float32)] * 16).reshape(4, 4)
    y = described(aligned(4, 4), 4, 4)
    for base in (pointers, tile.MockArray("**fp32")):
        x = TensorDescriptor(base, [4, 4], [4, 1], [4, 4])
        with pytest.raises(ArgumentTypeError, match=r"'x' of scale.*of a number type, no pointers"):
            scale[(1,)](x, y, 2.0)
