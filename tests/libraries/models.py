"""Models with random weights, compiled by TorchInductor, against torch's own results; a program.

    tile triton -m tests.libraries.models --ptx
    tile triton -m tests.libraries.models --device cuda --size full --measure
    python -m tests.libraries.models --device cuda --size full --compare 5 --layers 4

On a CPU the kernels run on the interpreter, those of flex attention with TorchInductor's
configurations for an H100 (`flex_on_cpu.py`). `--ptx` also compiles each of them for sm_90a, and
assembles it if there is ptxas. `--size` scales the models: `tiny` for a CPU, and `full` for a GPU: Llama of 1B parameters, BERT base,
ViT-B/16, ResNet-50, GPT-2 (small), and flex attention with 4 x 16 heads of 128 and 4096 tokens.
`--measure` prints the times of a call and of the GPU's kernels in it, by PyTorch's clocks on both
compilers; `--profile` lists these kernels, and `--gemm TRITON` takes templates in place of cuBLAS.
`--compare N` compiles each model in a process on `tile` and in one on Triton, measures N times in
each alternately, and prints the ratios of the medians and their geometric means.
"""

from __future__ import annotations

import argparse
import logging
import math
import statistics
import subprocess
import sys
import tempfile
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

from tests.libraries import flex_cases, flex_on_cpu, op_db
from tests.libraries.architectures import ALL, SIZES, Picture, Size, Words, resnet
from tests.libraries.flex_cases import Case
from tile.backends.nvptx import ptxas

Step = Callable[..., Any]
# The norm of a difference relative to that of torch's result, by dtype.
TOLERANCE = {"float32": 1e-4, "bfloat16": 3e-2}
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
    """Return the largest relative difference of results."""
    pairs = zip(actual, expected, strict=True)
    return max(
        float((a.double() - e.double()).norm() / e.double().norm().clamp_min(1e-30))
        for a, e in pairs
    )


@contextmanager
def inductor(options: argparse.Namespace) -> Iterator[None]:
    """Let TorchInductor write kernels for Triton, on a CPU too."""
    torch._dynamo.reset()
    on_cpu = options.device == "cpu"
    settings: dict[str, Any] = {"force_disable_caches": True}
    if on_cpu:
        settings["cpu_backend"] = "triton"
    if on_cpu or not (
        options.measure or options.profile
    ):  # in this process, where `Compilations` notes them
        settings["compile_threads"] = 1
    if options.gemm:
        settings |= {"max_autotune_gemm": True, "max_autotune_gemm_backends": options.gemm}
    with torch._inductor.config.patch(**settings):
        yield


def checked(name: str, options: argparse.Namespace) -> str:
    """Return how a model is wrong, or an empty string."""
    kernels = op_db.Compilations()
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


def assembled(kernels: op_db.Compilations) -> str:
    """Compile kernels for sm_90a, and assemble them where there is ptxas; return what failed."""
    program = ptxas.find()
    for source, options in kernels.sources:
        try:
            text = triton.compile(source, op_db.HOPPER, options).asm["ptx"]
            if program is not None:
                ptxas.assemble(text, "sm_90a", program)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told
            return f"{source.name} for sm_90a: {op_db.summary(error)}"
    print(f"  {len(kernels.sources)} kernels for sm_90a{', assembled' if program else ''}")
    return ""


def measured(name: str, options: argparse.Namespace) -> Iterator[tuple[float, float]]:
    """Compile a model; then return times of a call and of its kernels, as often as asked."""
    case = made(name, options)
    with inductor(options):
        compiled = torch.compile(case.step, fullgraph=True)

        def call() -> None:
            ran(compiled, case)

        call()
        on_gpu = options.device == "cuda"
        while True:
            yield (call_time(call), kernel_time(call)) if on_gpu else (batch_time(call, 1), 0.0)


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


