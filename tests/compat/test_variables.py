"""Environment variables of Triton: each has its effect here, or a reason why it has none."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from tile.compat import install_as_triton, knobs
from tile.compat.ignored_variables import ELSEWHERE, IGNORED, NEEDLESS, PROFILER
from tile.compat.knobs import EFFECTS
from tile.config import config

ROOT = Path(__file__).parents[2]
# Of `triton.knobs` and of the C++ code of Triton 3.6 to 3.9.
OF_TRITON = """
ALLOW_LHS_TMEM_LAYOUT_CONVERSION AMDGCN_ANALYZE_SMALL_TENSOR_RANGE AMDGCN_ENABLE_DUMP
AMDGCN_SCALARIZE_PACKED_FOPS AMDGCN_USE_BUFFER_ATOMICS AMDGCN_USE_BUFFER_OPS CC DISABLE_LLVM_OPT
DISABLE_MMA_V3 DISABLE_MMA_V5 DISABLE_PTXAS_OPT LLVM_ENABLE_TIMING LLVM_EXTRACT_DI_LOCAL_VARIABLES
LLVM_IR_ENABLE_DUMP LLVM_PASS_PLUGIN_PATH MLIR_DISABLE_MULTITHREADING MLIR_DUMP_PATH
MLIR_ENABLE_DIAGNOSTICS MLIR_ENABLE_DUMP MLIR_ENABLE_TIMING NVPTX_ENABLE_DUMP PTXAS_OPTIONS
TRITON_ALLOW_NON_CONSTEXPR_GLOBALS TRITON_ALWAYS_COMPILE TRITON_AMD_CODEGEN_PATH
TRITON_CACHE_AUTOTUNING TRITON_CACHE_DIR TRITON_CACHE_MANAGER TRITON_CONSAN_INIT_ALLOCATIONS
TRITON_CUDACRT_PATH TRITON_CUDART_PATH TRITON_CUOBJDUMP_PATH TRITON_CUPTI_LIB_BLACKWELL_PATH
TRITON_CUPTI_LIB_PATH TRITON_DEBUG TRITON_DEFAULT_FP_FUSION TRITON_DISABLE_LINE_INFO TRITON_DUMP_DIR
TRITON_DUMP_MIR TRITON_DUMP_PTXAS_LOG TRITON_ENABLE_ASAN TRITON_ENABLE_EXPERIMENTAL_CONSAN
TRITON_ENABLE_HW_TRACE TRITON_ENABLE_LLVM_DEBUG TRITON_ENABLE_NVTX TRITON_ENABLE_PYTHON_STACKTRACE
TRITON_F32_DEFAULT TRITON_FORCE_DISABLE_FP_FUSION TRITON_FPSAN_HOMOMORPHIC_CASTS
TRITON_FRONT_END_DEBUGGING TRITON_HIP_USE_ASYNC_COPY TRITON_HIP_USE_BLOCK_PINGPONG
TRITON_HIP_USE_COEXEC_SCHEDULER TRITON_HIP_USE_EXPERT_SCHEDULING TRITON_HIP_USE_IN_THREAD_TRANSPOSE
TRITON_HOME TRITON_HSA_RUNTIME_LIBRARY TRITON_HSA_RUNTIME_PATH TRITON_INSTRUMENTATION_MODE
TRITON_INTERPRET TRITON_KERNEL_DUMP TRITON_KERNEL_OVERRIDE TRITON_LIBCUDA_PATH TRITON_LIBDEVICE_PATH
TRITON_LIBHIP_PATH TRITON_LLVM_DEBUG_ONLY TRITON_MOCK_PTX_VERSION TRITON_NVDISASM_PATH
TRITON_OVERRIDE_ARCH TRITON_OVERRIDE_DIR TRITON_PARTITION_SCHEDULING_DUMP_DATA_ONLY
TRITON_PARTITION_SCHEDULING_DUMP_LOOP_ONLY TRITON_PARTITION_SCHEDULING_ENABLE_DUMP_DOT
TRITON_PLUGIN_PATHS TRITON_PLUGIN_VERSION_CHECK TRITON_PREFER_TMEM_16x256_LAYOUT
TRITON_PRINT_AUTOTUNING TRITON_PROFILE_BUFFER_SIZE TRITON_PROFILE_METRIC_BUFFER_SIZE
TRITON_PROTON_DISABLE TRITON_PTXAS_BLACKWELL_PATH TRITON_PTXAS_PATH TRITON_REDIS_HOST
TRITON_REDIS_KEY_FORMAT TRITON_REDIS_PORT TRITON_REMOTE_CACHE_BACKEND TRITON_REPRODUCER_PATH
TRITON_ROCPROFILER_SDK_INCLUDE_PATH TRITON_ROCPROFILER_SDK_LIBRARY TRITON_ROCPROFILER_SDK_LIB_PATH
TRITON_ROCTRACER_LIBRARY TRITON_ROCTRACER_LIB_PATH TRITON_ROCTX_LIBRARY TRITON_ROCTX_LIB_PATH
TRITON_SANITIZE_OVERFLOW TRITON_STORE_BINARY_ONLY TRITON_SWAP_MIR TRITON_SWAP_MIR_ENABLE_MISCHED
USE_IR_LOC
""".split()

# Those with a setting of tile.
SETTINGS = {
    "TRITON_ALWAYS_COMPILE": "TILE_CACHE",
    "TRITON_CACHE_AUTOTUNING": "TILE_CACHE_AUTOTUNING",
    "TRITON_CACHE_DIR": "TILE_CACHE_DIR",
    "TRITON_HOME": "TILE_CACHE_DIR",
    "TRITON_PRINT_AUTOTUNING": "TILE_PRINT_AUTOTUNING",
    "TRITON_KERNEL_DUMP": "TILE_DUMP_STAGES",
    "TRITON_KERNEL_OVERRIDE": "TILE_OVERRIDE_STAGES",
    "TRITON_REPRODUCER_PATH": "TILE_REPRODUCER",
    "TRITON_FRONT_END_DEBUGGING": "TILE_FULL_TRACEBACK",
    "MLIR_ENABLE_DUMP": "TILE_PRINT_AFTER TILE_PRINT_KERNEL",
    "MLIR_DUMP_PATH": "TILE_PRINT_FILE",
    "MLIR_ENABLE_TIMING": "TILE_TIMINGS",
    "LLVM_IR_ENABLE_DUMP": "TILE_PRINT_LLVM",
    "NVPTX_ENABLE_DUMP": "TILE_PRINT_PTX",
    "PTXAS_OPTIONS": "TILE_PTXAS_OPTIONS",
    "DISABLE_PTXAS_OPT": "TILE_PTXAS_OPTIONS",
    "TRITON_DUMP_PTXAS_LOG": "TILE_PRINT_PTXAS",
    "TRITON_PTXAS_PATH": "TILE_PTXAS",
    "TRITON_LIBDEVICE_PATH": "TILE_LIBDEVICE",
}

PROGRAM = """
import numpy as np
import triton
import triton.language as tl


