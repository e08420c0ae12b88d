// The two symbols of the stack protector. Debian's compiler-rt for wasm32 (libclang_rt.builtins,
// its 128-bit divisions) was built with -fstack-protector-strong; wasi-libc does not have them.
// The engine itself is compiled without the protector: its stack holds no return addresses.

unsigned long __stack_chk_guard = 0xb7e15162u;

_Noreturn void __stack_chk_fail(void) { __builtin_trap(); }
