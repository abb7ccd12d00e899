"""Cubins of kernels where TorchInductor looks for them, so that it launches them from C++.

TorchInductor's static launcher loads `<folder of the hash>/<function>.cubin` in the folder of
Triton's cache, and passes the runtime arguments in order. That takes neither Python of this package
nor of Triton. Kernels that need more at a launch have no cubin there, and are launched by
`CompiledKernel.run`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from tile._lazy import lazy_import
from tile.compat.cache import get_cache_manager
from tile.instrumentation import Scoped
from tile.runtime.kernel import CompiledKernel
from tile.runtime.kernel_metadata import WARP_SIZE

if TYPE_CHECKING:
    from tile.backends.nvptx.ptxas import start_cubin
else:
    start_cubin = lazy_import("tile.backends.nvptx.ptxas", "start_cubin")

CUBIN = "cubin"
ANY_DRIVER = 0  # stands for the version of the driver, which worker processes do not ask for
POINTER = "*"
# The types that the launcher passes as they are. It passes an fp16 as an fp32.
PASSED = frozenset(f"{sign}{bits}" for sign in "iu" for bits in (1, 8, 16, 32, 64)) | {
    "fp32",
    "fp64",
}

# True where compilations do not wait for ptxas.
assembles_later: Scoped[bool] = Scoped("tile_assembles_later", False)


def add_cubin(kernel: CompiledKernel) -> None:
    """Store the cubin of a kernel that can be launched statically; else the reason why not.

    In the scope of `assembles_later` wait for ptxas only when something asks for the cubin.
    """
    reason = obstacle(kernel)
    if reason:
        _note_absence(kernel, reason)
        return
    ptx = kernel.asm["ptx"]
    assert isinstance(ptx, str)
    key = kernel.hash  # of the other stages
    code = start_cubin(ptx, kernel.name, kernel.target.arch, ANY_DRIVER)
    kernel.asm.unfinished[CUBIN] = partial(_finish, kernel, key, code)
    if not assembles_later():
        kernel.asm.finish(CUBIN)


def _finish(kernel: CompiledKernel, key: str, code: Callable[[], bytes | None]) -> None:
    """Store a cubin, or the reason why there is none; `code` waits for it."""
    cubin = code()
    if cubin is None:
        reason = "ptxas, which assembles it, is not found, or the cache for it is disabled"
        _note_absence(kernel, reason)
        return
    kernel.asm[CUBIN] = cubin
    get_cache_manager(key).put(cubin, f"{kernel.name}.{CUBIN}")


def _note_absence(kernel: CompiledKernel, reason: str) -> None:
    kernel.asm.absent[CUBIN] = (
        f"{kernel.name} has no cubin for launches from C++, as by AOTInductor, cpp_wrapper or "
        f"TorchInductor's static launcher: {reason}"
    )


def fail_at_assertions(kernel: CompiledKernel) -> None:
    """Let a false assertion fail the launch, as in Triton's kernels, instead of a later launch.

    A library may launch the kernel once and wait for the device itself, so that nothing would raise
    what the kernel reports. Without the launch metadata of assertions there is no report.
    """
    artifact = kernel.artifact
    metadata = {**artifact.launch_metadata, "assertions": []}
    kernel.artifact = replace(artifact, launch_metadata=metadata)


def obstacle(kernel: CompiledKernel) -> str:
    """Return why a launch takes more than the kernel's runtime arguments; else an empty string."""
    launch = kernel.artifact.launch_metadata
    options = kernel.options
    runtime = [kind for name, kind in kernel.src.signature.items() if name not in kernel.constants]
    others = [
        str(kind)
        for kind in runtime
        if not (isinstance(kind, str) and (kind.startswith(POINTER) or kind in PASSED))
    ]
    reasons = {
        f"its function in the cubin is named {launch['kernel']}": launch["kernel"]
        != getattr(kernel.fn, "__name__", None),
        f"it has {launch['threads']} threads, as its partitions need": launch["threads"]
        != WARP_SIZE * options.num_warps,
        "it takes tensor maps, which tile makes at each launch": bool(launch["maps"]),
        "its programs form clusters": options.num_ctas != 1,
        "its grid is cooperative": options.launch_cooperative_grid,
        "it may overlap the launch before": options.launch_pdl,
        "it has a second version for arrays that overlap": bool(kernel.disjoint_parameters),
        f"it has arguments of types {', '.join(dict.fromkeys(others))}": bool(others),
    }
    return next((reason for reason, holds in reasons.items() if holds), "")
