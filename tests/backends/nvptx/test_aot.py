"""`tile compile`: the files, and C programs around them."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

from tests.backends.nvptx.c_programs import (
    CHECK,
    DRIVER,
    build,
    build_for_device,
    device_architecture,
    run,
)
from tile.backends.nvptx import ptxas
from tile.backends.nvptx.aot import c_type
from tile.frontend.python.source import REQUIRED, Parameter
from tile.ir.types import ALIASES, Pointer
from tile.tools.arguments import parse_types
from tile.tools.cli import main

KERNEL = """
import tile
import tile.language as tl

@tile.jit
def scale(x_ptr, register, factor, wide, flag, half, B: tl.constexpr, C: tl.constexpr = 1):
    i = tl.program_id(0) * B + tl.arange(0, B)
    x = tl.load(x_ptr + i, mask=i < register, other=0.0)
    x = tl.sum(x, axis=0) * factor + half.to(tl.float32)
    tl.store(x_ptr + i, x, mask=(i < wide) & flag)

plain = 5
"""
SIGNATURE = "*fp32:16, i32, fp32, i64, i1, fp16"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "scaling.py"
    path.write_text(KERNEL)
    return path


def compile_to(out: Path, file: Path, *options: str, signature: str = SIGNATURE) -> int:
    command = ["compile", f"{file}:scale", "--signature", signature, "--constants", "B=256"]
    return main([*command, "-o", str(out), *options])


def test_every_stage_is_written(file: Path, tmp_path: Path, capsys) -> None:
    out = tmp_path / "made" / "here"
    assert compile_to(out, file, "--options", "num_warps=8") == 0
    endings = {"tile", "tile-optimized", "thread", "ll", "ptx", "h", "json"}
    if ptxas.find() is not None:
        endings |= {"cubin", "ptxas"}
    assert {path.name for path in out.iterdir()} == {f"scale.{ending}" for ending in endings}
    assert sorted(capsys.readouterr().out.split()) == sorted(map(str, out.iterdir()))
    assert ".target sm_90a" in (out / "scale.ptx").read_text()
    launch = json.loads((out / "scale.json").read_text())
    assert launch["launch"]["threads"] == 256 and launch["constants"] == {"B": "256", "C": "1"}
    assert launch["arguments"][0] == {"name": "x_ptr", "type": "*fp32:16"}
    if "cubin" in endings:
        assert (out / "scale.cubin").read_bytes().startswith(b"\x7fELF")
        assert "registers" in (out / "scale.ptxas").read_text()


PROGRAM = """
#include "scale.h"
#include <stdio.h>

int main(void) {
  scale_kernel kernel;
  if (scale_load(&kernel) != CUDA_SUCCESS)
    return printf("refused\\n") < 0;
  CUresult status = scale_launch(&kernel, 7, 8, 9, (CUstream)(uintptr_t)0x33, 0x123456789abcULL,
      -5, 0.5f, -6000000000, 1, 0x3c00);
  if (status != CUDA_SUCCESS || scale_unload(&kernel) != CUDA_SUCCESS)
    return 1;
  return 0;
}
"""
ARGUMENTS = r"""
  printf("%#llx ", (unsigned long long)*(CUdeviceptr *)arguments[0]);
  printf("%d %g %lld %d %#x\n", *(int32_t *)arguments[1], *(float *)arguments[2],
      (long long)*(int64_t *)arguments[3], *(unsigned char *)arguments[4],
      *(uint16_t *)arguments[5]);
  if (arguments[6] != NULL)
    return CUDA_ERROR_INVALID_VALUE;
