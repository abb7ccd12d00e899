"""Parts of TorchInductor beyond models and operators, on `tile`; a program that prints a row each.

    tile triton -m tests.libraries.inductor_features
    tile triton -m tests.libraries.inductor_features --device cuda --only "cooperative reductions"

Each row says that results were those of eager torch, that an error names what is missing, or what
was wrong. A false assertion ends the work of a process on a GPU, so that check comes last.
"""

from __future__ import annotations

import argparse
import faulthandler
import logging
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import triton
import triton.language as tl
from torch import nn
from torch._inductor import config
from torch._inductor.utils import run_and_get_code
from torch.nn import functional

from tile.errors import DeviceAssertionError, UnsupportedError

NO_ANSWER = "it has no kernel of this kind"


class Failed(Exception):
    """A result or an error that is not as it should be."""


# -- helpers


def same(actual: Any, expected: Any, *, tolerance: float = 1e-3) -> None:
    """Raise `Failed` for results that differ by more than sums in another order do."""
    try:
        torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)
    except AssertionError as error:
        raise Failed(" ".join(str(error).split())[:200]) from error


def compiled_as(function: Callable[..., Any], *inputs: Any, text: str = "") -> None:
    """Compile a function, compare its results with eager ones, and look for text in its kernels."""
    actual, codes = run_and_get_code(torch.compile(function, fullgraph=True), *inputs)
    same(actual, function(*inputs), tolerance=1e-2 if inputs[0].dtype == torch.bfloat16 else 1e-3)
    if text not in "".join(codes):
        raise Failed(NO_ANSWER)


def on_gpu(device: str) -> bool:
    return device == "cuda"


# -- checks


def cooperative_reductions(device: str) -> None:
    """Let several programs of a cooperative grid compute one sum."""
    x = torch.randn(4, 1 << (20 if on_gpu(device) else 14), device=device)
    forced = {"triton.cooperative_reductions": True, "triton.force_cooperative_reductions": True}
    with config.patch(forced):
        for function in (
            lambda x: x.sum(-1),
            lambda x: torch.softmax(x, -1),
            lambda x: torch.var_mean(x, -1),
            lambda x: x.argmax(-1),
        ):
            torch._dynamo.reset()
            compiled_as(function, x, text="x_grid_barrier")


@triton.autotune([triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 256})], key=["n"])
@triton.jit
def scaled(x_ptr, out_ptr, n, factor, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + i, tl.load(x_ptr + i, i < n) * factor, i < n)


@triton.jit
def add_to(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x, y = tl.load(x_ptr + i, i < n), tl.load(y_ptr + i, i < n)
    tl.store(y_ptr + i, x + y, i < n)


def user_kernels(device: str) -> None:
    """Launch kernels of the program: autotuned, in place, with sizes that change."""

    def function(x: Any) -> Any:
        out = torch.empty_like(x)
        n = x.numel()
        scaled[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x.sin(), out, n, 2.5)
        add_to[(triton.cdiv(n, 128),)](x, out, n, BLOCK=128)
        return out * 2

    compiled = torch.compile(function, fullgraph=True, dynamic=True)
    for n in (1000, 4096):
        x = torch.randn(n, device=device)
        same(compiled(x), (x.sin() * 2.5 + x) * 2)


def triton_op(device: str) -> None:
    """Make a kernel an operator by `torch.library.triton_op`, with a gradient."""

    @torch.library.triton_op("tile_features::scale", mutates_args=())
    def scale(x: torch.Tensor, factor: float) -> torch.Tensor:
        out = torch.empty_like(x)
        n = x.numel()
        kernel = torch.library.wrap_triton(scaled)
        kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, out, n, factor)
        return out

    scale.register_autograd(
        lambda ctx, grad: (scale(grad.contiguous(), ctx.factor), None),
        setup_context=lambda ctx, inputs, output: setattr(ctx, "factor", inputs[1]),
    )
    x = torch.randn(1000, device=device, requires_grad=True)
    result = torch.compile(lambda x: scale(x.cos(), 3.0).sum(), fullgraph=True)(x)
    same(result, (x.cos() * 3).sum(), tolerance=1e-2)
    result.backward()
    same(x.grad, -3 * x.detach().sin())


