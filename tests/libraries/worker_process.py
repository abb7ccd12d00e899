"""A process that answers requests over a pipe, and may crash or hang."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


class Ended(Exception):
    """A process that ended, or was ended after its time."""


class Crashed(Ended):
    """A process that ended by itself."""


@dataclass
class WorkerProcess:
    """A process that is started when it is needed and again after it has ended.

    command: a program that answers on the file descriptor after its argument `--worker`.
    log: the file of its output.
    keep_log: whether a process that is started again writes behind the output of the one before.
    """

    command: Sequence[str]
    environment: Mapping[str, str]
    log: Path
    keep_log: bool = False
    process: subprocess.Popen[bytes] | None = None
    connection: Connection | None = None

    def start(self) -> None:
        """Start the process."""
        ours, theirs = Pipe()
        with self.log.open("ab" if self.keep_log else "wb") as log:
            self.process = subprocess.Popen(
                [*self.command, "--worker", str(theirs.fileno())],
                env={**os.environ, **self.environment},
                cwd=ROOT,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        theirs.close()
        self.connection = ours

    def send(self, request: Any) -> None:
        """Send a request to the process that runs."""
        assert self.connection is not None
        with suppress(BrokenPipeError, ConnectionResetError):  # `receive` reports it
            self.connection.send(request)

    def receive(self, limit: float) -> Any:
        """Return what the process sends; raises `Ended` if that is nothing in `limit` seconds."""
        assert self.connection is not None and self.process is not None
        try:
            if self.connection.poll(limit):
                return self.connection.recv()
        except (EOFError, ConnectionResetError):
            status = self.process.wait()
            self.stop()
            raise Crashed(f"the process ended with status {status}") from None
        self.stop()
        raise Ended(f"took longer than {limit:.0f} s")

    def stop(self) -> None:
        """End the process."""
        if self.connection is not None:
            self.connection.close()
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        self.process = self.connection = None
