"""A kernel for C programs: a cubin, and a header that loads and launches it by the driver."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence

from tile.backends.base import Artifact, ExportedParameter
from tile.backends.nvptx import ptxas
from tile.backends.nvptx.clusters import PORTABLE
from tile.backends.nvptx.facts import Facts
from tile.backends.nvptx.names import has_clusters
from tile.backends.nvptx.target import architecture
from tile.errors import BackendError
from tile.ir.types import Kind, Pointer, Scalar
from tile.warn import warn

_ROW = 4  # words of the image in a line

# Names that parameters cannot have in C: its keywords, and what the header calls other things.
_KEYWORDS = """
auto bool break case catch char class const constexpr continue default delete do double else enum
explicit export extern false float for friend goto if inline int long mutable namespace new operator
private protected public register restrict return short signed sizeof static struct switch template
this throw true try typedef typename union unsigned using virtual void volatile while
"""
_OWN = ("kernel", "arguments", "stream", "grid_x", "grid_y", "grid_z")
_TAKEN = frozenset([*_KEYWORDS.split(), *_OWN])


def c_type(ty: Scalar | Pointer) -> str:
    """The type of an argument in C. Floats that C lacks are given as their bits."""
    if isinstance(ty, Pointer):
        return "CUdeviceptr"
    if ty.kind is Kind.FLOAT and ty.bits >= 32:
        return "float" if ty.bits == 32 else "double"
    if ty.kind is Kind.INT and not ty.alias.startswith("u"):
        return f"int{ty.bits}_t"
    return f"uint{max(8, ty.bits)}_t"


def _remark(parameter: ExportedParameter) -> str:
    """What a caller must know of an argument."""
    words = [f"{_c_name(parameter.name)}: {_said(parameter.type)}"]
    if parameter.divisible > 1:
        what = "an address" if isinstance(parameter.type, Pointer) else "a number"
        words.append(f"{what} divisible by {parameter.divisible}")
    return ", ".join(words)


def _said(ty: Scalar | Pointer) -> str:
    if isinstance(ty, Pointer):
        return f"the address on the device of {_said(ty.pointee)}"
    return f"{ty.alias} as its bits" if ty.kind is Kind.FLOAT and ty.bits < 32 else ty.alias


def files(
    artifact: Artifact, name: str, parameters: Sequence[ExportedParameter]
) -> dict[str, str | bytes]:
    """The cubin, if there is an assembler, and the header, each by the ending of its name.

    `name` is that of the header's functions.
    """
    ptx = artifact.stages["ptx"]
    assert isinstance(ptx, str)
    cubin, found = None, dict[str, str | bytes]()
    program = ptxas.find()
    if program is not None:
        try:
            cubin, found["ptxas"] = ptxas.assemble(ptx, artifact.target.arch, program)
            found["cubin"] = cubin
        except BackendError as error:  # such as a ptxas that has dropped old architectures
            warn(f"the header has PTX alone, which the driver compiles: {error}")
    found["h"] = header(artifact, name, parameters, cubin, ptx)
    return found


def header(
    artifact: Artifact,
    name: str,
    parameters: Sequence[ExportedParameter],
    cubin: bytes | None,
    ptx: str,
) -> str:
    """The text of the header: the image, and functions that load, launch and unload it."""
    facts = Facts.of(artifact.facts)
    name = re.sub(r"\W", "_", name)
    guard = f"TILE_{name.upper()}_H"
    arguments = [f"{c_type(p.type)} {_c_name(p.name)}" for p in parameters]
    places = ", ".join([*(f"&{_c_name(p.name)}" for p in parameters), "NULL"])
    cooperative = artifact.options.launch_cooperative_grid
    capability = architecture(artifact.target.arch).capability
    cluster = artifact.options.num_ctas if has_clusters(capability) else 1
    text = _HEADER
    replacements = {  # in order: what is put in has words in it that are replaced, too
        "@clusters@": _CLUSTERS if cluster > 1 else "",
        "@allow@": _ALLOW if cluster > PORTABLE else "",
        "@launch@": _CLUSTERED if cluster > 1 else _PLAIN,
        "@together@": _TOGETHER if cooperative else "",
        "@guard@": guard,
        "@NAME@": name.upper(),
        "@name@": name,
        "@symbol@": facts.kernel,
        "@arch@": artifact.target.arch,
        "@threads@": str(facts.threads),
        "@shared@": str(facts.shared_bytes),
        "@remarks@": "\n".join(f" *   {_remark(p)}" for p in parameters) or " *   (none)",
        "@asserts@": _ASSERTS if facts.assertions else "",
        "@cluster@": str(cluster),
        "@images@": "\n".join(_images(name, cubin, ptx)),
        "@first@": f"{name}_{'cubin' if cubin is not None else 'ptx'}",
        "@second@": f"{name}_ptx",
        "@arguments@": "".join(f",\n    {argument}" for argument in arguments),
        "@places@": places,
        "@call@": "cuLaunchCooperativeKernel" if cooperative else "cuLaunchKernel",
        "@extra@": "" if cooperative else ", NULL",
    }
    for word, replacement in replacements.items():
        text = text.replace(word, replacement)
    return text


def _images(name: str, cubin: bytes | None, ptx: str) -> Iterator[str]:
    if cubin is not None:
        yield _array(f"{name}_cubin", cubin, "for the architecture itself")
    yield _array(f"{name}_ptx", ptx.encode() + b"\0", "which the driver compiles, where it must")


def _array(name: str, data: bytes, remark: str) -> str:
    """An image as words of 64 bits, since it is to be aligned so; their order is the machines'."""
    padded = data.ljust(-(-len(data) // 8) * 8, b"\0")
    words = [f"{word:#x}," for (word,) in struct.iter_unpack("<Q", padded)]
    rows = ["  " + " ".join(words[at : at + _ROW]) for at in range(0, len(words), _ROW)]
    return "\n".join([f"/* {remark} */", f"static const uint64_t {name}[] = {{", *rows, "};"])


def _c_name(name: str) -> str:
    """A parameter's name, with a line behind it where C or the header uses it otherwise."""
    return f"{name}_" if name in _TAKEN else name


_ASSERTS = """\
 *
 * It was compiled with its assertions: where one is false, that thread ends, and nothing is said.
"""

_CLUSTERS = """\
 * Every @cluster@ programs in a row along x are one cluster: they run at the same time, close
 * together. Where grid_x is no multiple of that, there are no clusters.
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
@together@  return cuLaunchKernelEx(&config, kernel->function, arguments, NULL);
"""

_TOGETHER = """\
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
 * The grid is how many programs run along x (up to 2^31 - 1), y and z (up to 65535 each); a program
 * has @threads@ threads and @shared@ bytes of shared memory. A grid with an extent of 0 launches
 * nothing. The launch does not wait.
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

/* Gives back what `load` took. */
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

/* Starts the kernel on a grid of programs, in a stream; 0 is the default one. */
static inline CUresult @name@_launch(
    const @name@_kernel *kernel,
    unsigned grid_x,
    unsigned grid_y,
    unsigned grid_z,
    CUstream stream@arguments@) {
  if (grid_x == 0 || grid_y == 0 || grid_z == 0)
    return CUDA_SUCCESS;
  void *arguments[] = {@places@};
@launch@}

#ifdef __cplusplus
}
#endif
#endif
"""
