"""Every kernel compiles for an H100 with the configurations of its table, and ptxas takes its PTX."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable, Iterator
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tile
from tests.ops.cases import EVERYWHERE, FIRST, Case, function_of
from tests.sampling import crossed, sample
from tile.ops.linear.configurations import tiles
from tile.ops.linear.int4_expanded import EXPANDED_BYTES
from tile.runtime.jit import JITFunction

pytest.importorskip("llvmlite")
from tests.backends.nvptx.assembling import assemble
from tests.backends.nvptx.test_dependent_launch import ACCESS, WAIT


def _compile_only(
    monkeypatch: pytest.MonkeyPatch, note: Callable[[str, dict[str, Any]], None]
) -> None:
    """Let ops compile their kernels instead of launching them; `note` gets names and stages."""

    def select(kernel: JITFunction[..., Any], grid: Any) -> Any:
        def launch(*args: Any, **options: Any) -> None:
            note(kernel.__name__, kernel.warmup(*args, grid=grid, **options).asm)

        return launch

    monkeypatch.setattr(JITFunction, "__getitem__", select)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Compile kernels instead of launching them; the result is the PTX by name."""
    texts: dict[str, str] = {}
    _compile_only(monkeypatch, lambda name, stages: texts.update({name: stages["ptx"]}))
    return texts


