"""Compile LLVM IR for the CPU of this process."""

from __future__ import annotations

from llvmlite import binding as llvm

from tile.backends.nvptx.libdevice import LLVM_LOCK, prepare_llvm


def machine_code(text: str, triple: str = "") -> bytes:
    """Return the code of a module of one function, for this process or another target.

    Raises `RuntimeError` for code that refers to symbols or data, which would not run where it is
    copied to.
    """
    with LLVM_LOCK:
        prepare_llvm()
        module = llvm.parse_assembly(text)
        module.verify()
        target = llvm.Target.from_triple(triple or llvm.get_process_triple())
        machine = target.create_target_machine(opt=1, reloc="pic", codemodel="small")
        binary = machine.emit_object(module)
        module.close()
    sections = {one.name(): one.data() for one in llvm.ObjectFileRef.from_data(binary).sections()}
    if any(name and name.startswith((b".rel", b".rodata")) for name in sections):
        raise RuntimeError("the code refers to symbols or data")
    code: bytes = sections[b".text"]
    return code
