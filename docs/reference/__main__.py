"""Write what is generated from declarations: reference pages as Markdown, and type stubs.

python -m docs.reference --write       each to its file
python -m docs.reference language      print one, here docs/language.md
"""

from __future__ import annotations

import argparse

from docs.reference.pages import PAGES, page, write_pages


def main() -> None:
    """Run the command line."""
    files = "\n".join(f"  {name:16} {entry.path}" for name, entry in PAGES.items())
    parser = argparse.ArgumentParser(
        prog="python -m docs.reference",
        description=__doc__,
        epilog=f"pages:\n{files}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    target = parser.add_mutually_exclusive_group(required=True)
    target.add_argument("page", nargs="?", choices=PAGES, metavar="PAGE", help="print this page")
    target.add_argument("--write", action="store_true", help="write every page to its file")
    options = parser.parse_args()
    if options.write:
        write_pages()
    else:
        print(page(options.page), end="")


main()
