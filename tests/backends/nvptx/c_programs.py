"""C programs around the headers of kernels, with a stand-in for NVIDIA's driver."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tile.backends.nvptx import driver, toolkit
from tile.errors import BackendError


def compiler() -> str:
    """A C compiler, or a visible skip."""
    for name in (os.environ.get("CC", ""), "cc", "gcc", "clang"):
        path = shutil.which(name) if name else None
        if path is not None:
            return path
    pytest.skip("there is no C compiler")


def cuda_h() -> str:
    """The folder of cuda.h, or a visible skip."""
    path = toolkit.find_file("include/cuda.h")
    if path is None:
        pytest.skip("cuda.h is not installed; pip install nvidia-cuda-runtime brings it")
    return str(path.parent)


def build(folder: Path, *sources: str, libraries: tuple[str, ...] = ()) -> Path:
    """Compile and link a program, with all warnings as errors."""
    program = folder / "program"
    command = [
        compiler(),
        "-std=c11",
        "-Wall",
        "-Wextra",
        "-Wpedantic",
        "-Werror",
        "-isystem",
        cuda_h(),
    ]
    command += [*map(str, sources), "-o", str(program), *libraries]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return program


def run(program: Path) -> str:
    """Return what a program prints; it must succeed."""
    done = subprocess.run([str(program)], capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def device_architecture() -> str:
    """The architecture of the current device, or a visible skip."""
    try:
        return driver.current_architecture()
    except BackendError as error:
        pytest.skip(error.message)


def build_for_device(folder: Path, *sources: str) -> Path:
    """Compile and link a program with the driver's library, which may be in no usual place."""
    with open("/proc/self/maps", encoding="utf-8") as maps:
        loaded = {Path(line.split()[-1]).parent for line in maps if "/libcuda.so" in line}
    paths = [word for path in loaded for word in (f"-L{path}", f"-Wl,-rpath,{path}")]
    return build(folder, *sources, libraries=("-l:libcuda.so.1", *paths))


# What programs on a device begin with: a call that fails ends them.
CHECK = r"""
#include <cuda.h>
#include <stdio.h>

#define CHECK(call) \
  do { \
    CUresult status = (call); \
    if (status != CUDA_SUCCESS) \
      return printf("%s: %d\n", #call, (int)status), 1; \
  } while (0)
"""
# In place of libcuda: it looks at the image and writes down what it is asked.
DRIVER = r"""
#include <cuda.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static int loads;

CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  int elf = memcmp(image, "\177ELF", 4) == 0;
  printf("load %s\n", elf ? "ELF" : strstr(image, ".visible .entry") ? "PTX" : "?");
  *module = (CUmodule)(uintptr_t)0x11;
#ifdef REFUSES_CUBINS
  if (elf)
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
#endif
  loads++;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  printf("function %s of %#x\n", name, (unsigned)(uintptr_t)module);
  *function = (CUfunction)(uintptr_t)0x22;
#ifdef LACKS_FUNCTIONS
  return CUDA_ERROR_NOT_FOUND;
#else
  return CUDA_SUCCESS;
#endif
}

CUresult cuFuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  printf("attribute %d of %#x = %d\n", (int)attribute, (unsigned)(uintptr_t)function, value);
  return CUDA_SUCCESS;
}

CUresult cuModuleUnload(CUmodule module) {
  printf("unload %#x\n", (unsigned)(uintptr_t)module);
  return --loads ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

static CUresult launched(const char *how, CUfunction f, unsigned x, unsigned y, unsigned z,
    unsigned threads, unsigned shared, CUstream stream, void **arguments) {
  printf("%s %#x on %u %u %u of %u threads, %u bytes, stream %#x\n", how, (unsigned)(uintptr_t)f,
      x, y, z, threads, shared, (unsigned)(uintptr_t)stream);
  ARGUMENTS
  return CUDA_SUCCESS;
}

CUresult cuLaunchKernel(CUfunction f, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by,
    unsigned bz, unsigned shared, CUstream stream, void **arguments, void **extra) {
  if (by != 1 || bz != 1 || extra != NULL)
    return CUDA_ERROR_INVALID_VALUE;
  return launched("launch", f, x, y, z, bx, shared, stream, arguments);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **arguments,
    void **extra) {
  if (config->blockDimY != 1 || config->blockDimZ != 1 || extra != NULL)
    return CUDA_ERROR_INVALID_VALUE;
  for (unsigned at = 0; at < config->numAttrs; at++) {
    const CUlaunchAttributeValue *value = &config->attrs[at].value;
    if (config->attrs[at].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
      printf("in clusters of %u %u %u\n", value->clusterDim.x, value->clusterDim.y,
          value->clusterDim.z);
    else if (config->attrs[at].id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
      printf("together %d\n", value->cooperative);
    else if (config->attrs[at].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
      printf("dependent %d\n", value->programmaticStreamSerializationAllowed);
    else
      return CUDA_ERROR_INVALID_VALUE;
  }
  return launched("launch as told", f, config->gridDimX, config->gridDimY, config->gridDimZ,
      config->blockDimX, config->sharedMemBytes, config->hStream, arguments);
}

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned x, unsigned y, unsigned z, unsigned bx,
    unsigned by, unsigned bz, unsigned shared, CUstream stream, void **arguments) {
  if (by != 1 || bz != 1)
    return CUDA_ERROR_INVALID_VALUE;
  return launched("launch together", f, x, y, z, bx, shared, stream, arguments);
}
"""
