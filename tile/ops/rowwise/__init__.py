"""Functions of rows: each program holds a row, or several short ones, in registers."""