@triton.jit
def double(x_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(x_ptr + i, tl.load(x_ptr + i) * 2)


@triton.jit
def other(x_ptr, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(x_ptr + i, tl.sin(tl.load(x_ptr + i)))


def compiled(kernel):
    source = triton.compiler.ASTSource(kernel, {"x_ptr": "*fp32", "B": "constexpr"}, {"B": 64})
    target = triton.backends.compiler.GPUTarget("cuda", 90, 32)
    return triton.compile(source, target=target)


print(len(compiled(double).asm["ptx"]), len(compiled(other).asm["ptx"]))
"""


def test_each_variable_of_triton_is_known() -> None:
    known = {*EFFECTS, *IGNORED, *NEEDLESS, *PROFILER}
    assert [n for n in OF_TRITON if n not in known and not n.startswith(ELSEWHERE)] == []
    assert sorted(known - {*OF_TRITON}) == []
    assert len(known) == sum(map(len, (EFFECTS, IGNORED, NEEDLESS, PROFILER)))


def test_each_knob_has_a_known_variable() -> None:
    keys = [k.key for group in knobs.GROUPS for k in group.knob_descriptors.values()]
    assert [key for key in keys if key not in OF_TRITON] == []


def test_fusion_is_off_by_either_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    assert knobs.launch_defaults()["enable_fp_fusion"]
    monkeypatch.setenv("TRITON_FORCE_DISABLE_FP_FUSION", "1")
    assert not knobs.launch_defaults()["enable_fp_fusion"]


def test_variables_are_those_of_settings() -> None:
    found: dict[str, str] = {}
    for setting in config.variables().values():
        for variable in setting.triton:
            found[variable.name] = f"{found.get(variable.name, '')} {setting.name}".strip()
    assert found == SETTINGS
    assert set(found) <= set(EFFECTS)


def test_variables_that_ask_for_nothing_are_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*NEEDLESS, *PROFILER):
        monkeypatch.setenv(name, "1")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with install_as_triton():
            pass


def run(tmp_path: Path, text: str = PROGRAM, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run the program with variables of Triton, as a user of Triton would."""
    pytest.importorskip("llvmlite")
    program = tmp_path / "program.py"
    program.write_text(text, encoding="utf-8")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home")}
    environment |= {"PYTHONPATH": str(ROOT), **variables}
    command = [sys.executable, "-W", "error::RuntimeWarning", "-m", "tile", "triton", str(program)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def stages(folder: Path) -> list[str]:
    return sorted(f"{path.name}" for path in folder.glob("*/*.*") if path.suffix != ".txt")


DUMPED = [
    f"{kernel}.{stage}"
    for kernel in ("double", "other")
    for stage in ("llir", "ptx", "tile-optimized", "ttgir", "ttir")
]


def test_kernels_are_dumped_where_triton_dumps_them(tmp_path: Path) -> None:
    ran = run(tmp_path, TRITON_KERNEL_DUMP="1")
    assert ran.returncode == 0, ran.stderr
    assert stages(tmp_path / "home" / ".triton" / "dump") == DUMPED
    run(tmp_path, TRITON_KERNEL_DUMP="1", TRITON_HOME=str(tmp_path / "other"))
    assert stages(tmp_path / "other" / ".triton" / "dump") == DUMPED
    run(tmp_path, TRITON_KERNEL_DUMP="1", TRITON_DUMP_DIR=str(tmp_path / "third"))
    assert stages(tmp_path / "third") == DUMPED
    run(tmp_path, TRITON_KERNEL_DUMP="0", TRITON_DUMP_DIR=str(tmp_path / "fourth"))
    assert not (tmp_path / "fourth").exists()


def test_a_kernel_is_overridden(tmp_path: Path) -> None:
    before = run(tmp_path, TRITON_KERNEL_DUMP="1", TRITON_DUMP_DIR=str(tmp_path / "own"))
    (file,) = (tmp_path / "own").glob("*/other.ptx")
    file.write_text(f"{file.read_text()}// {'x' * 97}", encoding="utf-8")
    folder = str(tmp_path / "own")
    after = run(tmp_path, TRITON_KERNEL_OVERRIDE="1", TRITON_OVERRIDE_DIR=folder)
    double, other = map(int, before.stdout.split())
    assert after.stdout == f"\nOverriding kernel with file {file}\n{double} {other + 100}\n"


def test_ir_is_printed_for_one_kernel_or_all(tmp_path: Path) -> None:
    first = run(tmp_path, MLIR_ENABLE_DUMP="1")
    assert "@double" in first.stderr and "@other" in first.stderr and "// after " in first.stderr
    second = run(tmp_path, MLIR_ENABLE_DUMP="other")
    assert "@double" not in second.stderr and "@other" in second.stderr
    third = run(tmp_path, MLIR_ENABLE_DUMP="other", MLIR_DUMP_PATH=str(tmp_path / "ir.txt"))
    assert third.stderr == ""
    assert (tmp_path / "ir.txt").read_text("utf-8") == second.stderr
    assert run(tmp_path, MLIR_ENABLE_DUMP="0").stderr == ""


def test_llvm_ir_ptx_and_times_are_printed(tmp_path: Path) -> None:
    flags = ("LLVM_IR_ENABLE_DUMP", "NVPTX_ENABLE_DUMP", "MLIR_ENABLE_TIMING")
    ran = run(tmp_path, **dict.fromkeys(flags, "1"))
    assert ran.stdout.count(".visible .entry") == 2
    assert ran.stdout.count("// -----// NVPTX Dump //----- //") == 2
    assert ran.stderr.count("define ptx_kernel") == 2
    assert " ms  dce" in ran.stderr


def test_knobs_dump_too(tmp_path: Path) -> None:
    program = PROGRAM.replace(
        "def compiled",
        "triton.knobs.compilation.dump_ir = True\n"
        f"triton.knobs.cache.dump_dir = {str(tmp_path / 'dump')!r}\n\n\ndef compiled",
    )
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": str(tmp_path)}
    pytest.importorskip("llvmlite")
    (tmp_path / "knobs.py").write_text(program, encoding="utf-8")
    command = [sys.executable, "-m", "tile", "triton", str(tmp_path / "knobs.py")]
    subprocess.run(command, env=environment, check=True, capture_output=True)
    assert stages(tmp_path / "dump") == DUMPED


def test_the_compiler_s_files_are_those_that_variables_name(tmp_path: Path) -> None:
    ran = run(tmp_path, TRITON_LIBDEVICE_PATH=str(tmp_path / "no.bc"))
    assert f"TILE_LIBDEVICE={tmp_path / 'no.bc'}: there is no such file" in ran.stderr


def test_tracebacks_keep_the_compiler_s_frames(tmp_path: Path) -> None:
    caught = PROGRAM.replace("print(", "import traceback\ntry:\n    print(")
    caught += "except Exception:\n    traceback.print_exc()\n"
    missing = {"TRITON_LIBDEVICE_PATH": str(tmp_path / "no.bc")}
    assert "toolkit.py" not in run(tmp_path, caught, **missing).stderr
    shown = run(tmp_path, caught, **missing, TRITON_FRONT_END_DEBUGGING="1").stderr
    assert "toolkit.py" in shown