"""


def posed(out: Path, driver: str = DRIVER, program: str = PROGRAM) -> str:
    """Return what a C program and its driver print."""
    (out / "program.c").write_text(program)
    (out / "driver.c").write_text(driver.replace("ARGUMENTS", ARGUMENTS))
    return run(build(out, "program.c", "driver.c"))


def test_a_c_program_launches_it(file: Path, tmp_path: Path) -> None:
    compile_to(tmp_path, file)
    shared = json.loads((tmp_path / "scale.json").read_text())["launch"]["shared_bytes"]
    image = "PTX" if ptxas.find() is None else "ELF"
    assert shared > 0
    assert posed(tmp_path).splitlines() == [
        f"load {image}",
        "function scale of 0x11",
        f"attribute 8 of 0x22 = {shared}",
        f"launch 0x22 on 7 8 9 of 128 threads, {shared} bytes, stream 0x33",
        "0x123456789abc -5 0.5 -6000000000 1 0x3c00",
        "unload 0x11",
    ]


@pytest.mark.parametrize("extents", ["0, 8, 9", "7, 0, 9", "7, 8, 0"])
@pytest.mark.parametrize("options", ["num_ctas=1", "num_ctas=4 launch_cooperative_grid=true"])
def test_a_grid_without_programs_launches_nothing(
    file: Path, tmp_path: Path, extents: str, options: str
) -> None:
    compile_to(tmp_path, file, "--options", *options.split())
    program = PROGRAM.replace("&kernel, 7, 8, 9", f"&kernel, {extents}")
    lines = posed(tmp_path, program=program).splitlines()
    assert lines[-1] == "unload 0x11" and not any("launch" in line for line in lines)


def test_a_cubin_for_another_device_gives_way_to_ptx(file: Path, tmp_path: Path) -> None:
    if ptxas.find() is None:
        pytest.skip("ptxas is not installed; pip install nvidia-cuda-nvcc brings it")
    compile_to(tmp_path, file)
    lines = posed(tmp_path, "#define REFUSES_CUBINS\n" + DRIVER).splitlines()
    assert lines[:2] == ["load ELF", "load PTX"] and lines[-1] == "unload 0x11"


def test_loaded_modules_are_released_if_loading_fails(file: Path, tmp_path: Path) -> None:
    compile_to(tmp_path, file)
    lines = posed(tmp_path, "#define LACKS_FUNCTIONS\n" + DRIVER).splitlines()
    assert lines[-2:] == ["unload 0x11", "refused"]


def test_programs_that_run_together(file: Path, tmp_path: Path) -> None:
    compile_to(tmp_path, file, "--options", "launch_cooperative_grid=true")
    assert "launch together 0x22 on 7 8 9" in posed(tmp_path)


def test_programs_in_clusters(file: Path, tmp_path: Path) -> None:
    """The grid has 7 programs along x."""
    launched = "launch as told 0x22 on 7 8 9 of 128 threads"
    compile_to(tmp_path, file, "--options", "num_ctas=2")
    assert launched in posed(tmp_path) and "clusters" not in posed(tmp_path)
    filled = PROGRAM.replace("&kernel, 7,", "&kernel, 32,")
    for options, wanted in (
        ("num_ctas=4", ["in clusters of 4 1 1"]),
        ("num_ctas=4 launch_cooperative_grid=true", ["in clusters of 4 1 1", "together 1"]),
        ("num_ctas=16", ["attribute 14 of 0x22 = 1", "in clusters of 16 1 1"]),
    ):
        compile_to(tmp_path, file, "--options", *options.split())
        lines = posed(tmp_path, program=filled).splitlines()
        (at,) = (i for i, line in enumerate(lines) if line.startswith("launch"))
        assert lines[at].startswith("launch as told 0x22 on 32 8 9 of 128 threads")
        assert lines[at - len(wanted) : at] == wanted and "stream 0x33" in lines[at]
    compile_to(tmp_path, file, "--options", "num_ctas=4", "--target", "sm_80")
    assert "launch 0x22 on 32 8 9" in posed(tmp_path, program=filled)


def test_dependent_launches(file: Path, tmp_path: Path) -> None:
    for options, wanted in (("launch_pdl=true", 1), ("launch_pdl=true num_ctas=4", 2)):
        compile_to(tmp_path, file, "--options", *options.split())
        lines = posed(tmp_path, program=PROGRAM.replace("&kernel, 7,", "&kernel, 32,")).splitlines()
        (at,) = (i for i, line in enumerate(lines) if line.startswith("launch as told 0x22"))
        assert lines[at - 1] == "dependent 1" and len(lines[:at]) == 3 + wanted
    compile_to(tmp_path, file, "--options", "launch_pdl=true", "--target", "sm_80")
    assert "launch 0x22 on 7 8 9" in posed(tmp_path)


def test_headers_of_several_kernels_go_together(file: Path, tmp_path: Path) -> None:
    for name, target in (("first", "sm_75"), ("second", "nvptx:sm_90a")):
        assert compile_to(tmp_path, file, "--name", name, "--target", target) == 0
    (tmp_path / "program.c").write_text(
        '#include "first.h"\n#include "second.h"\n#include "first.h"\n'
        "int main(void) {\n"
        "  first_kernel a;\n  second_kernel b;\n"
        "  return first_load(&a) || second_load(&b) || first_unload(&a)\n"
        "      || first_launch(&a, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1)\n"
        "      || second_launch(&b, 1, 1, 1, 0, 0, 1, 1, 1, 1, 1) || second_unload(&b);\n}\n"
    )
    driver = DRIVER.replace("ARGUMENTS", "(void)arguments;").replace("--loads ?", "--loads < 0 ?")
    (tmp_path / "driver.c").write_text(driver)
    run(build(tmp_path, "program.c", "driver.c"))


def test_types_in_c() -> None:
    names = {alias: c_type(ty) for alias, ty in ALIASES.items()}
    assert names["i8"] == "int8_t" and names["u64"] == "uint64_t" and names["i1"] == "uint8_t"
    assert names["fp32"] == "float" and names["fp64"] == "double"
    assert names["bf16"] == names["fp16"] == "uint16_t" and names["fp8e5"] == "uint8_t"
    assert c_type(Pointer(Pointer(ALIASES["fp32"]))) == "CUdeviceptr"


def test_types_by_name_and_defaults(file: Path, tmp_path: Path) -> None:
    signature_text = "half=fp16, x_ptr=*fp32, wide=i64, factor=fp32, register=i32:16, flag=i1"
    assert compile_to(tmp_path, file, signature=signature_text) == 0
    launch = json.loads((tmp_path / "scale.json").read_text())
    assert [a["type"] for a in launch["arguments"]] == [
        "*fp32", "i32:16", "fp32", "i64", "i1", "fp16"
    ]  # fmt: skip


def test_without_an_assembler_or_with_one_that_refuses(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if ptxas.find() is not None:  # those of CUDA 13 know nothing before sm_75
        refusing = shutil.which("false") or sys.executable
        monkeypatch.setattr(ptxas, "find", lambda: refusing)
        with pytest.warns(RuntimeWarning, match="the header has PTX alone, which the driver"):
            assert compile_to(tmp_path, file, "--target", "sm_70") == 0
        assert posed(tmp_path).startswith("load PTX\n")
    monkeypatch.setattr(ptxas, "find", lambda: None)
    assert compile_to(tmp_path, file, "--target", "sm_70") == 0
    assert posed(tmp_path).startswith("load PTX\n")
    assert not list(tmp_path.glob("*.cubin"))


def test_commas_inside_types() -> None:
    parameters = [Parameter(name, None, REQUIRED, name == "B") for name in "abB"]
    parsed = parse_types("tensordesc<fp16[64,32]>, tensordesc<fp32[8, 8],nan>", parameters, [])
    assert parsed == {"a": "tensordesc<fp16[64,32]>", "b": "tensordesc<fp32[8, 8],nan>"}
    assert parse_types("b=(i32, i64), a=i1", parameters, []) == {"b": "(i32, i64)", "a": "i1"}


def test_for_opencl(file: Path, tmp_path: Path) -> None:
    signature = SIGNATURE.replace("fp16", "fp32")
    assert compile_to(tmp_path, file, "--target", "opencl:intel", signature=signature) == 0
    assert "__kernel" in (tmp_path / "scale.cl").read_text()
    launch = json.loads((tmp_path / "scale.json").read_text())["launch"]
    assert launch["kernel"] == "scale" and launch["threads"] == 64 and launch["build_options"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["scaling.py:scale", "-s", "*fp32"], "the signature or constexprs must give 'register'"),
        (["scaling.py:scale", "-s", "*fp32"], "note: types and values are as in x=*fp32:16 n=i32"),
        (
            ["scaling.py:scale", "-s", "*fp32, " * 9],
            "9 types, and the kernel 6 parameters that are",
        ),
        (["scaling.py:scale", "-s", "x_ptr=*fp32, i32"], "names for all types or for none"),
        (["scaling.py:scale", "-s", SIGNATURE.replace("i64", "i63")], "no type 'i63'"),
        (["scaling.py:scale", "-t", "nvptx"], "has no architecture; name one"),
        (["scaling.py:scale", "-t", "metal:m1"], "there is no backend 'metal'"),
        (["scaling.py:scale", "-t", "sm_10"], "no architecture 'sm_10'"),
        (["scaling.py:scale", "-p", "warps=4"], "there is no option 'warps'"),
        (["scaling.py:scale", "-n", "a b"], "a C identifier, not 'a b'"),
        (["scaling.py:scale", "-o", "scaling.py"], "cannot write to scaling.py"),
        (["scaling.py:plain"], "takes a @tile.jit function, not 5"),
        (["scaling.py:absent"], "has no absent"),
    ],
)
def test_bad_input(arguments: list[str], message: str, file: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(file.parent)
    defaults = ["-s", SIGNATURE, "-c", "B=256"]
    assert main(["compile", arguments[0], *defaults, *arguments[1:]]) == 1
    assert message in capsys.readouterr().err


def test_help_teaches(capsys) -> None:
    with pytest.raises(SystemExit):
        main(["compile", "--help"])
    printed = capsys.readouterr().out
    for words in ("--signature", "sm_90a", "NAME.cubin", "NAME.h", "opencl", "divisible by 16"):
        assert words in printed


ADDING = """
#include "scale.h"

