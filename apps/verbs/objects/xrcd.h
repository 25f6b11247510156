// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <memory>
#include <vector>

#include <infiniband/verbs.h>

#include "apps/verbs/objects/object.h"
#include "roce/types.h"

namespace rockhopper::verbs {

class Qp;
class SharedXrcDomain;

/// An opened XRC domain. Those that were opened by the same file are the same domain, within the
/// process.
class Xrcd final : public ibv_xrcd, public Object {
 public:
  static constexpr Kind kKind = Kind::xrc_domain;

  /// In a Section.
  Xrcd(Context& owner, std::shared_ptr<SharedXrcDomain> domain);
  [[nodiscard]] static Xrcd* from(ibv_xrcd* verbs) { return static_cast<Xrcd*>(verbs); }

  [[nodiscard]] roce::XrcDomain engine_xrcd() const;
  // In a Section.
  /// Objects that were made with this handle are `change` more.
  void count_users(int change) { users_ += static_cast<std::uint32_t>(change); }
  [[nodiscard]] bool is_used() const { return users_ != 0; }
  /// The targets of the domain, whoever has made them.
  [[nodiscard]] std::vector<Qp*>& targets();

 private:
  void release() override;

  std::shared_ptr<SharedXrcDomain> domain_;
  std::uint32_t users_ = 0;
};

// Verbs.
[[nodiscard]] ibv_xrcd* open_xrcd(ibv_context* verbs, ibv_xrcd_init_attr* init);
[[nodiscard]] int close_xrcd(ibv_xrcd* verbs);

}  // namespace rockhopper::verbs
