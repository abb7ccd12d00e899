"""`tile link` joins files of IR text, or says at which line they do not fit together."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tile import backends
from tile.backends.base import Options, Target
from tile.errors import IRError, LinkError
from tile.ir.linker import link
from tile.ir.parser import parse_module
from tile.ir.printer import print_module
from tile.tools.cli import main

Write = Callable[[str, str], str]

KERNEL = """\
func @scale(%x: f32, %by: f32) -> (f32)

kernel @k(%p: ptr<f32>, %s: f32) {
  %x = load %p : f32
  %y = call %x, %s {callee = @scale} : f32
  store %p, %y
  return
}
"""
SCALE = """\
func @scale(%v: f32, %factor: f32) -> (f32) {
  %r = mul %v, %factor : f32
  return %r
}
"""
DEFINITION = KERNEL.partition("\n\n")[2]


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Return a function that writes a file into the current folder and returns its name."""
    monkeypatch.chdir(tmp_path)

    def write(name: str, text: str) -> str:
        Path(name).write_text(text, encoding="utf-8")
        return name

    return write


def refused(capsys: pytest.CaptureFixture[str], *files: str) -> list[str]:
    """Link to a file, which must fail without writing; return the lines of the message."""
    assert main(["link", *files, "-o", "out.tile"]) == 1
    assert not Path("out.tile").exists()
    printed = capsys.readouterr()
    assert printed.out == ""
    return printed.err.splitlines()


def test_the_linked_module_has_all_definitions(write: Write, capsys) -> None:
    files = write("a.tile", KERNEL), write("b.tile", SCALE)
    assert main(["link", *files]) == 0
    assert capsys.readouterr().out == f"{DEFINITION}\n{SCALE}"
    assert main(["link", *reversed(files), "-o", "out.tile"]) == 0
    assert capsys.readouterr().out == ""
    assert Path("out.tile").read_text() == f"{SCALE}\n{DEFINITION}"
    assert main(["opt", "out.tile"]) == 0
    assert capsys.readouterr().out == f"{SCALE}\n{DEFINITION}"


def test_linking_leaves_its_inputs_unchanged() -> None:
    modules = parse_module(KERNEL), parse_module(SCALE)
    linked = link(modules)
    assert not linked.declarations and list(linked.functions) == ["k", "scale"]
    linked.functions["scale"].body.drop()
    assert modules[1].functions["scale"].body.first is not None
    assert list(modules[0].declarations) == ["scale"]


def test_a_clone_has_copies_of_the_declarations() -> None:
    module = parse_module(KERNEL)
    clone = module.clone()
    assert print_module(clone) == KERNEL
    assert clone.declarations["scale"] is not module.declarations["scale"]


def test_several_files_may_declare_and_call_one_function(write: Write, capsys) -> None:
    other = KERNEL.replace("@k", "@other")
    assert main(["link", *map(write, "abc", (KERNEL, other, SCALE))]) == 0
    printed = capsys.readouterr().out
    assert printed.count("{callee = @scale}") == 2
    assert printed.count("func @scale") == 1


def test_a_declaration_that_is_not_called_needs_no_definition(write: Write, capsys) -> None:
    assert main(["link", write("a.tile", f"func @unused(%x: f32)\n{SCALE}")]) == 0
    assert capsys.readouterr().out == SCALE


def test_two_definitions(write: Write, capsys) -> None:
    files = write("a.tile", KERNEL), write("b.tile", SCALE), write("c.tile", f"\n{SCALE}")
    assert refused(capsys, *files) == [
        "error: @scale is defined twice; a function has one definition",
        "  at c.tile:2:1",
        "    2 | func @scale(%v: f32, %factor: f32) -> (f32) {",
        "      | ^^^^",
        "  note: first defined at b.tile:1:1",
    ]


def test_no_definition(write: Write, capsys) -> None:
    files = write("a.tile", KERNEL), write("b.tile", KERNEL.replace("@k", "@other"))
    assert refused(capsys, *files) == [
        "error: @scale is declared, but no module defines it",
        "  at a.tile:1:1",
        "    1 | func @scale(%x: f32, %by: f32) -> (f32)",
        "      | ^^^^",
        "  note: called at a.tile:5:8, in @k",
        "  note: called at b.tile:5:8, in @other",
        "  note: link a module that defines it: tile link a.tile b.tile -o c.tile",
    ]


@pytest.mark.parametrize(
    ("old", "new", "signature"),
    [
        ("%factor: f32", "%factor: f64", "(f32, f64) -> (f32)"),
        (", %factor: f32", "", "(f32) -> (f32)"),
        ("-> (f32)", "-> (f32, f32)", "(f32, f32) -> (f32, f32)"),
        ("-> (f32)", "", "(f32, f32)"),
        ("%factor: f32", "%factor: f32 {divisible = 16}", "(f32, f32 {divisible = 16}) -> (f32)"),
    ],
)
def test_signatures_that_disagree(old: str, new: str, signature: str, write: Write, capsys) -> None:
    head = SCALE.splitlines()[0].replace(old, new)
    values = signature.partition("->")[2].count("f32")
    body = f"  return{' ' * bool(values)}{', '.join(['%v'] * values)}\n}}\n"
    files = write("a.tile", KERNEL), write("b.tile", f"{head}\n{body}")
    assert refused(capsys, *files) == [
        f"error: @scale is declared as (f32, f32) -> (f32), but defined as {signature}",
        "  at a.tile:1:1",
        "    1 | func @scale(%x: f32, %by: f32) -> (f32)",
        "      | ^^^^",
        "  note: defined at b.tile:1:1",
    ]


