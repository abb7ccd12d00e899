"""Tuning results on disk: what is kept, shared, exchanged, damaged."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import tile
import tile.language as tl
from tests.runtime.kernels import add
from tile.runtime.autotuning import tuning_store
from tile.runtime.autotuning.tuning_store import (
    FORMAT,
    StoredResult,
    TuningStore,
    export_results,
    import_results,
)
from tile.tools.cli import main
from tile.version import VERSION

KEY, MACHINE = (100, "float32"), "interp, x86"
CONFIGS = [tile.Config({"BLOCK": block}) for block in (16, 32)]
TEXTS = [str(config) for config in CONFIGS]


def store_in(folder: Path, kernel: object = add) -> TuningStore:
    return TuningStore(folder, kernel, add.fn)


def test_results_are_by_configuration_key_and_machine(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    assert store.load(KEY, MACHINE) == {}
    store.save(KEY, MACHINE, CONFIGS[0], [1.5, 1.25, 2.0])
    store.save(KEY, MACHINE, CONFIGS[1], [float("inf")] * 3, "too small")
    results = store_in(tmp_path).load(KEY, MACHINE)
    assert results == {
        TEXTS[0]: StoredResult((1.5, 1.25, 2.0)),
        TEXTS[1]: StoredResult((), "too small"),
    }
    assert store.load((101, "float32"), MACHINE) == store.load(KEY, "another") == {}
    assert len(list(tmp_path.rglob("*.json"))) == 2


def test_another_code_or_version_has_results_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_in(tmp_path).save(KEY, MACHINE, CONFIGS[0], [1.0])

    @tile.jit
    def other(x, BLOCK: tl.constexpr):
        tl.store(x + tl.arange(0, BLOCK), 1.0)

    assert store_in(tmp_path, other).load(KEY, MACHINE) == {}
    monkeypatch.setattr(tuning_store, "VERSION", "9.9")
    newer = store_in(tmp_path)
    message = rf"results of add from version {VERSION} of tile, which stay there; version 9.9"
    with pytest.warns(RuntimeWarning, match=message):
        assert newer.load(KEY, MACHINE) == {}
    newer.save(KEY, MACHINE, CONFIGS[0], [2.0])
    assert store_in(tmp_path).load((1,), MACHINE) == {}  # without a warning
    monkeypatch.undo()
    assert store_in(tmp_path).load(KEY, MACHINE)[TEXTS[0]].times == (1.0,)


def test_the_best_of_other_keys(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    for key, times in (((1,), (2.0, 1.0)), ((2,), (1.0, 2.0)), ((3,), (3.0, 1.0))):
        for config, time in zip(CONFIGS, times, strict=True):
            store.save(key, MACHINE, config, [time])
    store.save((4,), MACHINE, CONFIGS[0], [], "fails")
    assert set(store.fastest((9,), MACHINE)) == set(TEXTS)
    assert set(store.fastest((2,), MACHINE)) == {TEXTS[1]}
    assert store.fastest((1,), "another") == []


def test_foreign_files_are_left_alone(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    store.save(KEY, MACHINE, CONFIGS[0], [1.0])
    folder = store.folder(KEY, MACHINE)
    (folder / "notes.txt").write_text("mine")
    (folder / "other.json").write_text('{"name": "another program"}')
    with pytest.warns(RuntimeWarning, match=r"other\.json is ignored: it is not of the format"):
        assert list(store.load(KEY, MACHINE)) == [TEXTS[0]]
    assert list(store.load(KEY, MACHINE)) == [TEXTS[0]]  # it warns once
    assert (folder / "other.json").exists() and (folder / "notes.txt").exists()


def test_a_folder_that_every_user_can_write(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    store.save(KEY, MACHINE, CONFIGS[0], [1.0])
    tmp_path.chmod(0o777)
    with pytest.warns(RuntimeWarning, match=r"every user can write to .* \(mode 0777\).*chmod o-w"):
        assert list(store.load(KEY, MACHINE)) == [TEXTS[0]]


WRITER = """
import sys
from pathlib import Path
import tile
from tests.runtime.kernels import add
from tile.runtime.autotuning.tuning_store import TuningStore
store = TuningStore(Path(sys.argv[1]), add, add.fn)
for number in range(60):
    config = tile.Config({"BLOCK": 1 << number % 10})
    store.save((number % 3,), "m", config, [1.0 + number % 10] * 40)
    assert all(r.times[0] >= 1.0 for r in store.load((number % 3,), "m").values())
