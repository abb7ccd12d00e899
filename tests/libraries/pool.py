"""Operators of libraries against torch, by processes that a time limit may end; a program.

    python -m tests.libraries.pool fla --device cuda --processes 15 --configs 2 --outcomes fla.jsonl
    python -m tests.libraries.pool flag_gems --processes 2 --only argmax topk

Each process runs one operator at a time. One that takes longer than `--limit` seconds, ends its
process, or leaves a GPU that runs no more kernels, costs no other operator: a new process goes on.
Each outcome is written when it is there. Operators that are not right run again with Triton itself
if it is installed (on a GPU): what fails there too is not due to tile. No operator begins after
`--seconds`. The program fails if any operator is not right, or did not run.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import sys
import tempfile
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Protocol

from tests.libraries.worker_process import ROOT, Crashed, Ended, WorkerProcess

# The version of Triton that a library is told; flag_gems calls compiled kernels without their
# constants from 3.7 on, where Triton takes all.
VERSIONS: Mapping[str, str] = {"fla": "3.8.0", "flag_gems": "3.6.0"}
ENVIRONMENT: Mapping[str, Mapping[str, str]] = {
    # As in the library's own tests: their tolerances are not those of tf32.
    "fla": {"TRITON_F32_DEFAULT": "ieee", "FLA_DISABLE_BACKEND_DISPATCH": "1"},
    "flag_gems": {"GEMS_VENDOR": "nvidia"},
}
UNCOUNTED = ("without a kernel", "left out")
NOT_RUN = "not run"
START_SECONDS = 120.0  # in which a process says its operators


@dataclass(frozen=True)
class Answer:
    """The outcome of an operator; after a fatal one its process runs no more kernels."""

    outcome: str
    reason: str = ""
    fatal: bool = False


class Suite(Protocol):
    """The operators of a library, in a process that has `triton`."""

    def names(self) -> list[str]:
        """Return the names of the operators."""

    def judge(self, name: str) -> Answer:
        """Run an operator and its reference."""


class FlashLinearAttention:
    """Operators of flash-linear-attention, forward and backward, against recurrences."""

    def __init__(self, options: argparse.Namespace) -> None:
        import torch

        from tests.libraries import fla_naive, fla_ops

        if options.device != "cpu":
            torch.set_default_device(options.device)
        self.tests = {
            name: module.test_forward_and_backward
            for module in (fla_naive, fla_ops)
            for name in module.CASES
        }

    def names(self) -> list[str]:
        """Return the names of the operators."""
        return list(self.tests)

    def judge(self, name: str) -> Answer:
        """Run an operator and its reference."""
        try:
            self.tests[name](name)
        except AssertionError as error:
            return Answer("wrong", first_line(error))
        return Answer("right")


class FlagGems:
    """PyTorch's operators on the first sample of `op_db`, replaced by those of FlagGems."""

    def __init__(self, options: argparse.Namespace) -> None:
        import torch

        from tests.libraries import flag_gems_on_cpu, op_db

        self.module, self.device, self.dtype = op_db, options.device, options.dtype
        if options.device == "cpu":
            flag_gems_on_cpu.library()
        else:
            import flag_gems  # noqa: F401 - its autotuners, which are limited next
        # torch's own result is the reference.
        self.exact = partial(torch.backends.cudnn.flags, allow_tf32=False)
        self.ops = {op.formatted_name: op for op in op_db.operators(0, "1/1", self.dtype)}

    def names(self) -> list[str]:
        """Return the names of the operators."""
        return list(self.ops)

    def judge(self, name: str) -> Answer:
        """Run an operator and its reference."""
        op = self.ops[name]
        with self.exact():
            result = self.module.judge(op, "flag_gems", self.device, self.dtype, False)
        return Answer(result.outcome.value, result.reason)


SUITES: Mapping[str, Callable[[argparse.Namespace], Suite]] = {
    "fla": FlashLinearAttention,
    "flag_gems": FlagGems,
}


def serve(connection: Connection, options: argparse.Namespace) -> None:
    """Say the names of the operators, and answer each request for one."""
    from tests.libraries.autotuners import limit_configs
    from tests.libraries.op_db import works

    suite = SUITES[options.library](options)
    connection.send(suite.names())
    while True:
        try:
            name = connection.recv()
        except EOFError:
            return
        limit_configs(options.configs)
        try:
            answer = suite.judge(name)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is told
            answer = Answer("errors", first_line(error))
        connection.send(Answer(answer.outcome, answer.reason, not works(options.device)))


def first_line(error: BaseException) -> str:
    """Return an exception's type and the first line of its text."""
    lines = [line for line in str(error).splitlines() if line.strip()] or [""]
    return f"{type(error).__name__}: {lines[0]}"[:300]


class Worker(WorkerProcess):
    """A process that runs operators."""

    def names(self) -> list[str]:
        """Return the operators' names, from a process that is started if there is none."""
        self.start()
        names: list[str] = self.answer(START_SECONDS)
        return names

    def ask(self, name: str, limit: float) -> Answer:
        """Return the outcome of an operator; raises `Ended` if there is none."""
        if self.connection is None:
            self.names()
        self.send(name)
        answer: Answer = self.answer(limit)
        if answer.fatal:
            self.stop()
        return answer

    def answer(self, limit: float) -> Any:
        """Return what the process sends; raises `Ended`, with its last words, if it crashed."""
        try:
            return self.receive(limit)
        except Crashed as error:
            raise Ended(f"{error}: {self.last_words()}") from None

    def last_words(self) -> str:
        """Return the last line of the process's output, or where it crashed."""
        lines = self.log.read_text("utf-8", "replace").splitlines()
        found = [line.strip() for line in lines if line.strip()] or ["no output"]
        crash = next((i for i, line in enumerate(found) if line.startswith("Fatal Python")), -1)
        return " ".join(found[crash:][:3])[:300]


