// A graph as text and back: for plan dumps, pass tests and reading with one's own eyes.
//
//   %4 = norm_matmul(%3, @output_norm.weight[576], @token_embd.weight[49152, 576]:Q8_0) {eps=1e-05}
//   -> f32[outputs, 49152]
// (one line a node). Operands: %n activations and cache versions, @name[width] vectors,
// @name[rows, columns]:TYPE matrices, @name[begin:end, columns]:TYPE row ranges, $name indices,
// #name[length] constants, _ absent. The last line is "return %a, %b".
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "graph/graph.h"

namespace nonstop {

std::string GraphToText(const Graph& graph);

// Reads what GraphToText writes (values are numbered anew). Errors name the line.
Result<Graph> GraphFromText(std::string_view text);

}  // namespace nonstop
