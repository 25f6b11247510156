// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <infiniband/verbs.h>

#include "apps/verbs/objects/domain.h"
#include "apps/verbs/objects/object.h"
#include "roce/memory.h"

namespace rockhopper::verbs {

/// A memory window of type 1 or 2.
class Mw final : public ibv_mw, public Object {
 public:
  static constexpr Kind kKind = Kind::window;

  /// In a Section.
  Mw(Pd& owner, const roce::MemoryWindow& window, ibv_mw_type type);
  [[nodiscard]] static Mw* from(ibv_mw* verbs) { return static_cast<Mw*>(verbs); }

 private:
  void release() override;

  const roce::MemoryKey key_;  ///< of its first generation
  PdUser user_;
};

// Verbs.
[[nodiscard]] ibv_mw* alloc_mw(ibv_pd* verbs, ibv_mw_type type);
[[nodiscard]] int bind_mw(ibv_qp* qp, ibv_mw* verbs, ibv_mw_bind* bind);
[[nodiscard]] int dealloc_mw(ibv_mw* verbs);

/// What a request binds. False: no such region.
[[nodiscard]] bool convert(const ibv_mw_bind_info& from, roce::MwBindInfo& to);

}  // namespace rockhopper::verbs
