"""Names in `tile/` are the field's words; all docstrings begin with a verb or a noun phrase."""

from __future__ import annotations

import ast
import builtins
import functools
import keyword
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
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
    "N_ROUNDS_DEFAULT": "Triton's name: rounds of the Philox cipher",
    "ROUNDS": "rounds of the Philox cipher",
    "cuda_home": "CUDA_HOME, NVIDIA's environment variable",
    "home_dir": "Triton's name",
    "hits": "pdb counts the hits of a breakpoint",
    "_product": "a product of numbers",
    "_product_bound": "a product of numbers",
    "_product_error": "the rounding error of a product of numbers",
    "product": "a product of numbers, or the product of two layouts",
    "_round_to_bf16": "a float is rounded",
    "round_": "a float is rounded",
    "round_to_odd_f32": "a float is rounded",
    "round_to_tf32": "a float is rounded",
    "round_f32_to_tf32": "Triton's name",
    "_round": "a round of the Philox cipher",
    "n_rounds": "rounds of the Philox cipher, as in Triton",
    **dict.fromkeys(
        ("box_dim", "boxes", "box", "Box", "MAX_BOX", "tma_boxes", "whole_box_dim"),
        "boxDim of TMA",
    ),
    **dict.fromkeys(("pixel_box_lower_corner", "pixel_box_upper_corner"), "Gluon's, and CUDA's"),
    "KnownBits": "LLVM's term",
    "factor": "the factor by which a loop is unrolled",
    "loop_unroll_factor": "Triton's name",
    "Mark": "triton.testing.Mark",
    "mark": "mark and sweep",
    "mark_written": "the verb; a public method of empty arrays",
}
# In prose these are ordinary English; they stood for a term only as names.
ORDINARY = frozenset(
    """
    accounts brought company found fresh given hits home homes kept known landings late looking
    meaning moving places served talk tied told turned
    """.split()
)
PROSE = PRIVATE - ORDINARY
# Right uses of the others in prose: by phrase, or by word and file, with the reason.
PHRASES = {
    r"\brounds?(?= (an?|f32|f64|to|once|up|down|them|it|as|every|exactly|both|its|twice|less|each|toward"
    r"|operands)\b|[;,])": "a number is rounded",
    r"\bround_f32_to_tf32\b": "Triton's name",
    r"\brounds of Philox": "the cipher's word",
    r"\bround trips|(rounds by 2|rounds by eps)\b": "numbers are rounded; an idiom",
    r"\bturns?(?= (these|them|that|each|it|four|a|adapted|into|off|infinity)\b)": "the verb",
    r"\bin turn\b": "one after the other",
    r"\bmark(s|ed)?(?= (the|all|an?|as|where|undefined)\b)": "the verb",
    r"\bpytest mark\b": "pytest's word",
    r"\bfactor (by|of \d)": "a ratio",
    r"\bunroll factor\b": "the field's term",
    r"\b(TMA box(es)?|tma_boxes)\b": "boxDim of TMA",
    r"\bpixel_box_(lower|upper)_corner\b": "Gluon's name",
    r"\bBox-Muller\b": "a name",
    r"\bcp\.(reduce\.)?async\.bulk\b": "PTX",
    r"\bhalves (the|what)\b": "the verb",
    r"\b(16-bit|both|its) halves\b|\bhalves of\b": "two equal parts",
}
PRODUCTS = """
    docs/debugging.md docs/notes/opencl.md docs/ops.md docs/results/accuracy.md examples/dropout.py
    tests/backends/interp/test_view_bytes.py tests/backends/nvptx/test_lowered.py
    tests/conformance/bounds.py tests/conformance/test_combining.py
    tests/conformance/test_dot_loops.py tests/extending/test_pass.py tests/fuzz/generate.py
    tests/ir/test_libdevice.py tests/ir/test_semantics.py tests/ops/cases.py
    tests/simt/edge_kernels.py tests/simt/test_legalize.py tests/typing/correct.py
    tile/backends/interp/sanitizer/overflow.py
    tile/backends/nvptx/emit/arith.py tile/backends/opencl/emit/arith.py
    tile/backends/opencl/emit/registers.py tile/codegen/llvm/arith.py tile/ir/ops/dot.py
    tile/ir/semantics/arith.py tile/ir/semantics/dot.py tile/ir/semantics/libdevice/bits.py
    tile/ir/semantics/libdevice/elementary.py tile/ir/semantics/libdevice/gamma.py
    tile/ir/semantics/libdevice/rounding.py tile/ir/semantics/math.py tile/ir/semantics/reduce.py
    tile/language/composed.py tile/language/linalg.py tile/language/math.py tile/language/random.py
    tile/language/reductions.py tile/ops/selection/cumprod.py tile/simt/hopper/wgmma_layouts.py
    tile/simt/lower/decompose/reduce.py tile/simt/lower/legalize.py tile/simt/lower/legalize.py
    tile/simt/lower/strength_reduce_pointers.py
"""
_TMA = {"tile/simt/hopper/tma_boxes.py": "boxDim of TMA"}
IN_FILES = {
    "box": _TMA,
    "boxe": _TMA | dict.fromkeys(["tests/simt/layouts/test_tma_boxes.py"], "boxDim of TMA"),
    "product": {
        **dict.fromkeys(PRODUCTS.split(), "a product of numbers"),
        **dict.fromkeys(
            ("docs/matmul_page.txt", "docs/triton_c_page.txt"), "a product of matrices"
        ),
        "tile/backends/nvptx/driver.py": "the name of a GPU",
        "tile/simt/layouts/linear_layout.py": "the product of two layouts",
        "tests/simt/layouts/test_linear_layout.py": "the product of two layouts",
    },
    "factor": dict.fromkeys(
        (
            "tile/transforms/unroll.py",
            "tests/transforms/test_unroll.py",
            "tests/transforms/unroll/fully.tile",
        ),
        "the factor by which a loop is unrolled",
    ),
}
GENERATED = {
    f"docs/{name}.md"
    for name in ("ir", "language", "passes", "matmul", "opencl", "triton_c", "results/code")
}
OPENERS = re.compile(r"(What|Whether|How|Of|Where)\b")


