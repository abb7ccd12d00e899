"""Compares torch's operators, run by kernels on `tile`, with torch's own; a program.

    tile triton -m tests.libraries.op_db inductor --ops 200 --ptx
    tile triton -m tests.libraries.op_db inductor --device cuda --part 1/8
    GEMS_VENDOR=nvidia tile triton --version 3.6.0 -m tests.libraries.op_db flag_gems --minutes 5
    GEMS_VENDOR=nvidia tile triton --version 3.6.0 -m tests.libraries.op_db flag_gems --device cuda

`inductor` runs each operator of torch's `op_db` through `torch.compile`, whose kernels are compiled
by `tile`; `--ptx` compiles and assembles each of them for sm_90a too. `flag_gems` replaces torch's operators with
those of that library. The operators come in an order that is always the same, each with the first
sample of its inputs, in float32 or by `--dtype` in bfloat16. An operator that starts no kernel does not count, nor does one of
random results. Prints what was not right, and the counts; fails if there was any. After an error
that ends the work of a process on a GPU, the operators that are left are not tried.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import logging
import random
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import torch
import triton
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten

from tests.libraries import flag_gems_on_cpu
from tests.libraries.autotuners import limit_configs
from tests.libraries.compilations import HOPPER, Compilations, summary
from tile.backends.nvptx import ptxas

# Relative and absolute: sums of floats come in another order, and in bfloat16 eager torch has the
# error of each operation's result, compiled kernels only of the last one's.
TOLERANCES = {"float32": (1e-4, 1e-5), "bfloat16": (3e-2, 3e-2)}
# Uninitialized results, for which any value is right.
UNINITIALIZED = frozenset(
    {"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"}
)
# Operators that seed torch's generator first: equal each time, but FlagGems has another generator.
SEEDED = frozenset(
    """
    bernoulli cauchy exponential geometric log_normal multinomial normal rand_like randint
    randint_like randn randn_like uniform
    """.split()
)
Function = Callable[..., Any]


class Outcome(Enum):
    """The outcome of an operator."""

    RIGHT = "right"
    WRONG = "wrong"
    ERROR = "errors"
    NO_KERNEL = "without a kernel"
    LEFT_OUT = "left out"


@contextlib.contextmanager
def by_inductor(function: Function) -> Iterator[Function]:
    """Give a function compiled by TorchInductor, whose kernels are written in Triton."""
    torch._dynamo.reset()
    with torch._inductor.config.patch(
        cpu_backend="triton", compile_threads=1, fx_graph_cache=False, force_disable_caches=True
    ):
        yield torch.compile(function)


@contextlib.contextmanager
def by_flag_gems(function: Function) -> Iterator[Function]:
    """Give a function whose operators of torch are those of FlagGems, for tensors on the CPU."""
    with flag_gems_on_cpu.operators():
        yield function


@contextlib.contextmanager
def by_flag_gems_on_gpu(function: Function) -> Iterator[Function]:
    """Give a function whose operators of torch are those of FlagGems."""
    import flag_gems

    with flag_gems.use_gems():
        yield function


WAYS = {
    ("inductor", "cpu"): by_inductor,
    ("inductor", "cuda"): by_inductor,
    ("flag_gems", "cpu"): by_flag_gems,
    ("flag_gems", "cuda"): by_flag_gems_on_gpu,
}


@dataclass(frozen=True)
class Result:
    """The outcome of an operator, the reason if it is not right, and how its kernels assembled."""

    outcome: Outcome
    reason: str = ""
    ptx: Counter[str] = field(default_factory=Counter)


def first_sample(op: Any, device: str, dtype: str) -> tuple[Function, tuple[Any, ...]] | None:
    """Return an operator as a function of its tensors, and the tensors; None if it takes none."""
    sample = next(iter(op.sample_inputs(device, getattr(torch, dtype), requires_grad=False)), None)
    if sample is None:
        return None
    arguments = (sample.input, *sample.args)
    return (lambda *args: op.op(*args, **sample.kwargs)), arguments


def copied(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return arguments with tensors of their own, as some operators write them."""
    return torch.utils._pytree.tree_map_only(torch.Tensor, torch.clone, arguments)


def tensors(value: Any) -> list[Any]:
    """Return the leaves of a result."""
    return tree_flatten(value)[0]


def compare(actual: Any, expected: Any, dtype: str) -> str:
    """Return how results differ by more than the rounding of sums, or an empty string."""
    rtol, atol = TOLERANCES[dtype]
    try:
        torch.testing.assert_close(
            tensors(actual), tensors(expected), rtol=rtol, atol=atol, equal_nan=True
        )
    except AssertionError as error:
        return " ".join(str(error).split())[:200]
    return ""


def judge(op: Any, way: str, device: str, dtype: str, ptx: bool) -> Result:
    """Run an operator's first sample both ways."""
    torch.manual_seed(0)
    try:
        other_numbers = way == "flag_gems" and op.name in SEEDED
        if (
            other_numbers
            or op.name in UNINITIALIZED
            or (drawn := first_sample(op, device, dtype)) is None
        ):
            return Result(Outcome.LEFT_OUT)
        function, arguments = drawn
        expected = function(*copied(arguments))
        deterministic = not compare(function(*copied(arguments)), expected, dtype)
    except Exception as error:  # noqa: BLE001 - torch itself refuses some on this machine
        return Result(Outcome.LEFT_OUT, summary(error))
    if not deterministic:
        return Result(Outcome.LEFT_OUT, "torch's results differ from call to call")
    kernels = Compilations()
    copies = copied(arguments)
    try:
        with kernels.recorded(), WAYS[way, device](function) as replaced:
            actual = replaced(*copies)
            wait_for(device)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is told
        return Result(Outcome.ERROR, summary(error))
    if not (kernels.sources or kernels.launches):
        return Result(Outcome.NO_KERNEL)
    if difference := compare(actual, expected, dtype):
        return Result(Outcome.WRONG, difference)
    return compiled_for_hopper(kernels) if ptx else Result(Outcome.RIGHT)


