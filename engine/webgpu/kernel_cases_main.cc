// webgpu_cases FOLDER [FILTER]: writes the kernel cases whose name contains FILTER.
#include <cstdio>

#include "webgpu/kernel_cases.h"

int main(int argument_count, char** arguments) {
  if (argument_count < 2) {
    std::fprintf(stderr, "usage: webgpu_cases FOLDER [FILTER]\n");
    return 2;
  }
  nonstop::CaseWriter writer(argument_count > 2 ? arguments[2] : "");
  nonstop::AddPackCases(writer);
  nonstop::AddRowsCases(writer);
  nonstop::AddAttentionCases(writer);
  nonstop::AddProductCases(writer);
  nonstop::AddSamplingCases(writer);
  if (!writer.WriteTo(arguments[1])) {
    std::fprintf(stderr, "webgpu_cases: cannot write to \"%s\".\n", arguments[1]);
    return 1;
  }
  std::printf("%u cases\n", writer.case_count());
  return 0;
}
