// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cerrno>
#include <cstdint>

#include <boost/intrusive/list.hpp>
#include <infiniband/verbs.h>

#include "apps/verbs/node/node.h"
#include "apps/verbs/node/resources.h"

namespace rockhopper::verbs {

class Context;

/// Kinds of objects, in the order in which those that are left are ended with their context: each
/// after all that use it.
enum class Kind : std::uint8_t {
  queue_pair,
  window,
  region,
  device_memory,
  address_handle,
  shared_receive_queue,
  completion_queue,
  channel,
  xrc_domain,
  thread_domain,
  protection_domain,
};

/// What stands behind each pointer that a program is given: who made it, and whether it is one.
/// Made and ended in a Section, by one of the verbs; `id` is what programs see as its handle.
class Object : public boost::intrusive::list_base_hook<
                   boost::intrusive::link_mode<boost::intrusive::auto_unlink>> {
 public:
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
  virtual ~Object() { magic_ = 0; }

  [[nodiscard]] bool is(Kind kind) const { return magic_ == magic_of(kind); }
  [[nodiscard]] Kind kind() const { return kind_; }
  [[nodiscard]] std::uint32_t id() const { return id_; }
  [[nodiscard]] Context& owner() const { return context_; }
  [[nodiscard]] Node& node() const { return node_; }

  /// Its context is closed while the object is still there: ends what the engine has of it. The
  /// program may still hold the pointer, so that the object remains, as none.
  void abandon() {
    listing_.leave();
    release();
    magic_ = 0;
  }

 protected:
  /// Enters it into the context's list.
  Object(Context& context, Kind kind);
  /// Lists it, or what has become of it, for whoever looks at the segment. `record` need not say
  /// whose it is.
  void show(ResourceRecord record);

 private:
  /// Ends what the engine has of it. Also of objects that others still use.
  virtual void release() {}
  [[nodiscard]] static constexpr std::uint32_t magic_of(Kind kind) {
    return 0x52686f00u + static_cast<std::uint32_t>(kind) + 1;
  }

  Context& context_;
  Node& node_;
  const Kind kind_;
  const std::uint32_t id_;
  std::uint32_t magic_;
  Listing listing_;
};

/// The object behind a pointer that a program has given; null if there is none: the pointer is
/// null, or leads to something else, or the handle in it is another one.
template <typename T, typename Verbs>
[[nodiscard]] T* object_of(Verbs* verbs) {
  if (verbs == nullptr) return nullptr;
  T* object = T::from(verbs);
  if (!object->is(T::kKind)) return nullptr;
  if constexpr (requires { verbs->handle; }) {
    if (verbs->handle != object->id()) return nullptr;
  }
  return object;
}

/// Ends an object that other objects may use: EBUSY while one does, EINVAL if it is none. In a
/// child of fork() nothing is done. Not in a Section.
template <typename T, typename Verbs>
[[nodiscard]] int end_unused(Verbs* verbs) {
  T* object = object_of<T>(verbs);
  if (object == nullptr) return EINVAL;
  const Section section(object->node());
  if (!section) return 0;
  if (object->is_used()) return EBUSY;
  object->abandon();
  delete object;
  return 0;
}

}  // namespace rockhopper::verbs
