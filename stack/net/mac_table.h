// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include <boost/intrusive/list.hpp>
#include <boost/intrusive/unordered_set.hpp>
#include <rte_ether.h>

namespace rockhopper::stack::net {

/// Ports of a switch count from 0.
using PortNumber = std::uint16_t;

/// Which port each station was heard on last: the filtering database of IEEE 802.1Q clause 8.8,
/// with one database for all VLANs. Bounded: when it is full, new stations are not learned (their
/// frames are flooded) until others have aged out, so that a flood of addresses cannot push out
/// the stations that are known. Allocates in the constructor only. Single-threaded.
class MacTable {
 public:
  enum class Learned { known, added, moved, full };

  /// Holds up to `capacity` addresses, each for `ageing_ns` after it was last heard. `seed` keeps
  /// strangers from choosing addresses that collide in the hash table.
  MacTable(std::size_t capacity, std::uint64_t ageing_ns, std::uint64_t seed);
  MacTable(const MacTable&) = delete;
  MacTable& operator=(const MacTable&) = delete;
  ~MacTable();

  /// A station sent something on `port`.
  Learned learn(const rte_ether_addr& address, PortNumber port, std::uint64_t now_ns);
  [[nodiscard]] std::optional<PortNumber> find(const rte_ether_addr& address) const;
  /// Forgets what is too old, and returns how many those were. Times must not go back.
  std::size_t expire(std::uint64_t now_ns);
  /// Forgets the stations of a port and returns how many those were.
  std::size_t forget_port(PortNumber port);
  [[nodiscard]] std::size_t size() const { return addresses_.size(); }
  [[nodiscard]] std::size_t capacity() const { return entries_.size(); }

 private:
  struct Entry : boost::intrusive::list_base_hook<>, boost::intrusive::unordered_set_base_hook<> {
    std::uint64_t key = 0;  ///< the 48 bits of the address
    std::uint64_t heard_ns = 0;
    PortNumber port = 0;
  };
  struct KeyOf {
    using type = std::uint64_t;
    const type& operator()(const Entry& entry) const { return entry.key; }
  };
  struct Hash {
    std::uint64_t seed;
    std::size_t operator()(std::uint64_t key) const;
  };
  using List = boost::intrusive::list<Entry>;
  using Set = boost::intrusive::unordered_set<Entry, boost::intrusive::key_of_value<KeyOf>,
                                              boost::intrusive::hash<Hash>,
                                              boost::intrusive::power_2_buckets<true>>;

  void forget(Entry& entry);

  std::uint64_t ageing_ns_;
  std::vector<Entry> entries_;
  std::vector<Set::bucket_type> buckets_;
  List free_;
  List by_age_;  ///< longest not heard first
  Set addresses_;
};

}  // namespace rockhopper::stack::net
