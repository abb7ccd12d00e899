"""Models with random weights, compiled by TorchInductor, against torch's own results; a program.

    tile triton -m tests.libraries.models --ptx
    tile triton -m tests.libraries.models --device cuda --size full --measure

On a CPU the kernels run on the interpreter, those of flex attention with TorchInductor's
configurations for an H100 (`flex_on_cpu.py`). `--ptx` also compiles each of them for sm_90a, and
assembles it if there is ptxas. `--size` scales the models: `tiny` for a CPU, and `full` for a GPU: Llama of 1B parameters, BERT base,
ViT-B/16, ResNet-50, GPT-2 (small), and flex attention with 4 x 16 heads of 128 and 4096 tokens.
`--measure` prints the times of a call and of the GPU's kernels in it; `--profile` lists these
kernels, and `--gemm TRITON` takes templates in place of cuBLAS, of which `--configurations` limits
the choice. `model_times.py` compares both times with Triton's.
"""

from __future__ import annotations

import argparse
import fcntl
import gc
import importlib
import logging
import math
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import torch
import triton
from torch import nn
from torch.nn import functional

from tests.libraries import flex_cases, flex_on_cpu
from tests.libraries.architectures import ALL, SIZES, Picture, Size, Words, resnet
from tests.libraries.compilations import HOPPER, Compilations, summary
from tests.libraries.flex_cases import Case
from tile.backends.nvptx import ptxas
from tile.compat import kernel_timing

Step = Callable[..., Any]
# The norm of a difference relative to that of torch's result, by dtype.
TOLERANCE = {"float32": 1e-4, "bfloat16": 3e-2}
COMPILED, PROFILE, PROFILED = "compiled", "profile", "end of the kernels"
MEASURED = "milliseconds of a call, and of its kernels:"
BATCHES, BATCH_SECONDS = 7, 0.05  # of calls that are timed together
CALLS, KERNELS = 5, 16  # that are profiled, and that are printed


# -- cases: a function, and its arguments


def inference(model: nn.Module, *inputs: Any) -> Case:
    model.eval().requires_grad_(False)
    return Case(model, inputs)


def tokens_of(size: Size) -> Any:
    return torch.randint(size.vocabulary, (size.batch, size.tokens))


def training(size: Size) -> Case:
    model = Words(size)

    def step(words: Any) -> Any:
        logits = model(words)[:, :-1]
        return functional.cross_entropy(logits.flatten(0, 1), words[:, 1:].flatten())

    return Case(step, (tokens_of(size),), tuple(model.parameters()))


def rows_of(size: Size) -> Any:
    """Return rows as long as two widths, one for each token."""
    return torch.randn(size.batch * size.tokens, 2 * size.width)


def chain(size: Size) -> Case:
    return Case(lambda x: x.sin().exp().tanh(), (rows_of(size),))


def sum_of_rows(size: Size) -> Case:
    return Case(lambda x: x.sum(0), (rows_of(size),))


def layer_norm(size: Size) -> Case:
    x, (weight, bias) = rows_of(size).requires_grad_(), torch.randn(2, 2 * size.width)
    weight, bias = weight.clone().requires_grad_(), bias.clone().requires_grad_()

    def step(*arguments: Any) -> Any:
        x, weight, bias = arguments
        return functional.layer_norm(x, x.shape[-1:], weight, bias).square().mean()

    return Case(step, (x, weight, bias), (x, weight, bias))


def cross_entropy(size: Size) -> Case:
    x = rows_of(size).requires_grad_()
    classes = torch.randint(x.shape[1], x.shape[:1])
    return Case(functional.cross_entropy, (x, classes), (x,))


