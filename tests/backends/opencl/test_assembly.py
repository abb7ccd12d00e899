"""Inline assembly: that PTX's assembler takes it, and that what surrounds it is right.

No machine for tests has an NVIDIA GPU. So the assembly itself is given to the assembler, and the
text of whole kernels runs elsewhere with each of its functions said in OpenCL C.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("pyopencl")
pytest.importorskip("llvmlite")  # which the tools of assembling import

from tests.backends.nvptx.assembling import assemble
from tests.backends.opencl.test_kernels import results
from tests.simt.kernels import KERNELS
from tests.simt.test_lowering import agree
from tile.backends.base import Options
from tile.backends.opencl import BACKEND, devices
from tile.backends.opencl.compiler import emit_module
from tile.backends.opencl.emit import helper_functions
from tile.backends.opencl.emit.helper_functions import Entry
from tile.backends.opencl.launch import LoadedKernel
from tile.backends.opencl.launch_metadata import LaunchMetadata
from tile.backends.opencl.target import NAMED
from tile.backends.opencl.tuning import SIMD_CPU
from tile.errors import UnsupportedError
from tile.ir.ops.reduce import ReduceKind
from tile.ir.parser import parse_module
from tile.ir.semantics import numpy_dtype
from tile.ir.types import SCALARS
from tile.simt.target import REDUCTIONS

STATEMENT = re.compile(r'__asm__(?: volatile)?\("(.*?);"\s*:(.*)\)', re.S)
OPERAND = re.compile(r'"=?([rlf])"')


def ptx_of(entry: Entry) -> str:
    """A kernel in PTX of an entry's statement, whose operands are registers of these kinds."""
    text = entry.text.replace('" #pending "', "2")
    instruction, operands = STATEMENT.search(text).groups()
    for number, kind in enumerate(OPERAND.findall(operands)):
        instruction = instruction.replace(f"%{number}", f"%{kind}{number}", 1)
    instruction = instruction.replace("%%", "%")  # a special register
    return (
        f".version 7.0\n.target sm_{max(entry.assembly, 75)}\n.address_size 64\n"
        ".visible .entry k() {\n.reg .b32 %r<4>;\n.reg .b64 %l<4>;\n.reg .f32 %f<4>;\n"
        f"{instruction};\nret;\n}}\n"
    )


@pytest.mark.parametrize("name", [n for n in helper_functions.ASSEMBLY if not n.endswith("_64")])
def test_the_assembler_takes_it(name: str) -> None:
    entry = helper_functions.ASSEMBLY[name]
    assemble(ptx_of(entry), f"sm_{max(entry.assembly, 75)}")


def test_capabilities_of_assembly() -> None:
    """Older ones have fewer instructions, and what has none takes other ways."""
    now = NAMED["nvidia"]
    assert now.shuffles and now.simt.cp_async_bytes == (4, 8, 16) and now.simt.warp_reductions
    older = replace(now, assembly=70).simt
    assert older.shuffles and not older.cp_async_bytes and not older.warp_reductions
    none = replace(now, assembly=0).simt
    assert not none.shuffles and not none.cp_async_bytes
    assert now.build_options[0] == "-cl-std=CL1.2"


def text_of(kernel: str, target: str = "opencl:nvidia", **options: int) -> str:
    source = KERNELS[kernel].compile(target, **options).asm["opencl"]
    assert isinstance(source, str)
    return source


def test_lanes_are_read_by_words() -> None:
    text = text_of("softmax", num_warps=4)
    assert re.search(r"float v\d+ = as_float\(lane_shuffle_xor\(as_uint\(v\d+\), 1u\)\);", text)
    assert "reqd_work_group_size(128, 1, 1)" in text and "thread = get_local_id(0);" in text
    assert "sub_group" not in text


def test_copies_are_asynchronous() -> None:
    text = text_of("matmul_f32", num_warps=4, num_stages=3)
    assert "async_copy_16" in text and "async_commit();" in text and "async_wait(1);" in text
    assert "async" not in text_of("matmul_f32", num_warps=4, num_stages=1)


def test_other_devices_are_refused(runtime: None) -> None:
    if devices.chosen().capabilities.assembly:
        pytest.skip("the device takes PTX")
    kernel = KERNELS["softmax"]
    compiled, arguments = kernel.compile("opencl:nvidia"), kernel.arguments()
    before = [array.copy() for array in results(arguments)]
    with pytest.raises(UnsupportedError, match=r"compiled for nvidia, and needs PTX of .* 7\.0 as"):
        BACKEND.load(compiled.artifact).launch(kernel.grid, arguments)
    for array, old in zip(results(arguments), before, strict=True):
        np.testing.assert_array_equal(array, old)