@dataclass
class Outcomes:
    """The outcomes by operator, written to a file as they come."""

    file: Path | None
    begin: float = field(default_factory=time.monotonic)
    answers: dict[str, Answer] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, compiler: str, name: str, answer: Answer, seconds: float) -> None:
        """Note an operator's outcome."""
        with self.lock:
            self.answers[name] = answer
            now = time.monotonic() - self.begin
            entry = {"compiler": compiler, "id": name, **asdict(answer)}
            entry |= {"seconds": round(seconds, 1), "at": round(now)}
            if answer.outcome != "right" and answer.outcome not in UNCOUNTED:
                print(f"{now:4.0f} s {compiler} {name}: {answer.outcome}: {answer.reason}"[:400])
                sys.stdout.flush()
            if self.file is not None:
                with self.file.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(entry) + "\n")


@dataclass(frozen=True)
class Pool:
    """Runs a library's operators with one compiler, on several processes."""

    options: argparse.Namespace
    compiler: str
    folder: Path

    def worker(self, index: int) -> Worker:
        """Return a worker, not started."""
        options = self.options
        python = [sys.executable]
        if self.compiler == "tile":
            python += ["-m", "tile", "triton", "--version", VERSIONS[options.library]]
        arguments = ["--device", options.device, "--dtype", options.dtype]
        arguments += ["--configs", str(options.configs)]
        where = self.folder / self.compiler
        where.mkdir(exist_ok=True)
        path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
        environment = {
            **ENVIRONMENT[options.library],
            "PYTHONPATH": path,
            "OMP_NUM_THREADS": "1",
            "PYTHONFAULTHANDLER": "1",
            "TILE_CACHE_DIR": f"{where}/tile",
            "TRITON_CACHE_DIR": f"{where}/triton",
            "FLAGGEMS_CACHE_DIR": f"{where}/flag_gems{index}",
        }
        command = [*python, "-m", "tests.libraries.pool", options.library, *arguments]
        return Worker(command, environment, where / f"{index}.log")

    def run(self, chosen: Sequence[str] | None, outcomes: Outcomes, end: float) -> list[str]:
        """Run operators, all of them for None, and return the names of those that did not run."""
        workers = [self.worker(index) for index in range(self.options.processes)]
        try:
            everything = workers[0].names()
            only = self.options.only if chosen is None else chosen
            names = [name for name in everything if not only or name in only]
            waiting = deque(names)
            threads = [
                threading.Thread(target=self.work, args=(worker, waiting, outcomes, end))
                for worker in workers
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            for worker in workers:
                worker.stop()
        return list(waiting)

    def work(self, worker: Worker, waiting: deque[str], outcomes: Outcomes, end: float) -> None:
        """Run operators one by one, until there are no more or the time is over."""
        for name in taken(waiting, end):
            start = time.monotonic()
            limit = min(self.options.limit, max(1.0, end - start))
            try:
                answer = worker.ask(name, limit)
            except Ended as error:
                answer = Answer("ended", str(error))
            outcomes.note(self.compiler, name, answer, time.monotonic() - start)


def taken(waiting: deque[str], end: float) -> Iterator[str]:
    """Take names until there are no more or the time is over."""
    while time.monotonic() < end:
        try:
            yield waiting.popleft()
        except IndexError:
            return


def parse() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add = parser.add_argument
    add("library", choices=SUITES)
    add("--device", choices=("cpu", "cuda"), default="cpu", help="of the tensors")
    add("--dtype", choices=("float32", "bfloat16"), default="float32", help="of flag_gems' samples")
    add("--processes", type=int, default=1, help="that run operators at the same time")
    add("--limit", type=float, default=120.0, help="seconds of an operator")
    add("--seconds", type=float, default=1e6, help="no operator begins after these")
    add("--configs", type=int, default=0, help="that each autotuner tries; 0 for all")
    add("--only", nargs="*", default=(), help="names of operators")
    add("--outcomes", type=Path, help="append a line of JSON for each operator")
    add("--worker", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    """Run the program, and return its exit status."""
    options = parse()
    if options.worker is not None:
        serve(Connection(options.worker), options)
        return 0
    outcomes = Outcomes(options.outcomes)
    end = outcomes.begin + options.seconds
    with tempfile.TemporaryDirectory() as folder:
        left = Pool(options, "tile", Path(folder)).run(None, outcomes, end)
        answers = dict(outcomes.answers)
        counts = Counter(answer.outcome for answer in answers.values())
        counts[NOT_RUN] += len(left)
        report(f"{options.library} with tile", counts)
        bad = [name for name, a in answers.items() if a.outcome not in ("right", *UNCOUNTED)]
        if bad and options.device == "cuda" and importlib.util.find_spec("triton") is not None:
            left = Pool(options, "triton", Path(folder)).run(bad, outcomes, end)
            again = Counter(outcomes.answers[name].outcome for name in bad if name not in left)
            report(f"{options.library}: those that are not right, with Triton", again)
    return int(bool(bad) or counts[NOT_RUN] > 0)


def report(title: str, counts: Mapping[str, int]) -> None:
    """Print how many operators have each outcome."""
    print(
        f"{title}:", ", ".join(f"{count} {outcome}" for outcome, count in counts.items() if count)
    )
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
