#include "cpu/kv_store.h"

namespace nonstop::cpu {

Status KvStore::EnsurePage(uint32_t page) {
  if (page >= pages_.size()) pages_.resize(page + 1);
  if (pages_[page].data() != nullptr) return {};
  ASSIGN_OR_RETURN(pages_[page], AlignedBuffer::Create(shape_.page_size_bytes()));
  size_bytes_ += shape_.page_size_bytes();
  return {};
}

}  // namespace nonstop::cpu
