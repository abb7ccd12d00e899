"""`help`: an overview, each command, and what is different from debugging one thread of Python."""

from __future__ import annotations

import inspect

from tile.debugger.talk import Talk

OVERVIEW = """\
Commands are pdb's. `help COMMAND` says more; an empty line does the last command again.

  run       s(tep)  n(ext)  r(eturn)  unt(il) [line]  c(ontinue)  before [count]
            restart [args]  q(uit)
  stop      b(reak) [place[, condition]]  tbreak  cl(ear)  disable  enable  ignore  condition
            when condition    only [program | condition | off]
  look      p expression  pp  whatis  a(rgs)  vars  display  undisplay
            w(here)  u(p)  d(own)  l(ist)  ll
  programs  program [i,j,k]  programs

Topics: help values, help programs-together, help faults.
Anything else is Python, computed with the variables of the program that is looked at.\
"""

TOPICS = {
    "values": """\
Variables are those of the Python source, for the one program that is looked at. A tile is an array
of NumPy, a scalar a number of NumPy, a constexpr what it is in Python.

  p x              type, shape and elements; `--` is an element that nobody defined
  p x.max(), p x[x > 3], p (x != x).any(), p np.abs(x - y).argmax()
  p mask           a mask is a tile of bool
  p x_ptr + i      a pointer is an argument plus an index; `!` marks those outside of the array
  p (x_ptr + i).load()    what is there in memory now
  p x_ptr.array    the whole array that was passed
  total = x.sum()  a name of your own, for later expressions\
""",
    "programs-together": """\
The interpreter runs many programs of the grid at once, in waves. "Stopped at line 12" means that
all programs of a wave stand there; which these are is said when it changes. You look at one of
them, and `n`, `s`, `r`, `unt` follow that one; those of its wave come along, all others run as they
may.

Where programs disagree about an `if` or about another turn of a loop, the wave parts, and meets
again behind it. `programs` says where all are; `program 3,0` looks at another one, at its place.
A large grid is run in parts, one after the other: programs may have ended, or not have started.

  b 12, program_id(0) == 3     stop one program
  b 12, (x < 0).any()          stop programs by their values
  only 3,0                     let breakpoints stop this program alone
  when total > 100             stop where it becomes true, at any line\
""",
    "faults": """\
The session runs with all checks of the interpreter (docs/debugging.md): accesses outside of arrays,
races, undefined values, index arithmetic that wraps, false promises, asserts, deadlocks. At a fault
programs stand still at the faulty operation, and its error is printed: look at the masks, pointers
and values. `before` goes back to where the line of the fault began, `before 5` five lines further
back than that; from there you can step.

`c` from a fault lets the launch raise its error, as it does without a debugger.\
""",
}


class Helping(Talk):
    """Help for commands and topics."""

    def do_help(self, arg: str) -> None:
        """`h(elp) [command | topic]`.

        Print what a command does, or the list of them.
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
