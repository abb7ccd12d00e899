"""HTML pages of what runs found: each one file, that needs no network and no server.

Pages are drawn from the JSON of a report alone, so a report that was kept can be drawn later.

- `page.py`: templates, and writing a page to a file.
- `drawing.py`: counts in cells (`tile/raster.py`) as pictures.
- `listing.py`, `highlight.py`: source with marked lines.
- `faults.py`: the page of a report of faults.
"""
