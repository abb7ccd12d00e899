"""`tile compile` of kernels that copy by TMA: their tensor maps in C."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from cuda.bindings import driver as cuda

from tests.backends.nvptx.c_programs import (
    CHECK,
    DRIVER,
    build,
    build_for_device,
    device_architecture,
    run,
)
from tile.backends.nvptx import driver
from tile.backends.nvptx.aot_maps import c_map, can_encode
from tile.backends.nvptx.launch_metadata import (
    MAP_ELEMENTS,
    LaunchMetadata,
    LaunchValue,
    TensorMap,
)
from tile.tools.cli import main

KERNEL = """
import tile
import tile.language as tl

@tile.jit
def product(a, b, c, K):
    row, column = tl.program_id(0) * 64, tl.program_id(1) * 64
    total = tl.zeros((64, 64), dtype=tl.float32)
    for k in range(0, K, 64):
        total = tl.dot(a.load([row, k]), b.load([k, column]), total)
    c.store([row, column], total.to(tl.float16))
"""
TYPES = [f"{name}=tensordesc<fp16[64,64]>" for name in "abc"]


def compile_to(out: Path, target: str) -> None:
    (out / "product.py").write_text(KERNEL)
    command = ["compile", f"{out / 'product.py'}:product", *TYPES, "K=i32", "-t", target]
    assert main([*command, "-o", str(out), "-p", "num_warps=4"]) == 0


PROGRAM = """
#include "product.h"

int main(void) {
  product_kernel kernel;
  if (product_load(&kernel) != CUDA_SUCCESS)
    return 1;
  if (product_launch(&kernel, 2, 3, 1, 0, 0x1000, 128, 96, 96, 0x2000, 96, 192, 200, 0x3000, 128,
          COLUMNS, 192, 96) != CUDA_SUCCESS)
    return 2;
  return product_unload(&kernel) != CUDA_SUCCESS;
}
"""
ENCODE = r"""
CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType type, cuuint32_t rank,
    void *array, const cuuint64_t *extents, const cuuint64_t *strides, const cuuint32_t *box,
    const cuuint32_t *steps, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
    CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
  printf("map %d of rank %u at %#lx: %lu %lu, %lu bytes; box %u %u, steps %u %u, swizzle %d\n",
      (int)type, rank, (unsigned long)(uintptr_t)array, (unsigned long)extents[0],
      (unsigned long)extents[1], (unsigned long)strides[0], box[0], box[1], steps[0], steps[1],
      (int)swizzle);
  if (interleave || promotion != CU_TENSOR_MAP_L2_PROMOTION_L2_128B || fill)
    return CUDA_ERROR_INVALID_VALUE;
  map->opaque[0] = 7;
  return strides[0] % 16 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}
"""
ARGUMENTS = r"""
  int count = 0;
  while (arguments[count])
    count++;
  printf("%d arguments\n", count);
"""


def posed(out: Path, columns: int) -> list[str]:
    """Return what is printed for a result of so many columns."""
    (out / "program.c").write_text(PROGRAM.replace("COLUMNS", str(columns)))
    text = DRIVER.replace("ARGUMENTS", ARGUMENTS).replace("--loads ?", "--loads < 0 ?")
    (out / "driver.c").write_text(text + ENCODE)
    return run(build(out, "program.c", "driver.c")).splitlines()


def test_a_launch_encodes_the_maps(tmp_path: Path) -> None:
    compile_to(tmp_path, "sm_90a")
    launch = json.loads((tmp_path / "product.json").read_text())["launch"]
    assert len(launch["maps"]) == 3
    assert "cp.async.bulk.tensor" in (tmp_path / "product.ptx").read_text()
    lines = posed(tmp_path, 192)
    swizzle = int(cuda.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B)
    half = int(cuda.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_FLOAT16)
    maps = [line for line in lines if line.startswith("map")]
    assert maps == [
        f"map {half} of rank 2 at {array}; box 64 64, steps 1 1, swizzle {swizzle}"
        for array in (
            "0x1000: 96 128, 192 bytes",
            "0x2000: 192 96, 400 bytes",
            "0x3000: 192 128, 384 bytes",
        )
    ]
    started = lines[lines.index(maps[-1]) + 1 :]
    assert started[0].startswith("launch 0x22 on 2 3 1 of ")
    assert f"of {launch['threads']} threads, {launch['shared_bytes']} bytes" in started[0]
    assert started[1] == f"{len(product_parameters(tmp_path)) + 3} arguments"


def product_parameters(out: Path) -> list[str]:
    return json.loads((out / "product.json").read_text())["arguments"]


@pytest.mark.parametrize(("columns", "encoded"), [(0, 2), (190, 2)])
def test_other_arrays_take_the_form_without_maps(
    tmp_path: Path, columns: int, encoded: int
) -> None:
    """One without elements, and one whose rows TMA would write beyond."""
    compile_to(tmp_path, "sm_90a")
    lines = posed(tmp_path, columns)
    assert sum(line.startswith("map") for line in lines) == encoded
    assert f"{len(product_parameters(tmp_path))} arguments" in lines
    header = (tmp_path / "product.h").read_text()
    (plain,) = re.findall(r"PRODUCT_PLAIN_THREADS = (\d+)", header)
    assert any(f"of {plain} threads" in line for line in lines)


def test_what_c_cannot_encode_is_compiled_without_maps(tmp_path: Path) -> None:
    """Files agree with each other then, too: the header's kernel is that of the PTX."""
    for target in ("sm_100a", "sm_90"):  # the workaround for Blackwell is the launcher's
        compile_to(tmp_path, target)
        launch = json.loads((tmp_path / "product.json").read_text())["launch"]
        assert launch["maps"] == []
        assert "cp.async.bulk.tensor" not in (tmp_path / "product.ptx").read_text()
        header = (tmp_path / "product.h").read_text()
        assert f"PRODUCT_THREADS = {launch['threads']}," in header
        assert "CUtensorMap" not in header


