#!/bin/sh
# Builds llama.cpp's CPU library once more with its half-precision GELU table switched off, into the
# folder given. With the table, Gemma's logits jitter by some 1e-3 between chunk sizes; without it
# they are exact to float32. Needs the activated environment of README.md, cmake and ninja (by pip).
set -eu
folder=$1
version=$(sed -n 's/^llama-cpp-python==//p' "$(dirname "$0")/requirements.txt")
mkdir -p "$folder/source" "$folder/lib"
pip download --quiet --no-deps --no-build-isolation --no-binary llama-cpp-python --dest "$folder" "llama-cpp-python==$version"
tar xzf "$folder/llama_cpp_python-$version.tar.gz" --strip-components 1 -C "$folder/source"
llama=$folder/source/vendor/llama.cpp
sed -i '/^#define GGML_GELU_FP16$/d' "$llama/ggml/src/ggml-cpu/vec.h"
cmake -S "$llama" -B "$folder/build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON \
  -DLLAMA_BUILD_COMMON=OFF -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_TOOLS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_SERVER=OFF
ninja -C "$folder/build" ggml-cpu
cp -L "$(python -c 'import importlib.util as u; print(u.find_spec("llama_cpp").submodule_search_locations[0])')"/lib/* "$folder/lib/"
for name in "$folder"/lib/libggml-cpu.so*; do
  cp -L "$folder/build/bin/libggml-cpu.so" "$name"
done
