// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "apps/verbs/node/resource_record.h"
#include "stack/descriptor.h"

namespace rockhopper::verbs {

/// The list of what a process has made of the device, for whoever looks at the segment. It is for
/// people: where there is no memory for it, or nobody may write, it lacks some. Nothing is mapped,
/// so whatever others do with the file cannot hurt this process. In a Section, but for let_go().
class Resources {
 public:
  static constexpr std::uint32_t kNone = UINT32_MAX;
  /// So many are listed at most.
  static constexpr std::uint32_t kMost = 1u << 16;

  /// Makes the file.
  explicit Resources(const std::string& path);

  /// Enters a record. Returns its place, or kNone if it is not listed.
  [[nodiscard]] std::uint32_t add(ResourceRecord record);
  void change(std::uint32_t place, ResourceRecord record);
  void remove(std::uint32_t place);
  /// A number for a context that no other one of this process has had.
  [[nodiscard]] std::uint32_t next_context() { return ++last_context_; }
  /// In a child of fork(). Neither locks nor allocates.
  void let_go() noexcept { file_.reset(); }

 private:
  [[nodiscard]] bool write(std::uint32_t place, ResourceRecord& record) const;

  stack::Descriptor file_;
  std::vector<std::uint32_t> free_;  ///< places below end_
  std::uint32_t end_ = 0;
  std::uint32_t last_context_ = 0;
};

/// One record in a list, from enter() to leave(). In a Section.
class Listing {
 public:
  Listing() = default;
  Listing(const Listing&) = delete;
  Listing& operator=(const Listing&) = delete;
  /// Whoever destroys it has called leave(), or is in a child of fork().
  ~Listing() = default;

  /// Enters the record, or changes it to what it is now.
  void show(Resources& resources, const ResourceRecord& record);
  void leave();

 private:
  Resources* resources_ = nullptr;
  std::uint32_t place_ = Resources::kNone;
  ResourceRecord shown_{};
};

}  // namespace rockhopper::verbs
