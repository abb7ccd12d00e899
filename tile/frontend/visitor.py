"""The table of the rules of all expressions and statements."""

from __future__ import annotations

from tile.frontend.expressions import EXPRESSIONS
from tile.frontend.state import Rules
from tile.frontend.statements import STATEMENTS, body

RULES = Rules(EXPRESSIONS, STATEMENTS, body)