# -- what the functions do, in the words of sub-groups

COPY = """void {name}(__local void *to, __global const void *from{parameter}) {{
  for (uint i = 0; i < {size}; i++)
    ((__local char *)to)[i] = {read}((__global const char *)from)[i]{otherwise};
}}"""
REDUCE = """uint {name}(uint x) {{
  uint result = x;
  for (uint mask = 1; mask < 32; mask *= 2) {{
    uint other = sub_group_shuffle_xor(result, mask);
    result = {combined};
  }}
  return result;
}}"""
COMBINED = {
    "add": "result + other",
    "min": "min(({kind})result, ({kind})other)",
    "max": "max(({kind})result, ({kind})other)",
    "and": "result & other",
    "or": "result | other",
    "xor": "result ^ other",
}

ROUNDED = {
    "div_rn_f32": "float div_rn_f32(float x, float y) { return (float)((double)x / y); }",
    "sqrt_rn_f32": "float sqrt_rn_f32(float x) { return (float)sqrt((double)x); }",
}


def in_other_words(name: str) -> str:
    """A function of assembly as OpenCL C has it for sub-groups of 32."""
    if name.startswith("lane_shuffle"):
        operand = "mask" if "xor" in name else "lane"
        word = "ulong" if name.endswith("_64") else "uint"
        what = name.removeprefix("lane_").removesuffix("_64")
        return (
            f"{word} {name}({word} x, uint {operand}) {{ return sub_group_{what}(x, {operand}); }}"
        )
    if name.startswith("lane_"):
        _, what, suffix = name.split("_")
        kind = "int" if suffix == "s32" else "uint"
        return REDUCE.format(name=name, combined=COMBINED[what].format(kind=kind))
    if name in ROUNDED:
        return ROUNDED[name]
    if name.startswith("async_copy"):
        guarded = name.endswith("_if")
        size = re.search(r"\d+", name)[0]
        texts = (", bool in_bounds", "in_bounds ? ", " : 0") if guarded else ("", "", "")
        parameter, read, otherwise = texts
        return COPY.format(
            name=name, size=size, parameter=parameter, read=read, otherwise=otherwise
        )
    return "#define async_wait(pending)" if name == "async_wait" else f"void {name}(void) {{}}"


Words = Callable[[LaunchMetadata], LaunchMetadata]


@pytest.fixture
def elsewhere(runtime: None, monkeypatch: pytest.MonkeyPatch) -> Words:
    """Makes programs of the class run on a device with sub-groups of 32."""
    needed = {"cl_khr_subgroup_shuffle", "cl_intel_required_subgroup_size"}
    if not needed <= devices.extensions_of(devices.chosen().raw):
        pytest.skip("the device has no sub-groups of 32")
    for name in helper_functions.ASSEMBLY:
        monkeypatch.setitem(helper_functions.ASSEMBLY, name, Entry(in_other_words(name)))

    def changed(emitted: LaunchMetadata) -> LaunchMetadata:
        kernel = "__kernel\n__attribute__((intel_reqd_sub_group_size(32)))"
        text = re.sub(r"(?m)^__kernel$", kernel, emitted.numbered)
        return replace(emitted, numbered=text, build_options=("-cl-std=CL3.0", "-cl-opt-disable"))

    return changed


@pytest.mark.parametrize(
    "name", ["softmax", "column_sums", "gathering", "running_sum", "combining", "counting"]
)
def test_what_surrounds_it_is_right(elsewhere: Words, name: str) -> None:
    runs_elsewhere(elsewhere, name, "", num_warps=4)


def runs_elsewhere(elsewhere: Words, name: str, called: str, **options: int) -> None:
    """A kernel, which calls such a function, gives what the interpreter gives."""
    kernel = KERNELS[name]
    artifact = kernel.compile("opencl:nvidia", **options).artifact
    emitted = elsewhere(LaunchMetadata.of(artifact.launch_metadata))
    assert (
        emitted.assembly == 0 and "__asm__" not in emitted.numbered and called in emitted.numbered
    )
    actual, wanted = kernel.arguments(), kernel.arguments()
    BACKEND.load(replace(artifact, launch_metadata=emitted.data())).launch(kernel.grid, actual)
    kernel.compile("interp").executable.launch(kernel.grid, wanted)
    agree(kernel, results(actual), results(wanted))


LANES = """
kernel @lanes(%p: ptr<{0}>) {{
  %i = layout_index {{layout = #linear{{register = [], lane = [[1],[2],[4],[8],[16]],
    warp = [[32]] -> dim0 = 64}}}} : frag<1xi32>
  %q = frag_splat %p {{count = 1}} : frag<1xptr<{0}>>
  %r = addptr %q, %i {{stride = {1}}} : frag<1xptr<{0}>>
  %x = load %r : frag<1x{0}>
  {2}
  store %r, %y
  return
}}
"""