@dataclass(frozen=True)
class Text:
    """Names and prose of a Python file, from one walk over its syntax tree."""

    names: tuple[str, ...]  # of the file, its functions, classes, parameters, attributes, variables
    docs: tuple[str, ...]
    comments: tuple[str, ...]
    words: frozenset[str]  # identifiers, and words of strings other than docstrings


# Strings, and comments, which are the group.
COMMENT = re.compile(
    r'"""(?:[^\\]|\\.)*?"""|"(?:[^"\\\n]|\\.)*"'
    r"|'''(?:[^\\]|\\.)*?'''|'(?:[^'\\\n]|\\.)*'|(#[^\n]*)",
    re.DOTALL,
)


@functools.cache
def text_of(path: Path) -> Text:
    """Read a file of Python. Tests share the result, since to parse all files takes seconds."""
    source = path.read_text(encoding="utf-8")
    names, docs, words = [path.stem], [], {path.stem}
    documented = set()  # the constants that are docstrings; the walk reaches them later
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.append(node.name)
            case ast.arg():
                names.append(node.arg)
            case ast.Attribute(ctx=ast.Store()):
                names.append(node.attr)
            case ast.Name(ctx=ast.Store()):
                names.append(node.id)
            case ast.Constant(value=str() as string) if id(node) not in documented:
                words.update(re.findall(r"\w+", string))
        if isinstance(node, _DOCUMENTED) and (doc := ast.get_docstring(node)) is not None:
            docs.append(doc)
            documented.add(id(node.body[0].value))
        for field in ("id", "attr", "arg", "name", "asname"):
            name = getattr(node, field, None)
            if isinstance(name, str):
                words.update(name.split("."))
    comments = tuple(match[1] for match in COMMENT.finditer(source) if match[1])
    return Text(tuple(names), tuple(docs), comments, frozenset(words))


_DOCUMENTED = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def private_words(name: str) -> set[str]:
    """Return the private words among those of a name, which underscores and capitals divide."""
    return PRIVATE & {word.lower() for word in re.findall(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])", name)}


def test_names_are_the_fields() -> None:
    used = {
        (str(path.relative_to(PACKAGE)), name)
        for path in PACKAGE.rglob("*.py")
        for name in text_of(path).names
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
    root = PACKAGE.parent
    wrong = [
        f"{path.relative_to(root)}: {doc.splitlines()[0]}"
        for folder in ("tile", "examples", "benchmarks", "tests")
        for path in sorted((root / folder).rglob("*.py"))
        for doc in text_of(path).docs
        if OPENERS.match(doc)
    ]
    assert wrong == []


def prose(path: Path) -> Iterator[str]:
    """Yield the docstrings and comments of a Python or IR file, or a page without its code."""
    if path.suffix == ".py":
        text = text_of(path)
        yield from (*text.docs, *text.comments)
        return
    source = path.read_text(encoding="utf-8")
    if path.suffix == ".tile":
        yield from re.findall(r"^//(?! *(?:RUN|CHECK)\S*:)(.*)", source, flags=re.MULTILINE)
    else:
        yield re.sub(r"^(```|~~~).*?^\1", "", source, flags=re.MULTILINE | re.DOTALL)


def private_prose(text: str) -> set[str]:
    """Return the private words of a text, without code and the phrases that are right."""
    words = re.compile(r"[a-z]+")
    if PROSE.isdisjoint(words.findall(text.lower())):
        return set()
    text = " ".join(re.sub(r"`[^`]*`", "code", text).split())
    for phrase in PHRASES:
        text = re.sub(phrase, "", text, flags=re.IGNORECASE)
    return PROSE & set(words.findall(text.lower()))


def test_prose_has_the_fields_words() -> None:
    root = PACKAGE.parent
    pages = [root / "README.md", root / "CONTRIBUTING.md"]
    for folder in ("tile", "docs", "examples", "benchmarks", "tests"):
        pages += [
            path
            for path in (root / folder).rglob("*.*")
            if path.suffix in (".py", ".md", ".txt", ".tile")
        ]
    used = {
        (word.removesuffix("s"), path.relative_to(root).as_posix())
        for path in pages
        if path.relative_to(root).as_posix() not in GENERATED and path != Path(__file__)
        for text in prose(path)
        for word in private_prose(text)
    }
    allowed = {(word, file) for word, files in IN_FILES.items() for file in files}
    assert sorted(used - allowed) == []
    assert sorted(allowed - used) == [], "an exception that nothing needs"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("The next round reads both factors.", {"round", "factors"}),
        ("Round an f32 to nearest; rounds once, in turn", set()),
        ("A `round` of 2 products", {"products"}),
        ("Marked tiles wait for the ring", {"marked", "ring"}),
    ],
)
def test_private_words_of_prose(text: str, words: set[str]) -> None:
    assert private_prose(text) == words


