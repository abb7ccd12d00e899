@$record = addrspace(1) externally_initialized global i64 0, align 8
@$reported = addrspace(1) externally_initialized global i32 0, align 4
define internal void $report(ptr addrspace(1) %assertion, i1 %failed) noinline {
  br i1 %failed, label %begin, label %holds
holds:
  ret void
begin:
  %record = load volatile i64, ptr addrspace(1) @$record, align 8
  %is_set = icmp ne i64 %record, 0
  br i1 %is_set, label %claim, label %foreign
foreign:
  %at_line = getelementptr $assertion, ptr addrspace(1) %assertion, i32 0, i32 1
  %at_message = getelementptr $assertion, ptr addrspace(1) %assertion, i32 0, i32 2
  %at_file = getelementptr $assertion, ptr addrspace(1) %assertion, i32 0, i32 3
  %at_function = getelementptr $assertion, ptr addrspace(1) %assertion, i32 0, i32 4
  %line = load i32, ptr addrspace(1) %at_line
  %message = load ptr, ptr addrspace(1) %at_message
  %file = load ptr, ptr addrspace(1) %at_file
  %function = load ptr, ptr addrspace(1) %at_function
  $failure
  unreachable
claim:
  %old = atomicrmw xchg ptr addrspace(1) @$reported, i32 1 monotonic
  %first = icmp eq i32 %old, 0
  br i1 %first, label %report, label %done
report:
  %fields = inttoptr i64 %record to ptr addrspace(1)
  %x = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.x()
  %y = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.y()
  %z = call i32 @llvm.nvvm.read.ptx.sreg.ctaid.z()
  %thread = call i32 @llvm.nvvm.read.ptx.sreg.tid.x()
  %px = getelementptr i32, ptr addrspace(1) %fields, i64 1
  %py = getelementptr i32, ptr addrspace(1) %fields, i64 2
  %pz = getelementptr i32, ptr addrspace(1) %fields, i64 3
  %pt = getelementptr i32, ptr addrspace(1) %fields, i64 4
  store volatile i32 %x, ptr addrspace(1) %px, align 4
  store volatile i32 %y, ptr addrspace(1) %py, align 4
  store volatile i32 %z, ptr addrspace(1) %pz, align 4
  store volatile i32 %thread, ptr addrspace(1) %pt, align 4
  %number = load i32, ptr addrspace(1) %assertion
  fence seq_cst
  store volatile i32 %number, ptr addrspace(1) %fields, align 4
  br label %done
done:
  call void asm sideeffect "exit;", "~{memory}"()
  ret void
}
