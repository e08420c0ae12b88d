# The WebAssembly engine module: one source, five builds, chosen by three options.
#   NONSTOP_WASM_RELAXED  relaxed SIMD (otherwise SIMD128 only)
#   NONSTOP_WASM_THREADS  imported shared memory, TLS, and a lock around malloc
#   NONSTOP_WASM_WEBGPU   computes with WebGPU through the imports of "nonstop_gpu"; no CPU kernels
# nonstop_wasm_command(TARGET) makes a WASI command of an executable, for the tests.

set(NONSTOP_WASM_PORT_DIR ${CMAKE_SOURCE_DIR}/engine/port/wasm)
set(NONSTOP_WASM_MAX_MEMORY 4294967296)

if(NONSTOP_WASM_RELAXED)
  add_compile_options(-mrelaxed-simd)
endif()
if(NONSTOP_WASM_THREADS)
  add_compile_options(-matomics)
endif()

# Debian's compiler-rt for wasm32 was built with the stack protector, which wasi-libc lacks.
add_library(nonstop_wasm_port OBJECT ${NONSTOP_WASM_PORT_DIR}/stack_protector.c)
if(NONSTOP_WASM_THREADS)
  target_sources(nonstop_wasm_port PRIVATE ${NONSTOP_WASM_PORT_DIR}/malloc_lock.cc)
endif()

function(nonstop_wasm_reactor target)
  target_link_libraries(${target} PRIVATE nonstop_wasm_port)
  target_link_options(
    ${target} PRIVATE ${NONSTOP_WASM_LIB}/crt1-reactor.o --entry=_initialize --strip-all
    # What the compiler did not inline within a file stays a call: 20 KB less, no kernel is slower.
    -mllvm -inline-threshold=0
    --initial-memory=16777216 --max-memory=${NONSTOP_WASM_MAX_MEMORY})
  if(NONSTOP_WASM_THREADS)
    # wasi-libc's objects were not compiled with atomics, hence --no-check-features. It has no
    # thread support either: its allocator is locked by wrapping every entry point.
    target_link_options(
      ${target} PRIVATE --shared-memory --import-memory --no-check-features
      --export=__stack_pointer --export=__tls_size --export=__tls_align
      --export=__wasm_init_tls)
    foreach(name malloc free calloc realloc aligned_alloc posix_memalign)
      target_link_options(${target} PRIVATE --wrap=${name})
    endforeach()
  endif()
endfunction()

function(nonstop_wasm_command target)
  target_link_libraries(${target} PRIVATE nonstop_wasm_port)
  target_link_options(
    ${target} PRIVATE ${NONSTOP_WASM_LIB}/crt1-command.o --initial-memory=67108864
    --max-memory=${NONSTOP_WASM_MAX_MEMORY})
endfunction()

function(nonstop_add_module)
  set(port_sources ${NONSTOP_WASM_PORT_DIR}/new_delete.cc)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/engine/abi/*.cc)
  list(FILTER sources EXCLUDE REGEX "_(test|fuzz|bench)\\.cc$")
  if(NONSTOP_WASM_WEBGPU)
    list(FILTER sources EXCLUDE REGEX "/cpu_backend\\.cc$")
    list(APPEND port_sources ${NONSTOP_WASM_PORT_DIR}/wasm_gpu.cc
         ${NONSTOP_WASM_PORT_DIR}/heap_malloc.cc)
    set(name nonstop-webgpu)
  else()
    list(FILTER sources EXCLUDE REGEX "/gpu_exports\\.cc$")
    set(name "nonstop-$<IF:$<BOOL:${NONSTOP_WASM_RELAXED}>,relaxed,simd>")
  endif()
  add_executable(nonstop ${sources} ${port_sources})
  target_link_libraries(nonstop PRIVATE nonstop_engine)
  nonstop_wasm_reactor(nonstop)
  set_target_properties(
    nonstop PROPERTIES OUTPUT_NAME "${name}$<$<BOOL:${NONSTOP_WASM_THREADS}>:-mt>")
  add_custom_command(
    TARGET nonstop POST_BUILD
    COMMAND ${CMAKE_COMMAND} -DMODULE=$<TARGET_FILE:nonstop> -DTHREADS=${NONSTOP_WASM_THREADS}
            -DLEVEL=$<IF:$<BOOL:${NONSTOP_WASM_WEBGPU}>,-Oz,-Os>
            -DROOT=${CMAKE_SOURCE_DIR} -P ${CMAKE_SOURCE_DIR}/tools/cmake/wasm_opt.cmake
    COMMENT "Shrinking the module" VERBATIM)
endfunction()

# What ./test runs to see that the allocator is locked.
if(NONSTOP_WASM_THREADS)
  add_executable(malloc_lock_probe EXCLUDE_FROM_ALL
                 ${NONSTOP_WASM_PORT_DIR}/malloc_lock_probe.cc)
  target_link_libraries(malloc_lock_probe PRIVATE nonstop_flags)
  nonstop_wasm_reactor(malloc_lock_probe)
endif()
