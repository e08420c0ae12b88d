# Toolchain: Debian's clang-19 and wasm-ld-19 for wasm32-wasi, without threads, exceptions or RTTI.
#
# The linker is called directly. The clang-19 driver runs any wasm-opt it finds in PATH when the
# link line has -O, and with --no-wasm-opt it skips the link, prints nothing and exits 0.
# A target chooses its start file itself (crt1-reactor.o or crt1-command.o, see wasm.cmake).
set(CMAKE_SYSTEM_NAME Generic)
set(CMAKE_SYSTEM_PROCESSOR wasm32)
set(CMAKE_C_COMPILER clang-19)
set(CMAKE_CXX_COMPILER clang++-19)
set(CMAKE_AR llvm-ar-19 CACHE FILEPATH "")
set(CMAKE_RANLIB llvm-ranlib-19 CACHE FILEPATH "")
set(CMAKE_C_COMPILER_TARGET wasm32-wasi)
set(CMAKE_CXX_COMPILER_TARGET wasm32-wasi)
set(CMAKE_TRY_COMPILE_TARGET_TYPE STATIC_LIBRARY)
set(CMAKE_EXECUTABLE_SUFFIX_C ".wasm")
set(CMAKE_EXECUTABLE_SUFFIX_CXX ".wasm")

set(NONSTOP_WASM_FLAGS
    "-msimd128 -mbulk-memory -mnontrapping-fptoint -msign-ext -fvisibility=hidden")
set(CMAKE_C_FLAGS_INIT "${NONSTOP_WASM_FLAGS}")
set(CMAKE_CXX_FLAGS_INIT "${NONSTOP_WASM_FLAGS}")

execute_process(
  COMMAND clang-19 --target=wasm32-wasi -print-resource-dir
  OUTPUT_VARIABLE NONSTOP_WASM_RESOURCE_DIR
  OUTPUT_STRIP_TRAILING_WHITESPACE)
set(NONSTOP_WASM_LIB /usr/lib/wasm32-wasi)
set(CMAKE_C_STANDARD_LIBRARIES "")
set(CMAKE_CXX_STANDARD_LIBRARIES "")
string(
  CONCAT CMAKE_CXX_LINK_EXECUTABLE
         "wasm-ld-19 -m wasm32 -L${NONSTOP_WASM_LIB} <LINK_FLAGS> <OBJECTS> <LINK_LIBRARIES>"
         " -lc++ -lc++abi -lc ${NONSTOP_WASM_RESOURCE_DIR}/lib/wasi/libclang_rt.builtins-wasm32.a"
         " --gc-sections -z stack-size=1048576 -o <TARGET>")
