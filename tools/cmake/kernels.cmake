# Writes engine/webgpu/kernels/*.wgsl as rows of KernelFile, {"name", R"wgsl(text)wgsl"}, without
# comments, indentation and blank lines: a module carries what the WGSL compiler needs, no more.
# cmake -DKERNELS=FOLDER -DOUTPUT=FILE -P kernels.cmake
# A script of our own and not #embed: compiler caches don't see embedded files as dependencies.
file(GLOB kernels ${KERNELS}/*.wgsl)
set(rows "")
foreach(kernel IN LISTS kernels)
  get_filename_component(name ${kernel} NAME_WE)
  file(READ ${kernel} text)
  string(REGEX REPLACE "[ \t]*//[^\n]*" "" text "${text}")
  string(REGEX REPLACE "\n[ \t\n]+" "\n" text "\n${text}\n")
  string(SUBSTRING "${text}" 1 -1 text)
  string(APPEND rows "{\"${name}\", R\"wgsl(${text})wgsl\"},\n")
endforeach()
file(WRITE ${OUTPUT} "${rows}")