def test_values_in_c() -> None:
    names = ["x", "n", "step"]
    wide = LaunchValue((1, 2), 4, 64)
    array = TensorMap(
        0, (LaunchValue((), -1, 32), LaunchValue((1,), 1, 32)), (wide,), "bf16", (8, 32), 0
    )
    made = c_map(array._replace(offset=LaunchValue((2,), -2, 32), written=True), names)
    assert made.array == "x + (CUdeviceptr)((int32_t)((uint32_t)step * (uint32_t)-2) * 2)"
    assert made.extents == "(int32_t)n, 4294967295" and made.box == "32, 8"
    assert made.strides == "(int64_t)((uint64_t)n * (uint64_t)step * (uint64_t)4)"
    assert (made.element, made.swizzle, made.written, made.rank) == ("BFLOAT16", "NONE", 1, 2)
    metadata = LaunchMetadata("kernel", 128, 0, maps=(array,))
    assert can_encode(metadata, "sm_90a") and not can_encode(metadata, "sm_90")
    assert can_encode(LaunchMetadata("kernel", 128, 0), "sm_100a")


ON_DEVICE = """
#include "product.h"

static uint16_t a[128 * 96], b[96 * 200], c[128 * 200];

int main(void) {
  CUdevice device;
  CUcontext context;
  CUdeviceptr memory[3];
  product_kernel kernel;
  for (int i = 0; i < 128 * 96; i++)
    a[i] = i / 96 % 2 ? 0x3c00 : 0x4000; /* rows of 2 and of 1 */
  for (int i = 0; i < 96 * 200; i++)
    b[i] = i % 200 == 1 ? 0x4000 : 0x3c00; /* column 1 of 2, the others of 1 */
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuMemAlloc(&memory[0], sizeof a));
  CHECK(cuMemAlloc(&memory[1], sizeof b));
  CHECK(cuMemAlloc(&memory[2], sizeof c));
  CHECK(cuMemcpyHtoD(memory[0], a, sizeof a));
  CHECK(cuMemcpyHtoD(memory[1], b, sizeof b));
  CHECK(product_load(&kernel));
  for (int columns = 192; columns >= 190; columns -= 2) {
    CHECK(cuMemsetD8(memory[2], 0, sizeof c));
    CHECK(product_launch(&kernel, 2, 3, 1, 0, memory[0], 128, 96, 96, memory[1], 96, 192, 200,
        memory[2], 128, columns, 200, 96));
    CHECK(cuCtxSynchronize());
    CHECK(cuMemcpyDtoH(c, memory[2], sizeof c));
    printf("%x %x %x %x %x\\n", c[0], c[1], c[127 * 200 + 1], c[columns - 1], c[columns]);
  }
  CHECK(product_unload(&kernel));
  return 0;
}
"""


def test_on_a_device(tmp_path: Path) -> None:
    """A C program multiplies by TMA, and without it where the result has 190 columns."""
    arch = device_architecture()
    compile_to(tmp_path, arch)
    (tmp_path / "program.c").write_text(CHECK + ON_DEVICE)
    program = build_for_device(tmp_path, "program.c")
    assert run(program).split() == ["5a00", "5e00", "5a00", "5a00", "0"] * 2


def test_the_driver_has_the_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Maps are encoded with its numbers, here by a stand-in."""
    called = []

    def encode(element: cuda.CUtensorMapDataType, *_: object) -> tuple[object, None]:
        called.append(element)
        return cuda.CUresult.CUDA_SUCCESS, None

    monkeypatch.setattr(cuda, "cuTensorMapEncodeTiled", encode)
    for element, (name, _) in MAP_ELEMENTS.items():
        driver.tensor_map(element, 1 << 20, [64, 64], [128], [64, 64], 128)
        assert called[-1].name == f"CU_TENSOR_MAP_DATA_TYPE_{name}"