@pytest.fixture
def thread_ir(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Compile kernels instead of launching them; the result is the IR of threads, in order."""
    texts: list[str] = []
    _compile_only(monkeypatch, lambda _, stages: texts.append(stages["thread"]))
    return texts


def every_case() -> Iterator[Any]:
    """Yield each case: all of a GPU's kernels nightly, those of the first case of each op always."""
    for case in EVERYWHERE:
        marks = () if case in FIRST or case.label == "gradient of slopes" else pytest.mark.nightly
        yield pytest.param(case, id=f"{case.op}-{case.label}", marks=marks)


@pytest.mark.parametrize("case", list(every_case()))
def test_ptx_is_assembled(case: Case, compiled: dict[str, str]) -> None:
    dtype = "float16" if "float16" in case.dtypes else case.dtypes[0]
    args, options = case.arguments(dtype)
    with tile.backend("nvptx:sm_90a"):
        function_of(case.op)(*args, **options)
    assert compiled
    for text in compiled.values():
        assert not accesses_before_waiting(text)
        assemble(text, "sm_90a")


@pytest.mark.parametrize("rows", [32, 64, 128, 256])
def test_weights_of_tiles_are_converted_while_a_dot_is_in_flight(
    rows: int, thread_ir: list[str]
) -> None:
    """An iteration has one dot, after which it waits for that of the iteration before."""
    packed = np.zeros((64, 8192, 64), np.uint8).swapaxes(0, 1)
    with tile.backend("nvptx:sm_90a"):
        scales = np.zeros((64, 8192), np.float32).T
        tile.ops.int4_matmul(np.zeros((rows, 8192), np.float16), packed, scales)
    text = thread_ir[0]
    loop = text[text.index("for %step") : text.index("yield")]
    assert loop.count(" = wgmma ") == 1 and loop.count("{pending = 1} : frag") == 1
    assert loop.count("tma_load") == 1


def test_weights_are_expanded_while_a_dot_is_in_flight(
    thread_ir: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One store, one barrier and two prefetches an iteration; no wait for the iteration's dot."""
    monkeypatch.setitem(EXPANDED_BYTES, "nvptx", 2**21)
    # By groups before rows, as `pack_int4` stores them.
    packed = np.zeros((4, 4096, 64), np.uint8).swapaxes(0, 1)
    with tile.backend("nvptx:sm_90a"):
        tile.ops.int4_matmul(np.zeros((2048, 512), np.float16), packed, np.zeros((4, 4096), "f4").T)
    first, multiply, last = thread_ir
    loop = re.search(r" = for .*?\n  }", multiply, re.S)
    assert loop is not None and "wgmma" not in first and "inline_asm" not in last
    operations = re.findall(r"^ +(?:%[^=]*= )?(\w+)", loop[0], re.M)
    counted = ("wgmma", "tma_load", "inline_asm", "prefetch", "store", "barrier")
    assert [operations.count(name) for name in counted] == [1, 2, 1, 2, 1, 1]
    assert re.findall("pending = .", loop[0]) == ["pending = 1"]


def accesses_before_waiting(text: str) -> str:
    """Return the accesses in front of the wait for the launch before, of a kernel that has one."""
    start, wait = text.index(".entry"), text.find(WAIT)
    return " ".join(match[0] for match in ACCESS.finditer(text, start, max(start, wait)))


@pytest.mark.parametrize(("rows", "kind"), sample([16, 256, 2048], ["f16", "bf16"]))
def test_weights_of_4_bits_are_converted_two_at_a_time(
    rows: int, kind: str, compiled: dict[str, str]
) -> None:
    dtype = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}[kind]
    a, packed = np.zeros((rows, 512), dtype), np.zeros((512, 256), np.uint8)
    with tile.backend("nvptx:sm_90a"):
        tile.ops.int4_matmul(a, packed, np.zeros((512, 4), np.float32))
    names = {16: "int4_rows_kernel", 256: "int4_matmul_kernel", 2048: "expand_int4_kernel"}
    text = compiled[names[rows]]
    assert f"fma.rn.{kind}x2" in text and "cvt.rn.f32.s32" not in text
    # Only scales are converted one at a time.
    assert text[: text.rfind("bra")].count(f"cvt.rn.{kind}.f32") <= 16


@pytest.mark.parametrize("rows", [1, 16])
def test_warps_with_weights_of_4_bits_do_not_wait_for_each_other(
    rows: int, compiled: dict[str, str]
) -> None:
    a, packed = np.zeros((rows, 8192), np.float16), np.zeros((512, 4096), np.uint8)
    with tile.backend("nvptx:sm_90a"):
        tile.ops.int4_matmul(a, packed, np.zeros((512, 64), np.float32))
    text = compiled["int4_rows_kernel"]
    dots = text[text.find("mma.sync") : text.rfind("mma.sync")]
    assert "bar.sync" not in dots and "shared" not in dots
    # A lane loads a scale, which others take from it, or four.
    assert text.count("shfl.sync.idx") == (4 if rows == 16 else 0)


def zeros(*shape: int) -> np.ndarray:
    return np.zeros(shape, np.float16)


MATMULS: dict[str, tuple[np.ndarray, np.ndarray, dict[str, Any]]] = {
    "rows": (zeros(512, 512), zeros(512, 512), {}),
    "a by columns": (zeros(512, 512).T, zeros(512, 512), {}),
    "b by columns": (zeros(512, 512), zeros(512, 512).T, {}),
    "no multiples of tiles": (zeros(100, 304), zeros(304, 200), {}),
    "batches": (zeros(4, 256, 512), zeros(4, 512, 256), {}),
    "one b for all batches": (zeros(4, 256, 512), zeros(512, 256), {}),
    "parts of arrays": (zeros(512, 1024)[:, 512:], zeros(512, 1024)[:, :512], {}),
    "even splits": (zeros(256, 6144), zeros(6144, 256), {"splits": 4}),
    "uneven splits": (zeros(256, 1760), zeros(1760, 256), {"splits": 4}),
    "gelu": (zeros(512, 512), zeros(512, 512), {"bias": zeros(512), "activation": "gelu"}),
}


@pytest.mark.parametrize("name", MATMULS)
def test_operands_of_matmuls_are_loaded_by_tma(name: str, compiled: dict[str, str]) -> None:
    """No warning says that a load is not proven to be that of a block."""
    a, b, options = MATMULS[name]
    with tile.backend("nvptx:sm_90a"):
        tile.ops.matmul(a, b, **options)
    text = compiled["matmul_kernel"]
    assert "cp.async.bulk.tensor" in text and "cp.async.cg" not in text


def test_programs_of_convolutions_divide_three_times(compiled: dict[str, str]) -> None:
    """One division finds a tile, and two the image and the row of its first pixel."""
    with tile.backend("nvptx:sm_90a"):
        tile.ops.conv2d(zeros(4, 56, 56, 128), zeros(256, 3, 3, 128), padding=1)
    assert compiled["im2col_conv2d_kernel"].count("div.s32") == 3


def test_convolutions_of_many_tiles_have_a_producer(compiled: dict[str, str]) -> None:
    with tile.backend("nvptx:sm_90a"):
        tile.ops.conv2d(zeros(64, 56, 56, 64), zeros(64, 3, 3, 64), padding=1)
    text = compiled["im2col_conv2d_kernel"]
    assert "setmaxnreg" in text and "st.global" not in text


@pytest.mark.parametrize(("m", "n", "k"), [(16, 512, 512), (64, 512, 512), (512, 512, 16384)])
def test_launches_of_few_tiles_are_dependent(
    m: int, n: int, k: int, compiled: dict[str, str]
) -> None:
    """The kernels wait for the launch before in front of all accesses of memory."""
    with tile.backend("nvptx:sm_90a"):
        tile.ops.matmul(zeros(m, k), zeros(k, n))
    assert ("add_splits_kernel" in compiled) == (k == 16384)
    for text in compiled.values():
        access = re.search(r"(ld|st)\.global|cp\.async(\.bulk)?\.[a-z]*\S* \[", text)
        assert access is not None
        assert text.index("griddepcontrol.wait;") < access.start()


def test_other_operands_of_matmuls(compiled: dict[str, str]) -> None:
    """Threads copy rows that do not begin at multiples of 16 bytes; TMA loads the others.

    A copy with other strides would be used too little.
    """
    with tile.backend("nvptx:sm_90a"):
        tile.ops.matmul(zeros(24, 512), zeros(512, 300))
    assert "copy_rows_kernel" not in compiled
    assert "cp.async.ca.shared" in compiled["matmul_kernel"]


@pytest.mark.parametrize("n", [513, 516])
def test_rows_are_copied_for_tma(n: int, compiled: dict[str, str]) -> None:
    """Copies are stored by vectors, also those of single elements."""
    with tile.backend("nvptx:sm_90a"):
        tile.ops.matmul(zeros(512, n), zeros(n, 512).T.copy().T)
    assert "cp.async.bulk.tensor" in compiled["matmul_kernel"]
    text = compiled["copy_rows_kernel"]
    assert ("ld.global.b16" if n % 2 else "ld.global.v2.b32") in text
    assert ("st.global.v4.b32" if n % 2 else "st.global.v2.b32") in text


@pytest.mark.parametrize(("k", "columns"), [(1792, 16), (1760, 16), (1792, 32)])
def test_wgmmas_of_narrow_tiles_are_not_serialized(
    k: int, columns: int, compiled: dict[str, str]
) -> None:
    """They are if ptxas may select between accumulators before it rounds them."""
    with tile.backend("nvptx:sm_90a"):
        tile.ops.matmul(zeros(8192, k), zeros(k, columns))
    text = compiled["matmul_kernel"]
    assert f"wgmma.mma_async.sync.aligned.m64n{columns}k16" in text and "cvt.rn.f16x2.f32" in text
    assert "C75" not in assemble(text, "sm_90a")


def test_slices_of_float32_matmuls_share_addresses(
    compiled: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A slice differs from the first one by an XOR for each operand, and not for each register."""
    module = importlib.import_module("tile.ops.linear.strided_matmul")
    monkeypatch.setattr(module, "tiles_of", lambda *_: tiles(128, 128, 16, 8))
    with tile.backend("nvptx:sm_90a"):
        tile.ops.matmul(np.zeros((384, 512), np.float32), np.zeros((512, 256), np.float32))
    text, slices = compiled["matmul_kernel"], 4
    loop = re.search(r"(\$L__BB0_\d+):[^:]*bra \t\1;", text)
    assert loop is not None
    assert loop[0].count("ld.shared.v4") >= 16 * slices
    assert loop[0].count("xor.b32") == 2 * (slices - 1)
    assemble(text, "sm_90a")


def test_linear_cross_entropy_loads_by_tma(compiled: dict[str, str]) -> None:
    """Ranges of classes are parts of the weight's array, whose ends are arguments."""
    x, weight, target = zeros(512, 256), zeros(1024, 256), np.zeros(512, np.int64)
    sums = np.zeros(512, np.float32)
    with tile.backend("nvptx:sm_90a"):
        tile.ops.linear_cross_entropy(x, weight, target)
        for largest in (2**27, 512 * 384):
            tile.ops.linear_cross_entropy_backward(sums, x, weight, target, sums, largest=largest)
            for name in ("logits_kernel", "logits_gradient_kernel", "gradient_kernel"):
                assert "cp.async.bulk.tensor" in compiled[name]
                assert "cp.async.cg" not in compiled[name]


def test_wgmmas_after_an_assertion_are_not_serialized(compiled: dict[str, str]) -> None:
    """Ptxas serializes those of a kernel that may call a function of the driver."""
    a, b = zeros(512, 256), zeros(2, 256, 256)
    with tile.backend("nvptx:sm_90a"):
        tile.ops.grouped_matmul(a, b, np.array([256, 512], np.int32))
    text = compiled["grouped_matmul_kernel"]
    assert "wgmma.mma_async" in text and "tile_fault_record" in text and "trap;" in text
    assert "C7510" not in assemble(text, "sm_90a")


def test_attention_of_floats(compiled: dict[str, str]) -> None:
    """Its dots by FMA read slices of blocks that descriptors load."""
    x = zeros(1, 2, 40, 64).astype(np.float32)
    with tile.backend("nvptx:sm_90a"):
        tile.ops.attention(x, x, x)
    assert "fma.rn.f32" in compiled["attention_kernel"]


@crossed({"size": [64, 128], "length": [4096, 256, 200], "causal": [False, True]})
def test_attention_neither_spills_nor_serializes_wgmmas(
    size: int, length: int, causal: bool, compiled: dict[str, str]
) -> None:
    x, sums = zeros(2, 4, length, size), np.zeros((2, 4, length), np.float32)
    with tile.backend("nvptx:sm_90a"):
        tile.ops.attention(x, x, x, causal=causal)
        tile.ops.attention_backward(x, x, x, x, x, sums, causal=causal)
    assert {"attention_kernel", "descriptor_kv_kernel", "descriptor_q_kernel"} <= compiled.keys()
    for name, text in compiled.items():
        log = assemble(text, "sm_90a")
        assert "C75" not in log, name
        if length % 128 == 0:  # masks of the last blocks take registers
            assert "spill" not in log.replace("0 bytes spill", ""), name


@pytest.mark.parametrize("causal", [False, True])
def test_attention_of_sequences_has_a_producer(causal: bool, compiled: dict[str, str]) -> None:
    x, starts = zeros(8192, 16, 128), np.array([0, 2048, 8192], np.int32)
    with tile.backend("nvptx:sm_90a"):
        tile.ops.varlen_attention(x, x, x, starts, starts, 6144, causal, scale=-1.0)
    text = compiled["varlen_kernel"]
    log = assemble(text, "sm_90a")
    assert "setmaxnreg" in text and "cp.async.bulk.tensor.4d.global" in text
    assert "C75" not in log and "spill" not in log.replace("0 bytes spill", "")


@pytest.mark.parametrize(("size", "causal"), sample([64, 128], [False, True]))
def test_attention_of_sequences_without_a_running_maximum(
    size: int, causal: bool, compiled: dict[str, str]
) -> None:
    """At most 16 numbers are spilled, for the result: they are stored before the loops."""
    x, starts = zeros(8192, 16, size), np.array([0, 2048, 8192], np.int32)
    with tile.backend("nvptx:sm_90a"):
        tile.ops.varlen_attention(x, x, x, starts, starts, 6144, causal)
    text = compiled["attention_kernel"]
    log = assemble(text, "sm_90a")
    assert "redux.sync.or" in text and "cp.async.bulk.tensor.4d" in text
    assert "C75" not in log
    assert all(int(spilled) <= 16 * 4 for spilled in re.findall(r"(\d+) bytes spill", log))


@pytest.mark.parametrize("causal", [False, True])
def test_sums_of_attention_are_exchanged_after_the_loops(
    causal: bool, compiled: dict[str, str]
) -> None:
    """A loop exchanges the maxima of two queries by two shuffles each; the sums take as many."""
    x, slopes = zeros(1, 8, 2048 if causal else 4096, 64), np.ones(8, np.float32)
    with tile.backend("nvptx:sm_90a"):
        tile.ops.attention(x, x, x, causal=causal, slopes=slopes)
    text = compiled["attention_kernel"]
    assert text.count("shfl.sync.bfly") == 2 * 2 * 2
    log = assemble(text, "sm_90a")
    assert "C75" not in log and "spill" not in log.replace("0 bytes spill", "")


@pytest.mark.parametrize(("size", "causal"), sample([64, 128], [False, True]))
def test_warps_raise_the_origin_of_attention_alone(
    size: int, causal: bool, thread_ir: list[str]
) -> None:
    """No barrier holds warps together in the loop without a running maximum."""
    x = zeros(1, 8, 4096, size)
    with tile.backend("nvptx:sm_90a"):
        tile.ops.attention(x, x, x, causal=causal)
    loop = re.search(r" = for .*?\n  }", thread_ir[0], re.S)
    assert loop is not None and "wgmma" in loop[0] and "mbarrier_arrive" in loop[0]
    assert re.search(r"^ +%\w+ = warp_reduce .*kind = or", loop[0], re.M)
    assert not re.search(r"^ +barrier$", loop[0], re.M)


@pytest.mark.parametrize(("size", "causal"), sample([128, 256], [False, True]))
def test_programs_of_several_blocks_have_a_producer(
    size: int, causal: bool, compiled: dict[str, str]
) -> None:
    """It loads the queries, too; nothing spills."""
    x = zeros(1, 132, 2048, size)  # few keys have smaller tiles, without one
    scale = -1.0 if size == 128 else None  # so that the loop has a running maximum
    with tile.backend("nvptx:sm_90a"):
        tile.ops.attention(x, x, x, causal=causal, scale=scale, log_sums=True)
    text = compiled["attention_kernel"]
    assert "setmaxnreg" in text and "ld.global" not in text
    log = assemble(text, "sm_90a")
    assert "C75" not in log and "spill" not in log.replace("0 bytes spill", "")


@pytest.mark.parametrize("transposed", [False, True])
def test_large_grouped_matmuls_have_producer_warps(
    transposed: bool, compiled: dict[str, str]
) -> None:
    a, b, ends = zeros(8192, 2048), zeros(8, 2048, 2048), np.array([8192] * 8, np.int32)
    with tile.backend("nvptx:sm_90a"):
        tile.ops.grouped_matmul(a, b.swapaxes(1, 2) if transposed else b, ends)
        tile.ops.grouped_matmul_wgrad(a, a, ends)
    assert compiled.keys() == {"grouped_programs_kernel", "grouped_wgrad_programs_kernel"}
    for text in compiled.values():
        assert "setmaxnreg" in text and "st.global" not in text
        assert "C75" not in assemble(text, "sm_90a")


def test_planes_are_copied_and_stored_by_vectors(compiled: dict[str, str]) -> None:
    """Four pixels of a plane of 14 x 14 are adjacent in memory and in one image."""
    with tile.backend("nvptx:sm_90a"):
        tile.ops.conv2d(zeros(32, 256, 14, 14), zeros(256, 256, 3, 3), padding=1, layout="NCHW")
    copy, text = (compiled[name] for name in ("copy_images_kernel", "im2col_conv2d_kernel"))
    assert "ld.global.v2.b32" in copy and "st.global.v4.b32" in copy
    assert "st.global.v2.b32" in text and "st.global.b16" not in text