def matmul_templates(device: str) -> None:
    """Multiply by Triton's templates, with and without persistent programs and TMA."""
    size = 256 if on_gpu(device) else 64
    dtype = torch.bfloat16 if on_gpu(device) else torch.float32
    a, b, c = (torch.randn(size, size, device=device, dtype=dtype) / 8 for _ in range(3))
    chosen: dict[str, Any] = {
        "max_autotune_gemm": True,
        "max_autotune_gemm_backends": "TRITON",
        "autotune_num_choices_displayed": 0,
        # On a CPU TorchInductor's benchmark of fused kernels is no Python: its indent is wrong.
        "benchmark_epilogue_fusion": on_gpu(device),
    }
    functions = (
        lambda a, b, c: functional.gelu(a @ b),
        lambda a, b, c: torch.addmm(c, a, b),
        lambda a, b, c: torch.bmm(a[None].expand(3, -1, -1), b[None].expand(3, -1, -1)),
    )
    for persistent in (False, True) if on_gpu(device) else (False,):
        with config.patch({**chosen, "triton.enable_persistent_tma_matmul": persistent}):
            for function in functions:
                torch._dynamo.reset()
                compiled_as(function, a, b, c, text="triton_tem")


def cuda_graphs(device: str) -> None:
    """Replay a step and its backward."""
    model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64)).to(device)
    step = torch.compile(lambda x: model(x).square().mean(), mode="reduce-overhead")
    for _ in range(4):
        x = torch.randn(32, 64, device=device)
        model.zero_grad()
        step(x).backward()
        got = [p.grad.clone() for p in model.parameters()]
        model.zero_grad()
        model(x).square().mean().backward()
        same(got, [p.grad for p in model.parameters()])


def static_launcher(device: str) -> str:
    """Start kernels from C++."""
    if not on_gpu(device):
        return "none on a CPU"
    from torch._inductor.runtime import triton_heuristics as heuristics

    made: list[str] = []
    kind: Any = heuristics.StaticTritonCompileResult
    generate = kind.make_launcher

    def note(result: Any) -> Any:
        made.append(type(result.kernel).__name__)
        return generate(result)

    kind.make_launcher = note
    try:
        x = torch.randn(1000, device=device)
        compiled_as(lambda x: (x.sin() + 1).softmax(-1), x)
    finally:
        kind.make_launcher = generate
    if not made:
        raise Failed("no kernel has a static launcher")
    return f"{len(made)} launchers"


def worker_processes(device: str) -> None:
    """Compile in the pool of worker processes."""
    from torch._inductor.async_compile import AsyncCompile

    with config.patch(compile_threads=2, worker_start_method="subprocess"):
        AsyncCompile.warm_pool()
        AsyncCompile.wait_pool_ready()
        if not AsyncCompile.use_process_pool():
            raise Failed("there is no pool")
        x = torch.randn(64, 33, device=device)
        compiled_as(lambda x: (torch.softmax(x * 1.5, 1), x.sin().sum(0)), x)


def model_of(device: str) -> tuple[Any, Any]:
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Softmax(-1))
    return model.to(device).eval(), torch.randn(8, 32, device=device)


def cpp_wrapper(device: str) -> None:
    """Call kernels from C++ that TorchInductor writes."""
    model, x = model_of(device)
    with torch.no_grad(), config.patch(cpp_wrapper=True):
        same(torch.compile(model, fullgraph=True)(x), model(x))


# Loads a model without `tile`, and stores its results for the arguments of a file.
LOADER = """
import sys
import torch
package, arguments, results = sys.argv[1:]
loaded = torch._inductor.aoti_load_package(package)
torch.save([loaded(x) for x in torch.load(arguments)], results)
"""


