// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/services/dag/directory.h"

#include <algorithm>
#include <bit>

namespace rockhopper::dag {

Directory::Directory(std::uint32_t entries)
    : nodes_(std::max(entries, 1u)), buckets_(std::bit_ceil(std::size_t{nodes_.size()})) {
  for (Node& node : nodes_) {
    free_.push_back(node);
  }
}

Directory::~Directory() {
  for (Bucket& bucket : buckets_) {
    bucket.clear();
  }
  used_.clear();
  free_.clear();
}

std::size_t Directory::bucket_of(std::uint16_t server, std::uint64_t hash) const {
  // Hashes may have few bits, and those are spread as they are.
  return (hash ^ hash >> 32 ^ std::uint64_t{server} * 0x9e3779b97f4a7c15) & (buckets_.size() - 1);
}

std::size_t Directory::candidates(std::uint16_t server, std::uint64_t hash,
                                  std::span<Entry> out) const {
  std::size_t count = 0;
  for (const Node& node : buckets_[bucket_of(server, hash)]) {
    if (count == out.size()) break;
    if (node.server == server && node.entry.hash == hash) out[count++] = node.entry;
  }
  return count;
}

Directory::Node* Directory::find(std::uint16_t server, const Entry& entry) {
  for (Node& node : buckets_[bucket_of(server, entry.hash)]) {
    if (node.server == server && node.entry.hash == entry.hash &&
        node.entry.incarnation == entry.incarnation) {
      return &node;
    }
  }
  return nullptr;
}

void Directory::use(Node& node) {
  Bucket& bucket = buckets_[bucket_of(node.server, node.entry.hash)];
  bucket.erase(bucket.iterator_to(node));
  bucket.push_front(node);
  used_.erase(used_.iterator_to(node));
  used_.push_front(node);
}

void Directory::drop(Node& node) {
  Bucket& bucket = buckets_[bucket_of(node.server, node.entry.hash)];
  bucket.erase(bucket.iterator_to(node));
  used_.erase(used_.iterator_to(node));
  free_.push_back(node);
  --size_;
}

bool Directory::insert(std::uint16_t server, const Entry& entry) {
  if (Node* known = find(server, entry); known != nullptr) {
    known->entry = entry;
    use(*known);
    return false;
  }
  const bool full = free_.empty();
  if (full) drop(used_.back());
  Node& node = free_.front();
  free_.pop_front();
  node.server = server;
  node.entry = entry;
  buckets_[bucket_of(server, entry.hash)].push_front(node);
  used_.push_front(node);
  ++size_;
  return full;
}

void Directory::touch(std::uint16_t server, const Entry& entry) {
  if (Node* known = find(server, entry); known != nullptr) use(*known);
}

bool Directory::erase(std::uint16_t server, const Entry& entry) {
  Node* known = find(server, entry);
  if (known == nullptr) return false;
  drop(*known);
  return true;
}

void Directory::erase_all(std::uint16_t server) {
  for (Node& node : nodes_) {
    if (node.bucket_hook.is_linked() && node.server == server) drop(node);
  }
}

}  // namespace rockhopper::dag
