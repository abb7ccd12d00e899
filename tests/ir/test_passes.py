"""Declaring, naming and running passes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tile.config import config
from tile.errors import PassError, TileError, TypeRuleError, VerificationError
from tile.ir.core import Module
from tile.ir.levels import Level
from tile.ir.ops import arith
from tile.ir.parser import parse_module
from tile.ir.passes import (
    PASSES,
    PassManager,
    module_pass,
    parse_pipeline,
    run_pipeline,
)
from tile.ir.printer import print_module
from tile.ir.rewriter import PatternSet, rewrite
from tile.tools.cli import main
from tile.transforms import pipeline

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
        """Leaves IR that does not verify."""
        first = module["f"].body.first
        assert first is not None
        first.attributes["odd"] = 1

    @module_pass("refuse")
    def refuse(module: Module) -> None:
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
    reproducer = tmp_path / "reproducer.tile"
    assert refused.value.notes[1] == f"to reproduce: tile opt {reproducer} -p 'refuse,dce'"
    assert print_module(parse_module(reproducer.read_text())) == TEXT
    assert main(["opt", str(reproducer), "-p", "refuse,dce"]) == 1


def test_without_a_folder_a_failure_says_how_to_get_one(module: Module) -> None:
    with pytest.raises(TileError) as refused:
        run_pipeline(module, "refuse")
    assert "set TILE_DUMP=folder for a file that reproduces this" in refused.value.notes
    assert refused.value.loc is not None


def test_a_dump_has_a_file_for_every_pass(module: Module, tmp_path: Path) -> None:
    with config.scope(dump=str(tmp_path / "new")):
        run_pipeline(module, "canonicalize,dce")
    names = sorted(path.name for path in (tmp_path / "new").iterdir())
    assert names == ["00-canonicalize.tile", "01-dce.tile"]
    assert 'loc("<tile>":2:7-10)' in (tmp_path / "new" / "01-dce.tile").read_text()


def test_printing_after_passes(module: Module, capsys: pytest.CaptureFixture[str]) -> None:
    with config.scope(print_after=("dce",)):
        run_pipeline(module, "note,dce")
    printed = capsys.readouterr().err
    assert printed.startswith("// after dce\nfunc @f(")
    assert "note" not in printed
    with config.scope(print_after=("all",)):
        run_pipeline(module, "note,dce")
    assert capsys.readouterr().err.count("// after") == 2


def test_timings_are_printed(module: Module, capsys: pytest.CaptureFixture[str]) -> None:
    with config.scope(timings=True):
        run_pipeline(module, "note,dce")
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[1:] for line in lines] == [["ms", "note"], ["ms", "dce"]]


def test_every_pass_has_a_file_of_its_name_and_shows_what_it_does() -> None:
    printing = "print_analysis"
    for defn in PASSES:
        home = defn.run.__module__
        if home.startswith("tile.transforms"):
            file = home.rpartition(".")[2]
            assert file in (defn.name.replace("-", "_"), printing)
            assert "  " in defn.doc, f"{defn.name} shows no IR before and after"


def test_the_pipeline_is_made_of_declared_passes() -> None:
    assert pipeline.TILE
    assert all(PASSES[item.defn.name] is item.defn for item in pipeline.TILE)


def test_patterns_that_undo_each_other_are_found(module: Module) -> None:
    patterns = PatternSet()

    @patterns.pattern(arith.add)
    def forth(op, rewriter):  # type: ignore[no-untyped-def]
        rewriter.replace(op, [rewriter.build(op, arith.sub, *op.inputs)])
        return True

    @patterns.pattern(arith.sub)
    def back(op, rewriter):  # type: ignore[no-untyped-def]
        rewriter.replace(op, [rewriter.build(op, arith.add, *op.inputs)])
        return True

    with pytest.raises(PassError, match="patterns do not come to an end in @f"):
        rewrite(module["f"], patterns)