def attention_shape(size: Size) -> flex_cases.Shape:
    """Return the shape of a layer's attention."""
    width = max(16, size.width // size.heads)
    return flex_cases.Shape(size.batch, size.heads, max(128, size.tokens), width)


CASES: dict[str, Callable[[Size], Case]] = {
    "llama": lambda size: inference(Words(size, llama=True), tokens_of(size)),
    "bert": lambda size: inference(Words(size, causal=False), tokens_of(size)),
    "vit": lambda size: inference(
        Picture(size), torch.randn(size.batch, 3, size.image, size.image)
    ),
    "resnet": lambda size: inference(
        resnet(size), torch.randn(size.batch, 3, size.image, size.image)
    ),
    "gpt2 training": training,
    "chain": chain,
    "sum of rows": sum_of_rows,
    "layer norm training": layer_norm,
    "cross entropy training": cross_entropy,
    **{
        name: lambda size, make=make: make(attention_shape(size))
        for name, make in flex_cases.CASES.items()
    },
}


# -- running


def made(name: str, options: argparse.Namespace) -> Case:
    """Return a case on a device, with the same numbers each time."""
    torch.manual_seed(0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(getattr(torch, options.dtype))
    try:
        with torch.device(options.device):
            sizes = SIZES[options.size]
            size = sizes.get(name, sizes[ALL])
            return CASES[name](replace(size, layers=options.layers or size.layers))
    finally:
        torch.set_default_dtype(before)


def ran(step: Step, case: Case) -> list[Any]:
    """Return the result of a step and the gradients."""
    result = step(*case.arguments)
    if not case.gradients:
        return [result.detach()]
    return [result.detach(), *torch.autograd.grad(result, case.gradients)]


def worst(actual: list[Any], expected: list[Any]) -> float:
    """Return the largest relative difference of results; NaN if there is one."""
    differences = [
        float((a.double() - e.double()).norm() / e.double().norm().clamp_min(1e-30))
        for a, e in zip(actual, expected, strict=True)
    ]
    return math.nan if any(map(math.isnan, differences)) else max(differences)


@contextmanager
def inductor(options: argparse.Namespace) -> Iterator[None]:
    """Let TorchInductor write kernels for Triton, on a CPU too."""
    torch._dynamo.reset()
    on_cpu = options.device == "cpu"
    settings: dict[str, Any] = {"force_disable_caches": True}
    if on_cpu:
        settings["cpu_backend"] = "triton"
    if on_cpu or not (
        options.measure or options.profile or options.serve
    ):  # in this process, where `Compilations` notes them
        settings["compile_threads"] = 1
    if options.gemm:
        settings |= {"max_autotune_gemm": True, "max_autotune_gemm_backends": options.gemm}
    if options.configurations:
        settings["test_configs.max_mm_configs"] = options.configurations
    with torch._inductor.config.patch(**settings):
        yield


def checked(name: str, options: argparse.Namespace) -> str:
    """Return how a model is wrong, or an empty string."""
    kernels = Compilations()
    case = made(name, options)
    expected = ran(case.step, case)
    with inductor(options), kernels.recorded():
        actual = ran(torch.compile(case.step, fullgraph=True), case)
    difference = worst(actual, expected)
    if not kernels.sources:
        return "it has no kernel"
    if not difference <= TOLERANCE[options.dtype]:
        return f"its results differ by {difference:.1e}"
    return assembled(kernels) if options.ptx else ""


def assembled(kernels: Compilations) -> str:
    """Compile kernels for sm_90a, and assemble them where there is ptxas; return what failed."""
    program = ptxas.find()
    for source, options in kernels.sources:
        try:
            text = triton.compile(source, HOPPER, options).asm["ptx"]
            if program is not None:
                ptxas.assemble(text, "sm_90a", program)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told
            return f"{source.name} for sm_90a: {summary(error)}"
    print(f"  {len(kernels.sources)} kernels for sm_90a{', assembled' if program else ''}")
    return ""


@contextmanager
def compiled(name: str, options: argparse.Namespace) -> Iterator[Callable[[], object]]:
    """Yield a function that calls a model, which is compiled."""
    case = made(name, options)
    with inductor(options), benchmarks_locked(options.lock):
        function = torch.compile(case.step, fullgraph=True)

        def call() -> None:
            ran(function, case)

        call()
        yield call


@contextmanager
def benchmarks_locked(path: str) -> Iterator[None]:
    """Let one process at a time choose among configurations on the GPU, if a lock's path is given."""
    benchmarking = importlib.import_module("torch._inductor.runtime.benchmarking")
    owners = [(benchmarking.InductorBenchmarker, "benchmark_gpu"), (kernel_timing, "least")]
    originals = [getattr(owner, name) for owner, name in owners]

    def locked(benchmark: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            with open(path) as file:
                fcntl.flock(file, fcntl.LOCK_EX)
                return benchmark(*arguments, **options)

        return call if path else benchmark

    for (owner, name), original in zip(owners, originals, strict=True):
        setattr(owner, name, locked(original))
    try:
        yield
    finally:
        for (owner, name), original in zip(owners, originals, strict=True):
            setattr(owner, name, original)


def times_of(call: Callable[[], object], device: str) -> tuple[float, float]:
    """Return the milliseconds of a call and of its kernels."""
    return (call_time(call), kernel_time(call)) if device == "cuda" else (batch_time(call, 1), 0.0)


def batch_time(call: Callable[[], object], calls: int) -> float:
    """Return the milliseconds of a call, the mean of a batch that ends when the GPU is done."""
    start = time.perf_counter()
    for _ in range(calls):
        call()
    if torch.cuda.is_initialized():
        torch.cuda.synchronize()
    return (time.perf_counter() - start) * 1e3 / calls


def call_time(call: Callable[[], object]) -> float:
    """Return the milliseconds of a call, the median of batches."""
    torch.cuda.synchronize()
    calls = max(1, int(BATCH_SECONDS * 1e3 / batch_time(call, 3)))
    return statistics.median(batch_time(call, calls) for _ in range(BATCHES))


def kernel_time(call: Callable[[], object]) -> float:
    """Return the milliseconds of a call's kernels on the GPU."""
    return sum(one.self_device_time_total for one in profile_of(call)) / CALLS / 1e3


def profile_of(call: Callable[[], object]) -> Any:
    """Return the GPU's kernels in some calls, by their names."""
    kinds = [torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=kinds) as profile:
        for _ in range(CALLS):
            call()
        torch.cuda.synchronize()
    return profile.key_averages()


def kernels_of(call: Callable[[], object]) -> list[tuple[float, int, str]]:
    """Return the GPU's kernels in a call of a compiled model: microseconds, launches, and the name.

    Those with the most time are first.
    """
    rows = [
        (one.self_device_time_total / CALLS, one.count // CALLS, one.key)
        for one in profile_of(call)
    ]
    return sorted(rows, reverse=True)


def kernel_rows(call: Callable[[], object]) -> list[str]:
    """Return a text about the kernels in a call that take most time."""
    kernels = kernels_of(call)
    total = sum(time for time, _, _ in kernels)
    most = [f"{time:9.1f} us in {count:3} of {key[:80]}" for time, count, key in kernels[:KERNELS]]
    return [f"{total:9.1f} us in kernels", *most]


def serve(options: argparse.Namespace) -> None:
    """Measure as the input says.

    It has a line with a model, then requests, and an empty line: `measure`, or `profile` for the
    kernels in a call.
    """
    importlib.import_module("torch._inductor.compile_fx")
    if options.device == "cuda":
        torch.ones(8, device="cuda").sum().item()  # opens the device
    for line in sys.stdin:
        with compiled(line.strip(), options) as call:
            print(COMPILED, flush=True)
            while request := sys.stdin.readline().strip():
                if request == PROFILE:
                    rows = ("\t".join(map(str, row)) for row in kernels_of(call))
                    print(*rows, PROFILED, sep="\n", flush=True)
                else:
                    print(MEASURED, *times_of(call, options.device), flush=True)
        gc.collect()  # models are large
        torch.cuda.empty_cache()


def arguments() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--dtype", choices=TOLERANCE, default="float32")
    parser.add_argument("--gemm", default="", help="backends of matmuls, such as TRITON")
    parser.add_argument("--configurations", type=int, default=0, help="of a matmul; 0: all")
    parser.add_argument("--only", nargs="*", choices=CASES, default=list(CASES))
    parser.add_argument("--lock", default="", help="a file to lock while configurations are timed")
    parser.add_argument("--ptx", action="store_true", help="compile each kernel for sm_90a too")
    parser.add_argument("--layers", type=int, default=0, help="of transformers; 0: as of the size")
    parser.add_argument("--measure", action="store_true", help="print the times of a call")
    parser.add_argument("--serve", action="store_true", help="measure as the input says")
    parser.add_argument("--profile", action="store_true", help="print the times of kernels")
    return parser.parse_args()


def main() -> int:
    """Run the program, and return its exit status."""
    options = arguments()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    with flex_on_cpu.templates() if options.device == "cpu" else nullcontext():
        return run(options)


def run(options: argparse.Namespace) -> int:
    """Check or measure models, and return the exit status."""
    start, bad = time.monotonic(), 0
    if options.serve:
        serve(options)
        return 0
    for name in options.only:
        if options.profile:
            with compiled(name, options) as call:
                print(name, *kernel_rows(call), sep="\n", flush=True)
            continue
        if options.measure:
            with compiled(name, options) as call:
                print(name, MEASURED, *times_of(call, options.device), flush=True)
            continue
        try:
            reason = checked(name, options)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told
            reason = summary(error)
        bad += bool(reason)
        print(f"{name}: {reason or 'right'}", flush=True)
    if not (
        options.measure or options.profile
    ):  # the form of pytest's last line, which the steps of CI sum up
        seconds = time.monotonic() - start
        print(f"{len(options.only) - bad} passed, {bad} failed in {seconds:.2f}s")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
