"""Names in `tile/` are the field's words; docstrings begin with a verb or a noun phrase."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "tile"
# Words that stood for a term of the PTX ISA, MLIR, LLVM or Triton in earlier versions. Names that
# need one in another sense are allowed below.
PRIVATE = frozenset(
    """
    abreast accounts arrival arrivals beside box boxed boxes brought bulk company doubled factor factors
    found fresh given halves hits home homes kept known landings late looking mark marked meaning moving
    neighbour neighbours piece pieces places placing product products ring rings room round rounds served
    slot slots talk tied told turn turned turns wave waves wish wishes
    """.split()
)
ALLOWED = {
    "__slots__": "Python's name",
    "ArrivalError": "the old name of an error, for users' code",
    "MAX_FACTOR": "a factor of a product of numbers",
    "ProductInFlightError": "the old name of an error, for users' code",
    "ROUNDS": "rounds of the Philox cipher",
    "cuda_home": "CUDA_HOME, NVIDIA's environment variable",
    "hits": "pdb counts the hits of a breakpoint",
    "_product": "a product of numbers",
    "_product_bound": "a product of numbers",
    "_product_error": "the rounding error of a product of numbers",
    "product": "a product of numbers, or the product of two layouts",
    "_round_to_bf16": "a float is rounded",
    "_round_to_odd": "a float is rounded",
    "round_": "a float is rounded",
    "round_to_odd_f32": "a float is rounded",
    "round_to_tf32": "a float is rounded",
    "_round": "a round of the Philox cipher",
    "n_rounds": "rounds of the Philox cipher, as in Triton",
    "_boxes": "boxDim of TMA",
    "box_dim": "boxDim of TMA",
    "KnownBits": "LLVM's term",
    "factor": "the factor by which a loop is unrolled",
    "loop_unroll_factor": "Triton's name",
    "Mark": "triton.testing.Mark",
    "mark": "mark and sweep",
    "mark_written": "the verb; a public method of empty arrays",
}
OPENERS = re.compile(r"(What|Whether|How|Of|Where)\b")


def names(path: Path) -> Iterator[str]:
    """Yield the names of a file, its functions, classes, parameters, attributes and variables."""
    yield path.stem
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


def private_words(name: str) -> set[str]:
    """Return the private words among those of a name, which underscores and capitals divide."""
    return PRIVATE & {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def test_names_are_the_fields() -> None:
    used = {
        (str(path.relative_to(PACKAGE)), name)
        for path in PACKAGE.rglob("*.py")
        for name in names(path)
        if private_words(name)
    }
    assert sorted(use for use in used if use[1] not in ALLOWED) == []
    assert set(ALLOWED) == {name for _, name in used}, "an exception that nothing needs"


@pytest.mark.parametrize(
    ("name", "words"), [("group_factors", {"factors"}), ("MarkedRing", {"marked", "ring"})]
)
def test_a_private_word_is_detected(name: str, words: set[str]) -> None:
    assert private_words(name) == words
    assert private_words("surrounding_turnaround") == set()


def test_docstrings_begin_with_a_verb_or_a_noun_phrase() -> None:
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    wrong = [
        f"{path.relative_to(PACKAGE)}: {doc.splitlines()[0]}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, kinds) and (doc := ast.get_docstring(node)) and OPENERS.match(doc)
    ]
    assert wrong == []
