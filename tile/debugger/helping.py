"""`help`: an overview, each command, and the differences from debugging one Python thread."""

from __future__ import annotations

import inspect

from tile.debugger.talk import CommandBase

OVERVIEW = """\
Commands are pdb's. `help COMMAND` says more; an empty line repeats the last command.

  run       s(tep)  n(ext)  r(eturn)  unt(il) [line]  c(ontinue)  before [count]
            restart [args]  q(uit)
  stop      b(reak) [place[, condition]]  tbreak  cl(ear)  disable  enable  ignore  condition
            when condition    only [program | condition | off]
  look      p expression  pp  whatis  a(rgs)  vars  display  undisplay
            w(here)  u(p)  d(own)  l(ist)  ll
  programs  program [i,j,k]  programs

Topics: help values, help programs-together, help faults.
Anything else is Python, evaluated with the variables of the selected program.\
"""

TOPICS = {
    "values": """\
Variables are those of the Python source, for the selected program. A tile is a NumPy array, a
scalar a NumPy number, a constexpr what it is in Python.

  p x              type, shape and elements; `--` is an undefined element
  p x.max(), p x[x > 3], p (x != x).any(), p np.abs(x - y).argmax()
  p mask           a mask is a tile of bool
  p x_ptr + i      a pointer is an argument plus an index; `!` marks those outside of the array
  p (x_ptr + i).load()    what memory holds there now
  p x_ptr.array    the whole array that was passed
  total = x.sum()  a variable of your own, for later expressions\
""",
    "programs-together": """\
The interpreter runs many programs of the grid at once, in batches. "Stopped at line 12" means that
all programs of a batch stand there; a line tells which ones whenever that changes. One of them is
selected, and `n`, `s`, `r`, `unt` follow that one; the others of its batch run with it, and all
other programs run in any order.

Where programs take different branches of an `if`, or leave a loop in different iterations, the
batch splits, and joins again after it. `programs` lists where all are; `program 3,0` selects
another one, where it stands. A large grid is run in parts, one after the other: some programs may
have ended, and others not have started.

  b 12, program_id(0) == 3     stop one program
  b 12, (x < 0).any()          stop programs by their values
  only 3,0                     let breakpoints stop this program alone
  when total > 100             stop where it becomes true, at any line\
""",
    "faults": """\
The session runs with all checks of the interpreter (docs/debugging.md): out-of-bounds accesses,
races, undefined values, index arithmetic that wraps, false promises, asserts, deadlocks. At a fault
programs stop at the faulty operation, and its error is printed: inspect the masks, pointers and
values. `before` goes back to the beginning of the faulty line, `before 5` to that of the fifth last
line; from there you can step.

`c` from a fault lets the launch raise its error, as it does without a debugger.\
""",
}


class HelpCommands(CommandBase):
    """Help for commands and topics."""

    def do_help(self, arg: str) -> None:
        """`h(elp) [command | topic]`.

        Print what a command does, or the list of commands.
        """
        if not arg:
            self.say(OVERVIEW)
        elif arg in TOPICS:
            self.say(TOPICS[arg])
        else:
            command = getattr(self, f"do_{arg}", None)
            if command is None:
                self.refuse(f"no command or topic is called `{arg}`; `help` lists them")
            else:
                usage, _, text = inspect.cleandoc(command.__doc__ or "").partition("\n\n")
                self.say(usage.replace("`", "").removesuffix("."))
                self.say(text)

    do_h = do_help