int main(void) {
  static float x[512];
  CUdevice device;
  CUcontext context;
  CUdeviceptr memory;
  scale_kernel kernel;
  for (int i = 0; i < 512; i++)
    x[i] = 1;
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuMemAlloc(&memory, sizeof x));
  CHECK(cuMemcpyHtoD(memory, x, sizeof x));
  CHECK(scale_load(&kernel));
  CHECK(scale_launch(&kernel, 2, 1, 1, 0, memory, 500, 0.5f, 510, 1, 0x3c00));
  CHECK(cuCtxSynchronize());
  CHECK(cuMemcpyDtoH(x, memory, sizeof x));
  CHECK(scale_unload(&kernel));
  printf("%g %g %g %g\\n", x[0], x[256], x[509], x[510]);
  return 0;
}
"""


@pytest.mark.parametrize("options", ["num_ctas=1", "num_ctas=2", "num_ctas=16"])
def test_on_a_device(file: Path, tmp_path: Path, options: str) -> None:
    """A C program without Python sums on the GPU: 256 and 244 ones, times 0.5, plus 1."""
    arch = device_architecture()
    compile_to(tmp_path, file, "--target", arch, "--options", options)
    (tmp_path / "program.c").write_text(CHECK + ADDING)
    program = build_for_device(tmp_path, "program.c")
    assert run(program).split() == ["129", "123", "123", "1"]
