# The module of ./run bench: the engine's kernels behind a few exports, compiled and linked as the
# engine's module is. Built only when asked for: tools/build_modules --bench.
file(GLOB bench_module_sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/bench/cpu/module/*.cc)
add_executable(nonstop_bench EXCLUDE_FROM_ALL ${bench_module_sources}
                             ${NONSTOP_WASM_PORT_DIR}/new_delete.cc)
set_source_files_properties(${bench_module_sources} PROPERTIES COMPILE_OPTIONS
                                                               "${NONSTOP_HOT_FLAGS}")
target_link_libraries(nonstop_bench PRIVATE nonstop_engine)
nonstop_wasm_reactor(nonstop_bench)
set(bench_module_name "bench-$<IF:$<BOOL:${NONSTOP_WASM_RELAXED}>,relaxed,simd>")
set_target_properties(
  nonstop_bench PROPERTIES OUTPUT_NAME
                           "${bench_module_name}$<$<BOOL:${NONSTOP_WASM_THREADS}>:-mt>")
