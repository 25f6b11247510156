// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/net/mac_table.h"

#include <algorithm>
#include <bit>

#include "stack/random.h"

namespace rockhopper::stack::net {
namespace {

std::uint64_t key_of(const rte_ether_addr& address) {
  std::uint64_t key = 0;
  for (const std::uint8_t byte : address.addr_bytes) {
    key = key << 8 | byte;
  }
  return key;
}

}  // namespace

std::size_t MacTable::Hash::operator()(std::uint64_t key) const {
  return Random(seed ^ key).next();
}

MacTable::MacTable(std::size_t capacity, std::uint64_t ageing_ns, std::uint64_t seed)
    : ageing_ns_(ageing_ns),
      entries_(std::max<std::size_t>(capacity, 1)),
      buckets_(std::bit_ceil(2 * entries_.size())),
      addresses_(Set::bucket_traits(buckets_.data(), buckets_.size()), Hash{seed}) {
  for (Entry& entry : entries_) {
    free_.push_back(entry);
  }
}

MacTable::~MacTable() {
  addresses_.clear();
  by_age_.clear();
  free_.clear();
}

MacTable::Learned MacTable::learn(const rte_ether_addr& address, PortNumber port,
                                  std::uint64_t now_ns) {
  const std::uint64_t key = key_of(address);
  if (const auto found = addresses_.find(key); found != addresses_.end()) {
    Entry& entry = *found;
    entry.heard_ns = now_ns;
    by_age_.splice(by_age_.end(), by_age_, List::s_iterator_to(entry));
    if (entry.port == port) return Learned::known;
    entry.port = port;
    return Learned::moved;
  }
  if (free_.empty()) return Learned::full;
  Entry& entry = free_.front();
  free_.pop_front();
  entry.key = key;
  entry.heard_ns = now_ns;
  entry.port = port;
  by_age_.push_back(entry);
  addresses_.insert(entry);
  return Learned::added;
}

std::optional<PortNumber> MacTable::find(const rte_ether_addr& address) const {
  const auto found = addresses_.find(key_of(address));
  if (found == addresses_.end()) return std::nullopt;
  return found->port;
}

std::size_t MacTable::expire(std::uint64_t now_ns) {
  std::size_t count = 0;
  while (!by_age_.empty() && now_ns - by_age_.front().heard_ns >= ageing_ns_) {
    forget(by_age_.front());
    ++count;
  }
  return count;
}

std::size_t MacTable::forget_port(PortNumber port) {
  std::size_t count = 0;
  for (auto at = by_age_.begin(); at != by_age_.end();) {
    Entry& entry = *at++;
    if (entry.port != port) continue;
    forget(entry);
    ++count;
  }
  return count;
}

void MacTable::forget(Entry& entry) {
  addresses_.erase(addresses_.iterator_to(entry));
  by_age_.erase(List::s_iterator_to(entry));
  free_.push_back(entry);
}

}  // namespace rockhopper::stack::net