# Pages of names of PTX, of libdevice and of Triton.
OF_OTHERS = {f"docs/{name}.md" for name in ("compat", "inline_ptx", "libdevice")}

# British spellings, in names and in prose.
BRITISH = re.compile(
    r"(behavi|col|fav|hon|neighb)our|centre|(label|model|travel)l(ed|ing)|analyse[dr]?$"
    r"|(canonical|general|initial|legal|material|maxim|minim|normal|optim|organ|parallel|quant|recogn"
    r"|serial|special|synchron|vector)is(e|ing|ation)",
    re.IGNORECASE,
)


def test_spelling_is_american() -> None:
    root = PACKAGE.parent
    pages = [root / "README.md", root / "CONTRIBUTING.md", *(root / "docs").rglob("*.md")]
    for folder in ("tile", "examples", "benchmarks", "tests"):
        pages += (root / folder).rglob("*.py")
    british = {
        (word, path.relative_to(root).as_posix())
        for path in pages
        if path != Path(__file__) and path.relative_to(root).as_posix() not in OF_OTHERS
        for word in re.findall(r"[A-Za-z]+", path.read_text(encoding="utf-8"))
        if BRITISH.search(word)
    }
    assert sorted(british) == []


# Names in prose that stand for something outside of this project's code.
ELSEWHERE = frozenset(
    """
    IMAD.WIDE IOBase LEA M_TRIM_THRESHOLD NAME_reference TILE_INTERP_...
    __builtin_load_halff _near atomic_KIND_ELEMENT bitreverse
    chunk_fwd_kernel_h diskcache effort_profile.py longlist
    willreturn
    """.split()
)
NAME = re.compile(r"`([A-Za-z_][\w.]*)(?:\(\))?`")


def words_of_code(path: Path) -> Iterator[str]:
    """Yield the identifiers and the words of strings of a file, docstrings excepted."""
    yield path.stem
    if path.suffix == ".py":
        yield from text_of(path).words
    else:
        yield from re.findall(r"\w+", path.read_text(encoding="utf-8"))


def test_names_in_prose_exist() -> None:
    root = PACKAGE.parent
    known = {*dir(builtins), *keyword.kwlist}
    for folder in ("tile", "docs", "tests", "examples", "benchmarks"):
        for path in (root / folder).rglob("*.*"):
            sources = (".py", ".pyi", ".tile", ".cl", ".ll", ".lark")
            if path.suffix in sources and path != Path(__file__):
                known.update(words_of_code(path))
    pages = [root / "README.md", root / "CONTRIBUTING.md"]
    pages += [*PACKAGE.rglob("*.py"), *(root / "docs").rglob("*.md")]
    unknown = {
        (name, path.relative_to(root).as_posix())
        for path in pages
        if path.relative_to(root).as_posix() not in OF_OTHERS
        for text in prose(path)
        for name in NAME.findall(text)
        if any(len(part) > 2 and part not in known for part in name.split("."))
    }
    assert sorted(use for use in unknown if use[0] not in ELSEWHERE) == []
    assert sorted(ELSEWHERE - {name for name, _ in unknown}) == [], "an exception nothing needs"


def table() -> Iterator[str]:
    """Yield a table of Markdown: how often each private word is used in a right sense, and which."""
    uses = Counter(name for path in PACKAGE.rglob("*.py") for name in set(text_of(path).names))
    yield from ("| word | names | files of prose | senses |", "|---|--:|--:|---|")
    for word in sorted(PRIVATE):
        allowed = {name: sense for name, sense in ALLOWED.items() if word in private_words(name)}
        files = IN_FILES.get(word.removesuffix("s"), {})
        senses = dict.fromkeys([*allowed.values(), *files.values()])
        if senses:
            count = sum(uses[name] for name in allowed)
            yield f"| {word} | {count} | {len(files) or ''} | {'; '.join(senses)} |"


if __name__ == "__main__":
    print(*table(), sep="\n")