def ahead_of_time(device: str) -> None:
    """Put a model into a library by AOTInductor; load it here, and in a process without `tile`."""
    model, x = model_of(device)
    arguments = [x, torch.cat([x, x])]
    shapes = ({0: torch.export.Dim("rows", min=2, max=1024)},)
    with torch.no_grad(), tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        exported = torch.export.export(model, (x,), dynamic_shapes=shapes)
        package = torch._inductor.aoti_compile_and_package(
            exported, package_path=str(folder / "model.pt2")
        )
        check_libstdcxx(Path(package))
        loaded = torch._inductor.aoti_load_package(package)
        expected = [model(argument) for argument in arguments]
        same([loaded(argument) for argument in arguments], expected)
        torch.save(arguments, folder / "arguments")
        command = [sys.executable, "-c", LOADER, package]
        paths = [str(folder / "arguments"), str(folder / "results")]
        done = subprocess.run([*command, *paths], capture_output=True, text=True, check=False)
        if done.returncode:
            raise Failed(f"a process that loads it exits with {done.returncode}: {done.stderr}")
        same(torch.load(folder / "results"), expected)


def check_libstdcxx(package: Path) -> None:
    """Raise `Failed` if a model's library has a libstdc++ of its own.

    PyTorch's C++ parses the name of a device by a regular expression. In a static libstdc++ that
    ends the process (signal 11) as soon as the library is loaded, whichever compiler wrote the
    kernels.
    """
    with zipfile.ZipFile(package) as files:
        libraries = [files.read(name) for name in files.namelist() if name.endswith(".wrapper.so")]
    if not libraries:
        raise Failed("the package has no library")
    if not all(b"libstdc++.so" in library for library in libraries):
        raise Failed(
            "the C++ compiler links libstdc++ statically, so that a process that loads the library "
            "would end; set the environment variable CXX to one that links the shared libstdc++"
        )


def device_assertion(device: str) -> str:
    """Raise for an index out of range in a kernel that TorchInductor launches."""
    x, index = torch.randn(10, device=device), torch.tensor([0, 3, 99], device=device)
    try:
        torch.compile(lambda x, index: x[index] * 2, fullgraph=True)(x, index)
        if on_gpu(device):
            torch.cuda.synchronize()
    except (RuntimeError, DeviceAssertionError) as error:
        return summary(error)
    raise Failed("an index out of range is no error")


CHECKS: dict[str, Callable[[str], str | None]] = {
    "cooperative reductions": cooperative_reductions,
    "user kernels": user_kernels,
    "triton_op": triton_op,
    "matmul templates": matmul_templates,
    "CUDA graphs": cuda_graphs,
    "static launcher": static_launcher,
    "worker processes": worker_processes,
    "cpp_wrapper": cpp_wrapper,
    "AOTInductor": ahead_of_time,
    "device assertion": device_assertion,
}


# -- the program


def summary(error: BaseException) -> str:
    """Return the type and the first line of an error."""
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"[:300]


def refusal(error: BaseException | None) -> UnsupportedError | None:
    """Return the error of `tile` that names what is missing, among an error and its causes."""
    while error is not None and not isinstance(error, UnsupportedError):
        error = error.__cause__ or error.__context__ or getattr(error, "inner_exception", None)
    return error


def row(name: str, device: str) -> tuple[bool, str]:
    """Run a check; return if it went well, and what to say."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    settings: dict[str, Any] = {"force_disable_caches": True, "compile_threads": 1}
    if not on_gpu(device):
        settings["cpu_backend"] = "triton"
    try:
        with config.patch(settings):
            return True, CHECKS[name](device) or "right"
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told
        missing = refusal(error)
        return missing is not None, summary(missing or error)


def main() -> int:
    """Run the program, and return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--only", nargs="*", choices=CHECKS, default=list(CHECKS))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    faulthandler.enable()
    start, bad = time.monotonic(), 0
    for name in options.only:
        began = time.monotonic()
        well, text = row(name, options.device)
        bad += not well
        seconds = time.monotonic() - began
        print(f"{name}: {'' if well else 'WRONG: '}{text} ({seconds:.1f} s)", flush=True)
    # The form of pytest's last line, which the steps of CI sum up.
    print(f"{len(options.only) - bad} passed, {bad} failed in {time.monotonic() - start:.2f}s")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
