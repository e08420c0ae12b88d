# Shrinks a linked module in place with Binaryen's wasm-opt (npm, run by the pinned Node):
#   cmake -DMODULE=x.wasm -DTHREADS=ON|OFF -DLEVEL=-Os|-Oz -DROOT=<repository> -P wasm_opt.cmake
# It saves about 10 % and changes no kernel's speed. The features are named, since a stripped module
# does not list them. Nothing lies below address 1024 (lld's --global-base), so additions fold into
# the offsets of loads. Debian's own wasm-opt is too old for relaxed SIMD and is never used.
set(node ${ROOT}/.deps/node24/bin/node)
set(wasm_opt ${ROOT}/node_modules/binaryen/bin/wasm-opt)
if(NOT EXISTS ${node} OR NOT EXISTS ${wasm_opt})
  message(FATAL_ERROR "Node 24 (${node}) or Binaryen (${wasm_opt}) is missing. "
                      "Run: tools/setup/ensure ensure node npm")
endif()

set(features simd relaxed-simd bulk-memory bulk-memory-opt nontrapping-float-to-int sign-ext
             mutable-globals)
if(THREADS)
  list(APPEND features threads)
endif()
list(TRANSFORM features PREPEND "--enable-")
set(passes ${LEVEL})
if(LEVEL STREQUAL "-Oz")  # for a module without hot loops: control flow is built anew, too
  set(passes --flatten --rereloop -Oz -Oz -Oz)
endif()
# What is called most gets the short indices.
list(APPEND passes --reorder-functions --reorder-globals)
execute_process(COMMAND ${node} ${wasm_opt} ${features} ${passes} --low-memory-unused --strip-debug
                        --strip-target-features ${MODULE} -o ${MODULE}.opt
                COMMAND_ERROR_IS_FATAL ANY)
file(RENAME ${MODULE}.opt ${MODULE})
