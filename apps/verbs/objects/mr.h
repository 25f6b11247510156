// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>

#include <infiniband/verbs.h>

#include "apps/verbs/objects/domain.h"
#include "apps/verbs/objects/object.h"
#include "roce/memory.h"

namespace rockhopper::verbs {

class Dm;

/// A memory region.
class Mr final : public ibv_mr, public Object {
 public:
  static constexpr Kind kKind = Kind::region;

  /// What was registered, and how.
  struct Registration {
    void* addr = nullptr;
    std::size_t length = 0;
    std::uint64_t iova = 0;
    unsigned access = 0;  ///< as verbs have it
    Dm* dm = nullptr;     ///< whose memory it is; null: the program's
    roce::MemoryKey key{};
  };
  /// In a Section.
  Mr(Pd& owner, const Registration& registration);
  [[nodiscard]] static Mr* from(ibv_mr* verbs) { return static_cast<Mr*>(verbs); }

  [[nodiscard]] const Registration& registration() const { return registration_; }
  [[nodiscard]] roce::MemoryKey key() const { return registration_.key; }
  /// In a Section: it is that from now on, in that protection domain.
  void change(Pd& owner, const Registration& registration);

 private:
  void release() override;
  void show();

  Registration registration_;
  PdUser user_;
};

// Verbs.
[[nodiscard]] ibv_mr* reg_mr(ibv_pd* pd, void* addr, std::size_t length, int access);
[[nodiscard]] ibv_mr* reg_mr_iova(ibv_pd* pd, void* addr, std::size_t length, std::uint64_t iova,
                                  int access);
[[nodiscard]] ibv_mr* reg_mr_iova2(ibv_pd* pd, void* addr, std::size_t length, std::uint64_t iova,
                                   unsigned access);
[[nodiscard]] ibv_mr* reg_dmabuf_mr(ibv_pd* pd, std::uint64_t offset, std::size_t length,
                                    std::uint64_t iova, int fd, int access);
/// As ibv_reg_dm_mr: addresses begin with 0, which `access` says, too.
[[nodiscard]] ibv_mr* reg_dm_mr(ibv_pd* verbs, ibv_dm* dm, std::uint64_t dm_offset,
                                std::size_t length, unsigned access);
[[nodiscard]] int rereg_mr(ibv_mr* verbs, int flags, ibv_pd* pd, void* addr, std::size_t length,
                           int access);
[[nodiscard]] int dereg_mr(ibv_mr* verbs);

}  // namespace rockhopper::verbs
