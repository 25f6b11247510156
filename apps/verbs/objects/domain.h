// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <infiniband/verbs.h>

#include "apps/verbs/objects/object.h"
#include "roce/types.h"

namespace rockhopper::verbs {

class ThreadDomain;

/// A protection domain, or a parent domain: another name of one, which it keeps.
class Pd final : public ibv_pd, public Object {
 public:
  static constexpr Kind kKind = Kind::protection_domain;

  /// In a Section. A parent domain has a `parent`, and may have a `thread_domain`.
  explicit Pd(Context& owner, Pd* parent = nullptr, ThreadDomain* thread_domain = nullptr);
  [[nodiscard]] static Pd* from(ibv_pd* verbs) { return static_cast<Pd*>(verbs); }

  [[nodiscard]] roce::ProtectionDomain engine_pd() const { return engine_pd_; }
  // In a Section.
  /// Objects that were made with it, this itself excepted, are `change` more.
  void count_users(int change) { users_ += static_cast<std::uint32_t>(change); }
  [[nodiscard]] bool is_used() const { return users_ != 0; }

 private:
  void release() override;

  Pd* const parent_;
  ThreadDomain* const thread_domain_;
  const roce::ProtectionDomain engine_pd_;
  std::uint32_t users_ = 0;
};

/// One count in a protection domain for as long as the object lives that has it.
class PdUser {
 public:
  /// In a Section. Null: none.
  explicit PdUser(Pd* pd) : pd_(pd) {
    if (pd_ != nullptr) pd_->count_users(1);
  }
  PdUser(const PdUser&) = delete;
  PdUser& operator=(const PdUser&) = delete;
  ~PdUser() { release(); }
  void release() {
    if (pd_ != nullptr) pd_->count_users(-1);
    pd_ = nullptr;
  }
  void change(Pd& pd) {
    release();
    pd_ = &pd;
    pd.count_users(1);
  }
  [[nodiscard]] Pd* pd() const { return pd_; }

 private:
  Pd* pd_;
};

/// A thread domain: a promise of the program, which is not needed here.
class ThreadDomain final : public ibv_td, public Object {
 public:
  static constexpr Kind kKind = Kind::thread_domain;

  /// In a Section.
  explicit ThreadDomain(Context& owner);
  [[nodiscard]] static ThreadDomain* from(ibv_td* verbs) {
    return static_cast<ThreadDomain*>(verbs);
  }
  void count_users(int change) { users_ += static_cast<std::uint32_t>(change); }
  [[nodiscard]] bool is_used() const { return users_ != 0; }

 private:
  std::uint32_t users_ = 0;
};

// Verbs.
[[nodiscard]] ibv_pd* alloc_pd(ibv_context* verbs);
[[nodiscard]] int dealloc_pd(ibv_pd* verbs);
[[nodiscard]] ibv_td* alloc_td(ibv_context* verbs, ibv_td_init_attr* init);
[[nodiscard]] int dealloc_td(ibv_td* verbs);
/// The allocators of a parent domain are not called: no object here has memory of the program's.
[[nodiscard]] ibv_pd* alloc_parent_domain(ibv_context* verbs, ibv_parent_domain_init_attr* init);

}  // namespace rockhopper::verbs
