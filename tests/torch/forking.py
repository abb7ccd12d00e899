"""Programs in processes of their own, forked from one that has imported PyTorch, which takes seconds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

# Follows what the programs have in common. A program is a file, so that kernels have their source.
SERVER = """
import json, os, sys, threading, traceback
for thread in threading.enumerate():
    if thread.name == "tile-compiler":
        thread.join()
for line in sys.stdin:
    program, environment = json.loads(line)
    process = os.fork()
    if process == 0:
        os.environ.update(environment)
        for number in (1, 2):
            os.dup2(os.open(program + str(number), os.O_WRONLY | os.O_CREAT), number)
        status = 1
        try:
            with open(program) as file:
                exec(compile(file.read(), program, "exec"))
            status = 0
        except BaseException:
            traceback.print_exc()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    print(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
"""


class Server:
    """A process that forks one for each program."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(
        self, folder: Path, text: str, environment: Mapping[str, str]
    ) -> subprocess.CompletedProcess[str]:
        """Run a program after those lines that all have in common; `folder` is to hold it."""
        program = folder / "program.py"
        program.write_text(text)
        assert self._process.stdin is not None and self._process.stdout is not None
        print(json.dumps((str(program), dict(environment))), file=self._process.stdin, flush=True)
        status = self._process.stdout.readline()
        assert status, "the process that forks has ended"
        output, errors = (Path(f"{program}{number}").read_text() for number in (1, 2))
        return subprocess.CompletedProcess([str(program)], int(status), output, errors)


def start(
    folder: Path, text: str, command: Sequence[str] = (), **settings: str
) -> subprocess.Popen[str]:
    """Start a program, or `command` with it, such as `-m tile triton`, with these variables."""
    program = folder / "server.py"
    program.write_text(text)
    return subprocess.Popen(
        [sys.executable, *command, str(program)],
        cwd=Path(__file__).parents[2],
        env={**os.environ, **settings},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextmanager
def serving(
    folder: Path, head: str, command: Sequence[str] = (), **settings: str
) -> Iterator[Server]:
    """Run a server of programs that begin with `head` until the end of the block."""
    with start(folder, head + SERVER, command, **settings) as process:
        yield Server(process)
        assert process.stdin is not None
        process.stdin.close()
