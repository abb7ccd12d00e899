"""Pictures of the pages for `docs/`: run `python -m tests.pages.pictures`."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from PIL import Image

import tile
from docs import faulty_program, traced_program
from tests.pages.browser import Browser

DOCS = Path(__file__).parents[2] / "docs"
# A phone's shows what follows the source; what is chosen there is outlined.
SCROLL = """
document.querySelector("button.choose")?.click();
const shown = document.querySelector("section.fault") ?? document.querySelector("h3[id]");
const top = shown.getBoundingClientRect().top + window.scrollY;
window.scrollTo(0, arguments[0] === "phone" ? top - 10 : 0);
"""
COLORS = 256
SIZES = {"desktop": (1100, 1480), "phone": (360, 1200)}


def main() -> None:
    """Draw all of them."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        browser = Browser(
            root / "profile", *map(str, map(shutil.which, ("chromium", "chromedriver")))
        )
        with tile.trace() as trace:
            traced_program.main()
        pages = {
            "faults": faulty_program.collect_faults().html(root / "faults.html"),
            "trace": trace.html(root / "trace.html"),
        }
        for name, page in pages.items():
            for size, (width, height) in SIZES.items():
                browser.command("Emulation.setScrollbarsHidden", hidden=True)
                browser.open(page, width, height)
                browser.script(SCROLL, size)
                path = DOCS / "pictures" / f"{name}-{size}.png"
                browser.screenshot(path, width, height)
                picture = Image.open(path).convert("RGB")
                picture.quantize(COLORS, kmeans=3).save(path, optimize=True)
                print(f"{path}: {path.stat().st_size:,} bytes")
        browser.quit()


if __name__ == "__main__":
    main()