def profiled(name: str, options: argparse.Namespace) -> list[str]:
    """Return the GPU's kernels in a call of a compiled model, those with the most time first."""
    case = made(name, options)
    with inductor(options):
        compiled = torch.compile(case.step, fullgraph=True)
        ran(compiled, case)
        averages = profile_of(lambda: ran(compiled, case))
    kernels = sorted(averages, key=lambda one: -one.self_device_time_total)
    total = sum(one.self_device_time_total for one in kernels) / CALLS
    rows = [(one.self_device_time_total / CALLS, one.count // CALLS, one.key) for one in kernels]
    most = [f"{time:9.1f} us in {count:3} of {key[:80]}" for time, count, key in rows[:KERNELS]]
    return [f"{name}: {total:.1f} us in kernels", *most]


def serve(name: str, options: argparse.Namespace) -> None:
    """Print times of a model: once, or for each line of the input."""
    times = measured(name, options)
    if not options.serve:
        print(MEASURED, *next(times), flush=True)
        return
    next(times)  # compiles
    print("compiled", flush=True)
    for _ in sys.stdin:
        print(MEASURED, *next(times), flush=True)


class Server:
    """A process that has compiled a model, and measures it on request."""

    def __init__(self, prefix: list[str], name: str, options: argparse.Namespace) -> None:
        command = [sys.executable, *prefix, "-m", "tests.libraries.models", "--measure", "--serve"]
        for option in ("device", "size", "dtype", "gemm", "layers"):
            command += [f"--{option}", str(getattr(options, option))]
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [*command, "--only", name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            text=True,
        )

    def answer(self, start: str) -> str:
        """Return the rest of the next line that starts so."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith(start):
                return line.removeprefix(start)
        self.errors.seek(0)
        raise RuntimeError(self.errors.read()[-300:])

    def measure(self) -> tuple[float, float]:
        """Return the times of a call and of its kernels."""
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        call, kernels = map(float, self.answer(MEASURED).split())
        return call, kernels

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.communicate()
        self.errors.close()


WAYS = {"tile": ["-m", "tile", "triton"], "Triton": []}


def compared(name: str, options: argparse.Namespace) -> list[list[float]]:
    """Return the medians of a model on `tile` and on Triton: of a call, and of its kernels."""
    servers: list[Server] = []
    times: dict[str, list[tuple[float, float]]] = {way: [] for way in WAYS}
    try:
        for prefix in WAYS.values():
            servers.append(Server(prefix, name, options))
            if options.gemm:  # one at a time, since it tunes
                servers[-1].answer("compiled")
        for server in servers if not options.gemm else ():
            server.answer("compiled")
        for _ in range(options.compare):
            for way, server in zip(WAYS, servers, strict=True):
                times[way].append(server.measure())
    finally:
        for server in servers:
            server.stop()
    return [[statistics.median(column) for column in zip(*times[way], strict=True)] for way in WAYS]


def compare(names: list[str], options: argparse.Namespace) -> None:
    """Measure models on `tile` and on Triton alternately, and print the ratios."""
    ratios: list[list[float]] = []
    for name in names:
        try:
            tile, triton = compared(name, options)
        except RuntimeError as error:
            print(f"{name} failed: {error}", flush=True)
            continue
        ratios.append([b / a if a else math.nan for a, b in zip(tile, triton, strict=True)])
        texts = [
            f"{a:.4f} ms on tile, {b:.4f} on Triton, {ratio:.3f}"
            for a, b, ratio in zip(tile, triton, ratios[-1], strict=True)
        ]
        print(f"{name}: call {texts[0]}; kernels {texts[1]}", flush=True)
    if ratios:
        means = [
            math.exp(statistics.fmean(map(math.log, column)))
            for column in zip(*ratios, strict=True)
        ]
        print(f"geometric means: calls {means[0]:.3f}, kernels {means[1]:.3f}")


def arguments() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--dtype", choices=TOLERANCE, default="float32")
    parser.add_argument("--gemm", default="", help="backends of matmuls, such as TRITON")
    parser.add_argument("--only", nargs="*", choices=CASES, default=list(CASES))
    parser.add_argument("--ptx", action="store_true", help="compile each kernel for sm_90a too")
    parser.add_argument("--layers", type=int, default=0, help="of transformers; 0: as of the size")
    parser.add_argument("--measure", action="store_true", help="print the times of a call")
    parser.add_argument("--serve", action="store_true", help="measure for each line of the input")
    parser.add_argument("--profile", action="store_true", help="print the times of kernels")
    parser.add_argument("--compare", type=int, default=0, help="processes of each compiler")
    return parser.parse_args()


def main() -> int:
    """Run the program, and return its exit status."""
    options = arguments()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    if options.compare:
        compare(options.only, options)
        return 0
    with flex_on_cpu.templates() if options.device == "cpu" else nullcontext():
        return run(options)


def run(options: argparse.Namespace) -> int:
    """Check or measure models, and return the exit status."""
    start, bad = time.monotonic(), 0
    for name in options.only:
        if options.profile:
            print("\n".join(profiled(name, options)), flush=True)
            continue
        if options.measure:
            serve(name, options)
            continue
        try:
            reason = checked(name, options)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told
            reason = op_db.summary(error)
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
