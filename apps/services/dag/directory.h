// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <boost/intrusive/list.hpp>

#include "apps/services/dag/entry.h"

namespace rockhopper::dag {

/// A client's own subset of its servers' maps (DG-5, DG-16): no more than so many entries; the one
/// that was used longest ago makes room for another. Memory is allocated once. Belongs to one
/// thread.
class Directory {
 public:
  explicit Directory(std::uint32_t entries);
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;
  ~Directory();

  /// As many entries of that server and hash as fit into `out`, the last ones used first. Returns
  /// how many.
  [[nodiscard]] std::size_t candidates(std::uint16_t server, std::uint64_t hash,
                                       std::span<Entry> out) const;
  /// It is the last one used now; one with the same server and incarnation is replaced. True:
  /// another had to go.
  bool insert(std::uint16_t server, const Entry& entry);
  /// It has led to the record that was wanted.
  void touch(std::uint16_t server, const Entry& entry);
  /// Returns false if it is not there.
  bool erase(std::uint16_t server, const Entry& entry);
  void erase_all(std::uint16_t server);

  [[nodiscard]] std::size_t size() const { return size_; }
  [[nodiscard]] std::size_t capacity() const { return nodes_.size(); }

 private:
  struct Node {
    boost::intrusive::list_member_hook<> bucket_hook;
    boost::intrusive::list_member_hook<> used_hook;  ///< in the order of use, or free
    std::uint16_t server = 0;
    Entry entry;
  };
  template <auto Hook>
  using List = boost::intrusive::list<
      Node, boost::intrusive::member_hook<Node, boost::intrusive::list_member_hook<>, Hook>,
      boost::intrusive::constant_time_size<false>>;
  using Bucket = List<&Node::bucket_hook>;

  [[nodiscard]] std::size_t bucket_of(std::uint16_t server, std::uint64_t hash) const;
  [[nodiscard]] Node* find(std::uint16_t server, const Entry& entry);
  void use(Node& node);
  void drop(Node& node);

  std::vector<Node> nodes_;
  std::vector<Bucket> buckets_;
  List<&Node::used_hook> used_;  ///< the last one used at the front
  List<&Node::used_hook> free_;
  std::size_t size_ = 0;
};

}  // namespace rockhopper::dag
