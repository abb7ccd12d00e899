"""A kernel for C programs: a cubin, and a header that loads and launches it by the driver."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence

from tile.backends.base import Artifact, ExportedParameter
from tile.backends.nvptx import ptxas
from tile.backends.nvptx.architectures import PORTABLE_CLUSTER, has_clusters
from tile.backends.nvptx.launch_metadata import LaunchMetadata
from tile.backends.nvptx.target import architecture
from tile.errors import BackendError
from tile.ir.types import Kind, Pointer, Scalar
from tile.tracebacks import warn

_WORDS_PER_LINE = 4  # 64-bit words of the image per line

# Names that parameters cannot have in C: its keywords, and names that the header uses.
_KEYWORDS = """
auto bool break case catch char class const constexpr continue default delete do double else enum
explicit export extern false float for friend goto if inline int long mutable namespace new operator
private protected public register restrict return short signed sizeof static struct switch template
this throw true try typedef typename union unsigned using virtual void volatile while
"""
_HEADER_NAMES = ("kernel", "arguments", "stream", "grid_x", "grid_y", "grid_z")
_RESERVED = frozenset([*_KEYWORDS.split(), *_HEADER_NAMES])


def c_type(ty: Scalar | Pointer) -> str:
    """Return the C type of an argument. Floats that C lacks are passed as their bits."""
    if isinstance(ty, Pointer):
        return "CUdeviceptr"
    if ty.kind is Kind.FLOAT and ty.bits >= 32:
        return "float" if ty.bits == 32 else "double"
    if ty.kind is Kind.INT and not ty.alias.startswith("u"):
        return f"int{ty.bits}_t"
    return f"uint{max(8, ty.bits)}_t"


def _remark(parameter: ExportedParameter) -> str:
    """Return what a caller must know of an argument."""
    parts = [f"{_c_name(parameter.name)}: {_description(parameter.type)}"]
    if parameter.divisible > 1:
        noun = "an address" if isinstance(parameter.type, Pointer) else "a number"
        parts.append(f"{noun} divisible by {parameter.divisible}")
    return ", ".join(parts)


def _description(ty: Scalar | Pointer) -> str:
    if isinstance(ty, Pointer):
        return f"the address on the device of {_description(ty.pointee)}"
    return f"{ty.alias} as its bits" if ty.kind is Kind.FLOAT and ty.bits < 32 else ty.alias


def files(
    artifact: Artifact, name: str, parameters: Sequence[ExportedParameter]
) -> dict[str, str | bytes]:
    """Return the header, and the cubin if ptxas is installed, by file extension.

    `name` is the prefix of the header's functions.
    """
    ptx = artifact.stages["ptx"]
    assert isinstance(ptx, str)
    cubin, contents = None, dict[str, str | bytes]()
    program = ptxas.find()
    if program is not None:
        try:
            cubin, contents["ptxas"] = ptxas.assemble(ptx, artifact.target.arch, program)
            contents["cubin"] = cubin
        except BackendError as error:  # such as a ptxas that has dropped old architectures
            warn(f"the header has PTX alone, which the driver compiles: {error}")
    contents["h"] = header(artifact, name, parameters, cubin, ptx)
    return contents


def header(
    artifact: Artifact,
    name: str,
    parameters: Sequence[ExportedParameter],
    cubin: bytes | None,
    ptx: str,
) -> str:
    """Return the text of the header: the image, and functions that load, launch and unload it."""
    metadata = LaunchMetadata.of(artifact.launch_metadata)
    name = re.sub(r"\W", "_", name)
    guard = f"TILE_{name.upper()}_H"
    arguments = [f"{c_type(p.type)} {_c_name(p.name)}" for p in parameters]
    addresses = ", ".join([*(f"&{_c_name(p.name)}" for p in parameters), "NULL"])
    cooperative = artifact.options.launch_cooperative_grid
    capability = architecture(artifact.target.arch).capability
    cluster = artifact.options.num_ctas if has_clusters(capability) else 1
    text = _HEADER
    replacements = {  # in this order: replacements contain further words to replace
        "@clusters@": _CLUSTERS if cluster > 1 else "",
        "@allow@": _ALLOW if cluster > PORTABLE_CLUSTER else "",
        "@launch@": _CLUSTERED if cluster > 1 else _PLAIN,
        "@cooperative@": _COOPERATIVE if cooperative else "",
        "@guard@": guard,
        "@NAME@": name.upper(),
        "@name@": name,
        "@symbol@": metadata.kernel,
        "@arch@": artifact.target.arch,
        "@threads@": str(metadata.threads),
        "@shared@": str(metadata.shared_bytes),
        "@remarks@": "\n".join(f" *   {_remark(p)}" for p in parameters) or " *   (none)",
        "@asserts@": _ASSERTS if metadata.assertions else "",
        "@cluster@": str(cluster),
        "@images@": "\n".join(_images(name, cubin, ptx)),
        "@first@": f"{name}_{'cubin' if cubin is not None else 'ptx'}",
        "@second@": f"{name}_ptx",
        "@arguments@": "".join(f",\n    {argument}" for argument in arguments),
        "@addresses@": addresses,
        "@call@": "cuLaunchCooperativeKernel" if cooperative else "cuLaunchKernel",
        "@extra@": "" if cooperative else ", NULL",
    }
    for word, replacement in replacements.items():
        text = text.replace(word, replacement)
    return text


def _images(name: str, cubin: bytes | None, ptx: str) -> Iterator[str]:
    if cubin is not None:
        yield _array(f"{name}_cubin", cubin, "machine code for the architecture")
    yield _array(
        f"{name}_ptx",
        ptx.encode() + b"\0",
        "PTX, which the driver compiles for other architectures",
    )


def _array(name: str, data: bytes, remark: str) -> str:
    """Return an image as an array of 64-bit words, to align it, in the hosts' byte order."""
    padded = data.ljust(-(-len(data) // 8) * 8, b"\0")
    words = [f"{word:#x}," for (word,) in struct.iter_unpack("<Q", padded)]
    rows = [
        "  " + " ".join(words[at : at + _WORDS_PER_LINE])
        for at in range(0, len(words), _WORDS_PER_LINE)
    ]
    return "\n".join([f"/* {remark} */", f"static const uint64_t {name}[] = {{", *rows, "};"])


def _c_name(name: str) -> str:
    """Return a parameter's name, with an underscore appended if C or the header reserves it."""
    return f"{name}_" if name in _RESERVED else name


_ASSERTS = """\
 *
 * It was compiled with its assertions: a thread for which one is false ends without a report.
"""

_CLUSTERS = """\
 * Every @cluster@ consecutive programs along x form a cluster: they run at the same time on nearby
 * multiprocessors. If grid_x is not a multiple of that, there are no clusters.
"""

_ALLOW = """\
  if (status == CUDA_SUCCESS)
    status = cuFuncSetAttribute(kernel->function,
        CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1);
"""

_PLAIN = """\
  return @call@(kernel->function, grid_x, grid_y, grid_z, @NAME@_THREADS, 1, 1,
      @NAME@_SHARED_BYTES, stream, arguments@extra@);
"""

_CLUSTERED = """\
  CUlaunchAttribute attributes[2];
  CUlaunchConfig config;
  config.gridDimX = grid_x;
  config.gridDimY = grid_y;
  config.gridDimZ = grid_z;
  config.blockDimX = @NAME@_THREADS;
  config.blockDimY = config.blockDimZ = 1;
  config.sharedMemBytes = @NAME@_SHARED_BYTES;
  config.hStream = stream;
  config.attrs = attributes;
  config.numAttrs = 0;
  if (grid_x % @cluster@ == 0) {
    attributes[0].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attributes[0].value.clusterDim.x = @cluster@;
    attributes[0].value.clusterDim.y = attributes[0].value.clusterDim.z = 1;
    config.numAttrs = 1;
  }
@cooperative@  return cuLaunchKernelEx(&config, kernel->function, arguments, NULL);
"""

_COOPERATIVE = """\
  attributes[config.numAttrs].id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE;
  attributes[config.numAttrs].value.cooperative = 1;
  config.numAttrs++;
"""

_HEADER = """\
/* The kernel `@symbol@`, compiled for @arch@ ahead of time by tile. A program that has a current
 * context (cuInit, cuDevicePrimaryCtxRetain, cuCtxSetCurrent) uses it like this; link with -lcuda.
 *
 *   @name@_kernel kernel;
 *   CUresult status = @name@_load(&kernel);
 *   if (status == CUDA_SUCCESS)
 *     status = @name@_launch(&kernel, programs, 1, 1, stream, ...);
 *   ...
 *   @name@_unload(&kernel);
 *
 * The grid is the number of programs along x (up to 2^31 - 1), y and z (up to 65535 each). A
 * program has @threads@ threads and @shared@ bytes of shared memory. A grid with an extent of 0
 * launches nothing. The launch does not wait for the kernel.
@clusters@ * Arguments:
 *
@remarks@
@asserts@ */
#ifndef @guard@
#define @guard@

#include <cuda.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { @NAME@_THREADS = @threads@, @NAME@_SHARED_BYTES = @shared@ };

@images@

typedef struct {
  CUmodule module;
  CUfunction function;
} @name@_kernel;

/* Unloads the kernel. */
static inline CUresult @name@_unload(@name@_kernel *kernel) {
  return cuModuleUnload(kernel->module);
}

/* Loads the kernel into the current context. */
static inline CUresult @name@_load(@name@_kernel *kernel) {
  CUresult status = cuModuleLoadData(&kernel->module, @first@);
  if (status == CUDA_ERROR_NO_BINARY_FOR_GPU)
    status = cuModuleLoadData(&kernel->module, @second@);
  if (status != CUDA_SUCCESS)
    return status;
  status = cuModuleGetFunction(&kernel->function, kernel->module, "@symbol@");
  if (status == CUDA_SUCCESS && @NAME@_SHARED_BYTES > 0)
    status = cuFuncSetAttribute(kernel->function,
        CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, @NAME@_SHARED_BYTES);
@allow@  if (status != CUDA_SUCCESS)
    @name@_unload(kernel);
  return status;
}

/* Launches the kernel on a grid of programs, in a stream; 0 is the default stream. */
static inline CUresult @name@_launch(
    const @name@_kernel *kernel,
    unsigned grid_x,
    unsigned grid_y,
    unsigned grid_z,
    CUstream stream@arguments@) {
  if (grid_x == 0 || grid_y == 0 || grid_z == 0)
    return CUDA_SUCCESS;
  void *arguments[] = {@addresses@};
@launch@}

#ifdef __cplusplus
}
#endif
#endif
"""