def lanes(elsewhere: Words, element: str, statement: str, x: np.ndarray) -> np.ndarray:
    """Run a statement on 64 elements `%x`, one in each thread of two warps."""
    module = parse_module(LANES.format(element, x.itemsize, statement))
    _, emitted = emit_module(module, NAMED["nvidia"], Options(num_warps=2))
    out = x.copy()
    LoadedKernel("lanes", elsewhere(emitted), ["p"], [True]).launch((1, 1, 1), [out])
    return out


WHERE = np.arange(64)


def test_what_is_rounded_to_nearest_says_so(elsewhere: Words) -> None:
    x = np.random.default_rng(0).uniform(0.1, 9, 64).astype(np.float32)
    statement = """%three = const {value = 3.0} : frag<1xf32>
  %z = div_rn %x, %three : frag<1xf32>
  %y = sqrt_rn %z : frag<1xf32>"""
    wanted = np.sqrt(x / np.float32(3), dtype=np.float32)
    np.testing.assert_array_equal(lanes(elsewhere, "f32", statement, x), wanted)


@pytest.mark.parametrize("element", ["i8", "u16", "i32", "i64", "f16", "bf16", "f32", "f64"])
def test_elements_of_every_width_are_moved(elsewhere: Words, element: str) -> None:
    size = SCALARS[element].itemsize
    x = np.random.default_rng(0).integers(0, 255, (64, size), np.uint8).view(f"u{size}")[:, 0]
    x = x.view(numpy_dtype(SCALARS[element]))
    bits = f"u{size}"
    ty = f"frag<1x{element}>"
    actual = lanes(elsewhere, element, f"%y = shuffle_xor %x {{mask = 18}} : {ty}", x)
    np.testing.assert_array_equal(actual.view(bits), x[WHERE ^ 18].view(bits))
    chosen = f"%l = const {{value = 7}} : i32\n  %y = shuffle_idx %x, %l : {ty}"
    actual = lanes(elsewhere, element, chosen, x)
    np.testing.assert_array_equal(actual.view(bits), x[WHERE & 32 | 7].view(bits))


def test_truths_are_moved(elsewhere: Words) -> None:
    x = np.random.default_rng(0).integers(0, 2, 64, np.int32)
    statement = """%z = const {value = 0} : frag<1xi32>
  %c = cmp %x, %z {predicate = ne} : frag<1xi1>
  %d = shuffle_xor %c {mask = 1} : frag<1xi1>
  %y = cast %d {to = i32} : frag<1xi32>"""
    np.testing.assert_array_equal(lanes(elsewhere, "i32", statement, x), x[WHERE ^ 1])


@pytest.mark.parametrize("element", ["i32", "u32"])
@pytest.mark.parametrize("kind", REDUCTIONS)
def test_lanes_are_combined(elsewhere: Words, kind: ReduceKind, element: str) -> None:
    dtype = numpy_dtype(SCALARS[element])
    x = np.random.default_rng(0).integers(-(2**31), 2**31, 64).astype(dtype)
    statement = f"%y = warp_reduce %x {{kind = {kind.value}}} : frag<1x{element}>"
    wanted = np.repeat(MEANINGS[kind].reduce(x.reshape(2, 32), axis=1, dtype=dtype), 32)
    np.testing.assert_array_equal(lanes(elsewhere, element, statement, x), wanted)


MEANINGS = {
    ReduceKind.SUM: np.add,
    ReduceKind.MAX: np.maximum,
    ReduceKind.MIN: np.minimum,
    ReduceKind.AND: np.bitwise_and,
    ReduceKind.OR: np.bitwise_or,
    ReduceKind.XOR: np.bitwise_xor,
}


@pytest.mark.parametrize(
    ("name", "warps", "called"),
    [
        ("matmul_f32", 2, "async_copy_16"),
        ("matmul_f16", 4, "async_copy_16"),
        ("matmul_into_f16", 16, "async_copy_8"),  # more threads than there is to copy
    ],
)
def test_copies_fill_what_is_multiplied(
    elsewhere: Words, monkeypatch: pytest.MonkeyPatch, name: str, warps: int, called: str
) -> None:
    """With loops over registers, since Intel's runtime takes half a minute for all of them."""
    short = replace(NAMED["nvidia"], tuning=SIMD_CPU, loops="unroll 1")
    monkeypatch.setitem(NAMED, "nvidia", short)
    runs_elsewhere(elsewhere, name, called, num_warps=warps, num_stages=3)
