"""The programs and commands of `docs/torch.md` run."""

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "torch.md").read_text("utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
FILE = re.compile(r"# (\w+\.py)\n")  # the first line of a program that a command runs
INSTALLATION = re.compile(r"^pip install .*\n", re.MULTILINE)


def run(folder: Path, *command: str) -> str:
    own = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    environment = {**os.environ, "PATH": own}
    environment["TORCHINDUCTOR_COMPILE_THREADS"] = "1"  # a pool would take longer to start
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_programs(tmp_path) -> None:
    texts = [text for kind, text in BLOCKS if kind == "python" and not FILE.match(text)]
    (tmp_path / "page.py").write_text("\n".join(texts))
    run(tmp_path, sys.executable, "page.py")


def test_commands(tmp_path) -> None:
    for kind, text in BLOCKS:
        if kind == "python" and (name := FILE.match(text)):
            (tmp_path / name[1]).write_text(text)
        elif kind == "sh" and (commands := INSTALLATION.sub("", text)):
            assert run(tmp_path, "bash", "-euc", commands) == "trained\ntrained\n"
