"""Declaring, naming and running passes."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tile.config import config
from tile.errors import ArgumentValueError, PassError, TileError, TypeRuleError, VerificationError
from tile.ir.compilation_context import compilation
from tile.ir.module import Module
from tile.ir.op_definition import Level
from tile.ir.ops import arith
from tile.ir.parser import parse_module
from tile.ir.passes import (
    PASSES,
    PassManager,
    module_pass,
    parse_pipeline,
    refuse_unknown,
    run_pipeline,
)
from tile.ir.printer import print_module
from tile.ir.rewriter import PatternSet, rewrite
from tile.tools.cli import main
from tile.transforms import pass_pipeline

TEXT = "func @f(%x: i32) -> (i32) {\n  %y = add %x, %x : i32\n  return %y\n}\n"
RAN: list[tuple[str, object]] = []


@pytest.fixture(scope="module", autouse=True)
def declared() -> Iterator[None]:
    """Passes for these tests, gone afterwards."""
    before = dict(PASSES._defns)

    @module_pass("note")
    def note(
        module: Module, *, times: int = 1, loud: bool = False, factor: float = 0.5, tag: str = ""
    ) -> None:
        """Notes that it ran."""
        RAN.append(("note", (times, loud, factor, tag)))

    @module_pass("break-types")
    def break_types(module: Module) -> None:
        """Produces IR that does not verify."""
        first = module["f"].body.first
        assert first is not None
        first.attributes["odd"] = 1

    @module_pass("refuse", before=None)
    def refuse(module: Module, *, times: int = 1) -> None:
        """Raises."""
        raise TypeRuleError("it will not do", loc=module["f"].body.last.loc)  # type: ignore[union-attr]

    @module_pass("lay-out", after=Level.LAID_OUT)
    def lay_out(module: Module) -> None:
        """Claims to give tiles layouts."""

    yield
    PASSES._defns.clear()
    PASSES._defns.update(before)


@pytest.fixture
def module() -> Module:
    RAN.clear()
    return parse_module(TEXT)


def test_options_are_read_by_their_annotations(module: Module) -> None:
    run_pipeline(module, "note, note{times=3,loud=true}, note{factor=2, tag=x-y}")
    assert RAN == [
        ("note", (1, False, 0.5, "")),
        ("note", (3, True, 0.5, "")),
        ("note", (1, False, 2.0, "x-y")),
    ]


def test_a_pipeline_is_spelled_as_it_is_read() -> None:
    text = "note{times=3,loud=true},dce"
    assert ",".join(map(str, parse_pipeline(text))) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("nothing", "no pass is named `nothing`; there are "),
        ("note{size=1}", "pass `note` has no option `size`; it has times, loud, factor, tag"),
        ("dce{size=1}", "pass `dce` has no option `size`; it has none"),
        ("note{times=many}", "option `times` of pass `note` takes int, not `many`"),
        ("note{loud=1}", "option `loud` of pass `note` takes bool, not `1`"),
        ("note;note", "`note;note` is not of the form `pass,pass{option=value}`"),
        ("Note", "`Note` is not of the form"),
    ],
)
def test_pipelines_that_cannot_be_read(text: str, message: str) -> None:
    with pytest.raises(PassError) as refused:
        parse_pipeline(text)
    assert refused.value.message.startswith(message)


def test_an_empty_pipeline_does_nothing(module: Module) -> None:
    assert run_pipeline(module, "") is Level.TILE
    assert print_module(module) == TEXT


def test_a_pass_is_refused_at_another_level(module: Module) -> None:
    assert run_pipeline(module, "lay-out") is Level.LAID_OUT
    with pytest.raises(
        PassError, match="works on the tile level, and the module is at the laid-out"
    ):
        run_pipeline(module, "lay-out,inline")


def test_verification_names_the_pass_that_broke_the_ir(module: Module) -> None:
    manager = PassManager(parse_pipeline("note,break-types,note"), verify_each=True)
    with pytest.raises(VerificationError, match="add has no attribute `odd`") as refused:
        manager.run(module)
    assert "in pass `break-types`" in refused.value.notes
    assert len(RAN) == 1


def test_without_verification_a_pass_may_leave_anything(module: Module) -> None:
    PassManager(parse_pipeline("break-types,note"), verify_each=False).run(module)
    assert len(RAN) == 1


def test_a_failure_says_how_to_see_it_again(module: Module, tmp_path: Path) -> None:
    with config.scope(dump=str(tmp_path)), pytest.raises(TileError) as refused:
        run_pipeline(module, "note,refuse,dce")
    assert refused.value.notes[0] == "in pass `refuse`"
    (reproducer,) = tmp_path.glob("f-*/reproducer.tile")
    assert refused.value.notes[1] == f"to reproduce: tile opt {reproducer} -p refuse,dce"
    assert print_module(parse_module(reproducer.read_text())) == TEXT
    assert main(["opt", str(reproducer), "-p", "refuse,dce"]) == 1


def test_a_reproducer_names_its_level(module: Module, tmp_path: Path) -> None:
    with config.scope(dump=str(tmp_path / "a folder")), pytest.raises(TileError) as refused:
        run_pipeline(module, "lay-out,refuse{times=2}")
    command = shlex.split(refused.value.notes[1].removeprefix("to reproduce: tile "))
    assert command[2:] == ["--level", "laid-out", "-p", "refuse{times=2}"]
    assert main(command) == 1


def test_a_pass_that_breaks_the_ir_is_reproduced_too(module: Module, tmp_path: Path) -> None:
    manager = PassManager(parse_pipeline("note,break-types"), verify_each=True)
    with config.scope(dump=str(tmp_path)), pytest.raises(VerificationError) as refused:
        manager.run(module)
    assert refused.value.notes[-1].endswith("-p break-types")


def test_without_a_folder_a_failure_says_how_to_get_one(module: Module) -> None:
    with pytest.raises(TileError) as refused:
        run_pipeline(module, "refuse")
    assert "set TILE_DUMP=folder to write a reproducer" in refused.value.notes
    assert refused.value.loc is not None


def test_a_reproducer_is_the_file_that_is_named(module: Module, tmp_path: Path) -> None:
    file = tmp_path / "failed.tile"
    with config.scope(reproducer=str(file)), pytest.raises(TileError) as refused:
        run_pipeline(module, "note,refuse,dce")
    assert refused.value.notes[1] == f"to reproduce: tile opt {file} -p refuse,dce"
    assert print_module(parse_module(file.read_text())) == TEXT
    (tmp_path / "file").write_text("")
    with (
        config.scope(reproducer=str(tmp_path / "file" / "in_it")),
        pytest.raises(ArgumentValueError, match=r"TILE_REPRODUCER=.*: cannot write the IR of `f`"),
    ):
        run_pipeline(module, "refuse")


def test_ir_is_printed_of_one_kernel_and_to_a_file(
    module: Module, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with config.scope(print_after=("dce",), print_kernel="g"):
        run_pipeline(module, "dce")
    assert capsys.readouterr().err == ""
    with config.scope(print_after=("dce",), print_kernel="f"):
        run_pipeline(module, "dce")
        printed = capsys.readouterr().err
        assert printed.startswith("// after dce")
        with config.scope(print_file=str(tmp_path / "ir")):
            run_pipeline(module, "dce")
            run_pipeline(module, "dce")
    assert (tmp_path / "ir").read_text() == 2 * printed and capsys.readouterr().err == ""


def test_a_dump_has_a_file_for_every_pass(module: Module, tmp_path: Path) -> None:
    with config.scope(dump=str(tmp_path / "new")):
        run_pipeline(module, "canonicalize,dce")
    (folder,) = (tmp_path / "new").iterdir()
    assert re.fullmatch("f-[0-9a-f]{8}", folder.name)
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["00-input.tile", "01-canonicalize.tile", "02-dce.tile", "kernel.txt"]
    assert 'loc("<tile>":2:7-10)' in (folder / "02-dce.tile").read_text()


def test_a_dump_writes_over_nothing(tmp_path: Path) -> None:
    with config.scope(dump=str(tmp_path)):
        for text in (TEXT, TEXT, TEXT.replace("i32", "i64")):
            run_pipeline(parse_module(text), "dce")
    folders = sorted(path.name for path in tmp_path.iterdir())
    assert len(folders) == 3
    assert sorted(name.partition(".")[2] for name in folders) == ["", "", "2"]
    assert len({(tmp_path / name / "01-dce.tile").read_text() for name in folders}) == 2


def test_pipelines_of_one_compilation_share_a_folder(module: Module, tmp_path: Path) -> None:
    with config.scope(dump=str(tmp_path)), compilation("some.kernel", lambda: "of this kind"):
        run_pipeline(module, "note,dce")
        run_pipeline(module, "cse,dce")
    (folder,) = tmp_path.iterdir()
    assert folder.name.startswith("some.kernel-")
    assert sorted(path.stem for path in folder.glob("*.tile")) == [
        "00-input", "01-note", "02-dce", "03-cse", "04-dce"
    ]  # fmt: skip
    assert (folder / "kernel.txt").read_text() == "of this kind\n"


@pytest.mark.parametrize("inner", ["", "inner"])
def test_a_dump_that_cannot_be_written_is_named(module: Module, tmp_path: Path, inner: str) -> None:
    file = tmp_path / "file"
    file.write_text("")
    with (
        config.scope(dump=str(file / inner)),
        pytest.raises(ArgumentValueError, match=r"TILE_DUMP=.*: cannot write the IR of `f` there"),
    ):
        run_pipeline(module, "dce")


def test_printing_after_passes(module: Module, capsys: pytest.CaptureFixture[str]) -> None:
    with config.scope(print_after=("dce",)):
        run_pipeline(module, "note,dce")
    printed = capsys.readouterr().err
    assert printed.startswith("// after dce\nfunc @f(")
    assert "note" not in printed
    with config.scope(print_after=("all",)):
        run_pipeline(module, "note,dce")
    assert capsys.readouterr().err.count("// after") == 2


def test_unknown_passes_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    refuse_unknown(("all", "dce", "note"))
    with pytest.raises(ArgumentValueError, match=r"no pass is named `dse`; there are all, .*dce"):
        refuse_unknown(("dce", "dse"))
    with config.scope(print_after=("dse",)):
        assert main(["opt", "-p", "dce"]) == 1
    assert "no pass is named `dse`" in capsys.readouterr().err


def test_a_pass_that_does_not_run_is_reported(
    module: Module, capsys: pytest.CaptureFixture[str]
) -> None:
    with config.scope(print_after=("cse", "dce")):
        run_pipeline(module, "note,dce")
    assert capsys.readouterr().err.endswith("// `f` was compiled without cse; passes: note, dce\n")


def test_timings_are_printed(module: Module, capsys: pytest.CaptureFixture[str]) -> None:
    with config.scope(timings=True):
        run_pipeline(module, "note,dce")
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[1:] for line in lines] == [["ms", "note"], ["ms", "dce"]]


def test_every_pass_has_a_file_of_its_name_and_shows_what_it_does() -> None:
    printing = "print_analysis"
    for defn in PASSES:
        directory = defn.run.__module__
        if directory.startswith("tile.transforms"):
            file = directory.rpartition(".")[2]
            assert file in (defn.name.replace("-", "_"), printing)
            assert "  " in defn.doc, f"{defn.name} shows no IR before and after"


def test_the_pipeline_is_made_of_declared_passes() -> None:
    assert pass_pipeline.TILE
    assert all(PASSES[item.defn.name] is item.defn for item in pass_pipeline.TILE)


def test_patterns_that_undo_each_other_are_detected(module: Module) -> None:
    patterns = PatternSet()

    @patterns.pattern(arith.add)
    def forth(op, rewriter):  # type: ignore[no-untyped-def]
        rewriter.replace(op, [rewriter.build(op, arith.sub, *op.inputs)])
        return True

    @patterns.pattern(arith.sub)
    def back(op, rewriter):  # type: ignore[no-untyped-def]
        rewriter.replace(op, [rewriter.build(op, arith.add, *op.inputs)])
        return True

    with pytest.raises(PassError, match="patterns do not converge in @f"):
        rewrite(module["f"], patterns)
