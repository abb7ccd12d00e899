"""Generate `triton_c.md`: the language Triton-C, with the grammar that the parser uses.

python docs/triton_c_page.py > docs/triton_c.md

The prose is in `triton_c_page.txt`.
"""

from __future__ import annotations

import string
from pathlib import Path

from tile.frontend.triton_c.c_types import SCALARS
from tile.frontend.triton_c.intrinsics import INTRINSICS

ROOT = Path(__file__).parent.parent
GRAMMAR = ROOT / "tile" / "frontend" / "triton_c" / "grammar.lark"
EXAMPLE = ROOT / "examples" / "triton_c" / "matmul_nt.tc"

TEXT = Path(__file__).with_suffix(".txt")


def listed(words: list[str]) -> str:
    """Return words as code, by commas."""
    return ", ".join(f"`{word}`" for word in words if word)


def page() -> str:
    """Return the text of the page."""
    return string.Template(TEXT.read_text("utf-8")).substitute(
        example=EXAMPLE.read_text("utf-8").rstrip(),
        grammar=GRAMMAR.read_text("utf-8").rstrip(),
        types=listed(list(SCALARS)),
        functions=listed([*INTRINSICS, "get_global_range"]),
    )


if __name__ == "__main__":
    print(page(), end="")