"""


def test_eight_processes_share_a_folder(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", "-c", WRITER, str(tmp_path)]
    root = Path(__file__).parents[3]
    writers = [subprocess.Popen(command, cwd=root) for _ in range(8)]
    assert [writer.wait(120) for writer in writers] == [0] * 8
    store = store_in(tmp_path)
    results = [store.load((key,), "m") for key in range(3)]
    assert [len(one) for one in results] == [10, 10, 10]
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".json"]


# -- exchanging results


def test_results_are_exported_and_imported(tmp_path: Path, capsys) -> None:
    one, other, file = tmp_path / "one", tmp_path / "other", tmp_path / "results.json"
    for config, time in zip(CONFIGS, (1.0, 2.0), strict=True):
        store_in(one).save(KEY, MACHINE, config, [time])
    store_in(other).save(KEY, MACHINE, CONFIGS[0], [9.0])
    assert main(["tune", "export", str(file), "--folder", str(one)]) == 0
    assert main(["tune", "import", str(file), "--folder", str(other)]) == 0
    out = capsys.readouterr().out.splitlines()
    assert out == [f"{file}: 2 results", f"{other}: 1 new results, 1 were there"]
    results = store_in(other).load(KEY, MACHINE)
    assert [results[text].times for text in TEXTS] == [(9.0,), (2.0,)]
    assert main(["tune", "list", "--folder", str(other)]) == 0
    listed = capsys.readouterr().out.splitlines()
    assert listed[0].split() == ["kernel", "machine", "key", "results", "ms", "fastest"]
    assert "BLOCK: 32" in listed[-1] and MACHINE in listed[-1]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "Expecting value"),
        ("[]", "it is a JSON list, not an object"),
        ("{}", 'it names no format; an export begins with {"format": "tile tuning result 1"'),
        ('{"results": {}}', "it names no format"),
        ('{"format": "x"}', "its format is 'x', and this version of tile reads"),
        (json.dumps({"format": FORMAT}), "it has no object of results"),
        (json.dumps({"format": FORMAT, "results": [1]}), "it has no object of results"),
        (
            json.dumps({"format": FORMAT, "results": {"a/b/c": {}}}),
            "of its result a/b/c, it is not of the format",
        ),
        (
            json.dumps(
                {
                    "format": FORMAT,
                    "results": {"a/b/c": {"format": FORMAT, "times": ["x"], "reason": ""}},
                }
            ),
            "of its result a/b/c, its times are ['x']",
        ),
        (
            json.dumps(
                {
                    "format": FORMAT,
                    "results": {"../../x": {"format": FORMAT, "times": [1], "reason": ""}},
                }
            ),
            "it names the path '../../x'",
        ),
    ],
)
def test_files_that_are_no_export(tmp_path: Path, capsys, text: str, words: str) -> None:
    file = tmp_path / "results.json"
    file.write_text(text)
    with pytest.raises(ValueError, match="is no export of tuning results"):
        import_results(file, tmp_path / "folder")
    assert main(["tune", "import", str(file), "--folder", str(tmp_path / "folder")]) == 1
    assert words in capsys.readouterr().err
    assert not (tmp_path / "folder").exists()


def test_a_file_that_is_cut_off_or_binary(tmp_path: Path) -> None:
    file = tmp_path / "results.json"
    for data in (b'{"format": ', b"\x00\xff\x01", b""):
        file.write_bytes(data)
        with pytest.raises(ValueError, match="it is not JSON, or was cut off"):
            import_results(file, tmp_path / "folder")


def test_files_that_cannot_be_read_or_written(tmp_path: Path, capsys) -> None:
    assert main(["tune", "import", str(tmp_path / "none"), "--folder", str(tmp_path)]) == 1
    assert "No such file" in capsys.readouterr().err
    assert main(["tune", "export", "--folder", str(tmp_path)]) == 1
    assert "tile tune export takes a file" in capsys.readouterr().err
    assert export_results(tmp_path / "empty", tmp_path / "out.json") == 0
