"""Checks of runs on the grid: a translation of its own, so that runs without checks cost nothing.

- `translate.py`: instructions that know of marks, and those that report.
- `marked.py`, `propagate.py`: which elements of a value are undefined, or come of arithmetic that
  wrapped; and how operations hand that on. A value of which nothing is known to be wrong is held
  as ever, so what is clean costs one look at its type.
- `sources.py`: the operations that make such elements.
- `access.py`, `rules.py`: loads, stores and atomics: what marks may not reach, bounds.
- `shadow.py`, `order.py`: who touched which element last, and whose accesses are ordered.
- `launch.py`: a run with checks; the machine that looks at conditions.
"""
