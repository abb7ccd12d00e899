"""HTML pages of faults and traces: each is one file that needs no network and no server.

A page is made from the JSON of a report alone, so a saved report can be drawn later.

- `page.py`: templates, and writing a page to a file.
- `drawing.py`: heatmaps (counts of the cells of `tile/raster.py`) as pictures.
- `listing.py`, `highlight.py`: source listings with annotated lines.
- `faults.py`: the page of a report of faults.
- `trace.py`: the page of a trace.
"""
