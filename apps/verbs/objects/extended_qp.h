// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <infiniband/verbs.h>

namespace rockhopper::verbs {

/// The longest form of ibv_qp_ex that programs know: later versions of the header put a function
/// behind those of this one, and use it only if the queue pair was made for it.
class ExtendedQp : public ibv_qp_ex {
 public:
  using Flush = void(ibv_qp_ex* qp, std::uint32_t rkey, std::uint64_t remote_addr,
                     std::size_t length, std::uint8_t type, std::uint8_t level);

  ExtendedQp() : ibv_qp_ex{} {}
  void set_wr_flush(Flush* flush) {
    constexpr std::size_t kPlace = offsetof(ibv_qp_ex, wr_atomic_write) + sizeof(flush);
    static_assert(kPlace + sizeof(flush) <= sizeof(ExtendedQp));
    std::memcpy(reinterpret_cast<std::byte*>(this) + kPlace, &flush, sizeof flush);
  }

 private:
  /// Where the header that this is compiled with ends before that function, it is here.
  [[maybe_unused]] Flush* behind_ = nullptr;
};

}  // namespace rockhopper::verbs