def compiled_for_hopper(kernels: Compilations) -> Result:
    """Compile the kernels of an operator for sm_90a, and assemble them if there is a ptxas."""
    counts: Counter[str] = Counter()
    program = ptxas.find()
    for source, options in kernels.sources:
        try:
            kernel = triton.compile(source, HOPPER, options)
            counts["PTX"] += ".entry" in kernel.asm["ptx"]
            if program is not None and not kernel.asm.get("cubin"):
                ptxas.assemble(kernel.asm["ptx"], "sm_90a", program)
            counts["cubin"] += program is not None
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told
            return Result(Outcome.ERROR, f"sm_90a: {summary(error)}", counts)
    return Result(Outcome.RIGHT, "", counts)


def wait_for(device: str) -> None:
    """Wait for a GPU; raises what went wrong there."""
    if device == "cuda":
        torch.cuda.synchronize()


def works(device: str) -> bool:
    """Return False after an error that ends all work of this process on a GPU."""
    try:
        wait_for(device)
    except RuntimeError:
        return False
    return True


def operators(seed: int, part: str, dtype: str) -> list[Any]:
    """Return the operators that take a type, or a part such as 2/14, in an order by the seed."""
    chosen = [op for op in op_db if getattr(torch, dtype) in op.dtypes]
    random.Random(seed).shuffle(chosen)
    number, count = map(int, part.split("/"))
    return chosen[number - 1 :: count]


def sweep(options: argparse.Namespace) -> tuple[Counter[Outcome], Counter[str]]:
    """Judge operators until enough have counted or the time is over."""
    outcomes: Counter[Outcome] = Counter()
    ptx: Counter[str] = Counter()
    end = time.monotonic() + 60 * options.minutes
    chosen = operators(options.seed, options.part, options.dtype)
    for index, op in enumerate(chosen):
        if options.only and not {op.name, op.formatted_name} & set(options.only):
            continue
        counted = sum(outcomes[o] for o in (Outcome.RIGHT, Outcome.WRONG, Outcome.ERROR))
        if counted == options.ops or time.monotonic() > end:
            break
        limit_configs(options.configs)
        result = judge(op, options.way, options.device, options.dtype, options.ptx)
        outcomes[result.outcome] += 1
        ptx += result.ptx
        tell(op, result, options)
        if not works(options.device):
            left = ", ".join(op.formatted_name for op in chosen[index + 1 :])
            print(f"the GPU runs no more kernels of this process; not tried: {left}", flush=True)
            break
    return outcomes, ptx


def tell(op: Any, result: Result, options: argparse.Namespace) -> None:
    """Print an operator's outcome if it is not right, and write it."""
    uncounted = result.outcome in (Outcome.NO_KERNEL, Outcome.LEFT_OUT)
    if result.reason and not uncounted:
        print(f"{op.formatted_name}: {result.outcome.value}: {result.reason}", flush=True)
    elif options.verbose:
        print(f"{op.formatted_name}: {result.outcome.value} {result.reason}".rstrip(), flush=True)
    if options.outcomes is None or uncounted:
        return
    outcome = "passed" if result.outcome is Outcome.RIGHT else "failed"
    entry = {"id": op.formatted_name, "outcome": outcome, "reason": result.reason}
    with options.outcomes.open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")


def arguments() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("way", choices=sorted({way for way, device in WAYS}))
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="of the tensors")
    parser.add_argument("--dtype", choices=TOLERANCES, default="float32")
    parser.add_argument("--part", default="1/1", help="the operators of a process, such as 2/14")
    parser.add_argument("--configs", type=int, default=0, help="of each autotuner; 0 for all")
    parser.add_argument("--outcomes", type=Path, help="append a line of JSON for each operator")
    parser.add_argument("--ops", type=int, default=10_000, help="operators that start a kernel")
    parser.add_argument("--minutes", type=float, default=1000.0, help="no new operator after these")
    parser.add_argument("--seed", type=int, default=0, help="the order of the operators")
    parser.add_argument(
        "--ptx", action="store_true", help="compile and assemble each kernel for sm_90a too"
    )
    parser.add_argument("--only", nargs="*", default=(), help="names of operators")
    parser.add_argument("--verbose", action="store_true", help="name the others too")
    return parser.parse_args()


def main() -> int:
    """Run the program, and return its exit status."""
    options = arguments()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    start = time.monotonic()
    with torch.backends.cudnn.flags(allow_tf32=False):  # torch's own result is the reference
        outcomes, ptx = sweep(options)
    if ptx:
        print(f"{ptx['PTX']} kernels compiled to PTX for sm_90a, {ptx['cubin']} assembled by ptxas")
    bad = outcomes[Outcome.WRONG] + outcomes[Outcome.ERROR]
    print(f"{outcomes[Outcome.NO_KERNEL]} without a kernel, {outcomes[Outcome.LEFT_OUT]} left out")
    # The form of pytest's last line, which the steps of CI sum up.
    seconds = time.monotonic() - start
    print(f"{outcomes[Outcome.RIGHT]} passed, {bad} failed in {seconds:.2f}s")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