def test_a_kernel_is_no_definition_of_a_function(write: Write, capsys) -> None:
    text = "func @k(%p: ptr<f32>, %s: f32)\nfunc @f() {\n  return\n}\n"
    lines = refused(capsys, write("a.tile", text), write("b.tile", f"{DEFINITION}\n{SCALE}"))
    assert lines[0].startswith("error: @k is declared as a function, but defined as a kernel")
    assert lines[1] == "  at a.tile:1:1"


def test_all_errors_are_printed(write: Write, capsys) -> None:
    twice = "func @twice() {\n  return\n}\n"
    files = [write("a.tile", f"{KERNEL}{twice}"), write("b.tile", twice)]
    errors = [line for line in refused(capsys, *files) if line.startswith("error: ")]
    assert [line.split()[1] for line in errors] == ["@twice", "@scale"]


def test_recursion_across_files(write: Write, capsys) -> None:
    f = "func @g()\nfunc @f() {\n  call {callee = @g}\n  return\n}\n"
    g = f.replace("@g", "@x").replace("@f", "@g").replace("@x", "@f")
    lines = refused(capsys, write("f.tile", f), write("g.tile", g))
    assert lines[0].startswith("error: recursion: @f calls @g calls @f")
    assert lines[1] == "  at g.tile:3:3"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("func @f(%x: f33)\n", "error: unknown type `f33`"),
        (
            "func @f() {\n  call {callee = @g}\n  return\n}\n",
            "error: the module has no function @g",
        ),
    ],
)
def test_a_wrong_file_is_named(text: str, message: str, write: Write, capsys) -> None:
    lines = refused(capsys, write("a.tile", KERNEL), write("wrong.tile", text))
    assert lines[0].startswith(message)
    assert lines[1].startswith("  at wrong.tile:")


def test_values_are_for_triton_c(write: Write, capsys) -> None:
    lines = refused(capsys, write("a.tile", SCALE), "-D", "N=3")
    assert lines == ["error: --define is for Triton-C files, and there is none"]


def test_kernels_of_triton_c_are_linked_without_their_functions(write: Write, capsys) -> None:
    pytest.importorskip("lark")
    text = """
    int twice(int x) { return 2 * x; }
    kernel void f(int* x) { *x = twice(*x) + N; }
    kernel void g(int* x) { *x = twice(*x); }
    """
    files = write("both.tc", text), write("scale.tile", SCALE)
    assert main(["link", *files, "-D", "N=3"]) == 0
    printed = capsys.readouterr().out
    assert [line.split()[:2] for line in printed.splitlines() if "@" in line] == [
        ["kernel", "@f(%x:"],
        ["kernel", "@g(%x:"],
        ["func", "@scale(%v:"],
    ]


@pytest.mark.parametrize("target", ["interp", "interp:steps", "interp:wgmma"])
def test_no_target_compiles_a_module_with_unresolved_calls(target: str) -> None:
    backend = backends.get("interp")
    with pytest.raises(LinkError, match="@scale is declared, but no module defines it"):
        backend.compile(parse_module(KERNEL), Target.parse(target), Options())


@pytest.mark.parametrize(
    ("text", "names", "line"),
    [(SCALE, "none", None), (DEFINITION + DEFINITION.replace("@k", "@other"), "@k, @other", 7)],
)
def test_one_kernel_is_compiled(text: str, names: str, line: int | None) -> None:
    backend = backends.get("interp")
    module = parse_module(text.replace("call %x, %s {callee = @scale}", "mul %x, %s"))
    with pytest.raises(IRError, match=f"has one kernel, and this one has {names}(\n|$)") as refusal:
        backend.compile(module, Target.parse("interp"), Options())
    assert (refusal.value.loc and refusal.value.loc.line) == line


@pytest.mark.parametrize("passes", ["THREADS", "assign-layouts{target=generic,num_warps=1}"])
def test_no_pass_lowers_unresolved_calls(passes: str, write: Write, capsys) -> None:
    assert main(["opt", write("a.tile", KERNEL), "-p", passes]) == 1
    assert capsys.readouterr().err.startswith("error: @scale is declared, but no module defines it")


def test_unresolved_calls_with_descriptors_are_not_expanded(write: Write, capsys) -> None:
    text = """
func @f(%d: desc<8xf32>)
func @g(%d: desc<8xf32>) {
  call %d {callee = @f}
  return
}
"""
    assert main(["opt", write("a.tile", text), "-p", "descriptors-to-pointers"]) == 1
    assert capsys.readouterr().err.startswith("error: @f is declared, but no module defines it")


def test_help_teaches_by_example(capsys) -> None:
    with pytest.raises(SystemExit):
        main(["link", "--help"])
    assert "tile link kernels.tile library.tile -o program.tile" in capsys.readouterr().out
