// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <memory>
#include <utility>

#include "roce/engine.h"

/// What is made at an engine and ends with whoever owns it here, on the engine's thread and before
/// the engine. An object's owner goes before that of its protection domain.
namespace rockhopper::roce {

/// Ends what an Owned has.
class Ender {
 public:
  Ender() = default;
  explicit Ender(Engine& engine) : engine_(&engine) {}
  void operator()(AddressHandle* ah) const { engine_->destroy_ah(ah); }
  void operator()(QueuePair* qp) const { engine_->destroy_qp(qp); }
  /// No queue pair uses it any more.
  void operator()(SharedReceiveQueue* srq) const { (void)engine_->destroy_srq(srq); }

 private:
  Engine* engine_ = nullptr;
};

/// An AddressHandle, a QueuePair or a SharedReceiveQueue.
template <typename T>
using Owned = std::unique_ptr<T, Ender>;

/// Takes what the engine has made, or passes on why it has not.
template <typename T>
[[nodiscard]] Expected<Owned<T>> own(Engine& engine, Expected<T*> made) {
  ROCKHOPPER_TRY(T * object, std::move(made));
  return Owned<T>(object, Ender(engine));
}

/// A protection domain.
class OwnedPd {
 public:
  explicit OwnedPd(Engine& engine) : engine_(engine), pd_(engine.allocate_pd()) {}
  OwnedPd(const OwnedPd&) = delete;
  OwnedPd& operator=(const OwnedPd&) = delete;
  ~OwnedPd() { (void)engine_.deallocate_pd(pd_); }

  [[nodiscard]] ProtectionDomain get() const { return pd_; }

 private:
  Engine& engine_;
  ProtectionDomain pd_;
};

/// The registration of a piece of memory, which stays the caller's; or none.
class OwnedRegion {
 public:
  OwnedRegion() = default;
  OwnedRegion(Engine& engine, const MemoryRegion& region) : engine_(&engine), key_(region.key) {}
  OwnedRegion(OwnedRegion&& other) noexcept
      : engine_(other.engine_), key_(std::exchange(other.key_, {})) {}
  OwnedRegion& operator=(OwnedRegion&& other) noexcept {
    std::swap(engine_, other.engine_);
    std::swap(key_, other.key_);
    return *this;
  }
  OwnedRegion(const OwnedRegion&) = delete;
  OwnedRegion& operator=(const OwnedRegion&) = delete;
  ~OwnedRegion() { (void)end(); }

  /// lkey and rkey; MemoryKey{} if there is none.
  [[nodiscard]] MemoryKey key() const { return key_; }
  /// Ends it now. Fails, and it stays, if windows are bound to it.
  [[nodiscard]] Expected<void> end() {
    if (key_ != MemoryKey{}) ROCKHOPPER_TRY(engine_->deregister_memory(key_));
    key_ = {};
    return {};
  }

 private:
  Engine* engine_ = nullptr;
  MemoryKey key_{};
};

/// As own() above.
[[nodiscard]] inline Expected<OwnedRegion> own(Engine& engine, Expected<MemoryRegion> made) {
  ROCKHOPPER_TRY(const MemoryRegion region, std::move(made));
  return OwnedRegion(engine, region);
}

}  // namespace rockhopper::roce
