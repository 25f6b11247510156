// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// What the examples share, so that each can be about its subject: the end of a program that fails,
// and two nodes that can reach each other. examples/write.cc shows what is behind it.
#pragma once

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "apps/node/node.h"
#include "dc/target_address.h"
#include "stack/cable.h"
#include "stack/eal.h"

namespace example {

/// The value, or the end of the program with the one line that the error has for people.
template <typename T>
T must(rockhopper::Expected<T> result) {
  if (!result) {
    std::fprintf(stderr, "%s\n", result.error().message.c_str());
    std::exit(1);
  }
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

/// Says what has been verified, or ends the program because it is not so.
inline void verify(bool is_so, const char* what) {
  std::printf("%s: %s\n", is_so ? "verified" : "NOT SO", what);
  if (!is_so) std::exit(1);
}

/// Connects a queue pair of `own` with another node's: all access rights, everything else as it is
/// by default. Both ends do it, in any order.
inline void connect(rockhopper::roce::QueuePair& qp, const rockhopper::Node& own,
                    const rockhopper::Node& peer, const rockhopper::roce::QueuePair& peer_qp) {
  rockhopper::roce::QpAttributes attributes;
  attributes.dest_qp_num = peer_qp.number();
  attributes.qp_access_flags = rockhopper::roce::kAccessAll;
  attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 16;
  attributes.ah_attr = {.source = own.address(), .destination = peer.address()};
  must(qp.bring_up(attributes, rockhopper::roce::QpState::rts));
}

/// How `peer` reaches a target of dynamic connections of `node`.
inline rockhopper::dc::TargetAddress address_of(const rockhopper::dc::Dct& target,
                                                const rockhopper::Node& node,
                                                const rockhopper::Node& peer) {
  return {.av = {.source = peer.address(), .destination = node.address()},
          .number = target.number(),
          .access_key = target.access_key()};
}

/// Memory that begins at a cache line, filled with zeros.
class Memory {
 public:
  explicit Memory(std::size_t bytes) : lines_(bytes / sizeof(Line) + 1), bytes_(bytes) {}
  [[nodiscard]] std::span<std::byte> span() { return {lines_[0].bytes, bytes_}; }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  std::vector<Line> lines_;
  std::size_t bytes_;
};

/// DPDK's environment, and two nodes of this process with a cable between them.
struct TwoNodes {
  std::unique_ptr<rockhopper::stack::Eal> eal =
      must(rockhopper::stack::Eal::start({}, {.memory_mb = 256}));
  std::unique_ptr<rockhopper::stack::Cable> cable = must(rockhopper::stack::Cable::create());
  std::unique_ptr<rockhopper::Node> near = open(0, "10.0.0.1/24");
  std::unique_ptr<rockhopper::Node> far = open(1, "10.0.0.2/24");

  /// Moves packets. A program calls it in its loop.
  void turn() {
    near->turn();
    far->turn();
  }

 private:
  std::unique_ptr<rockhopper::Node> open(unsigned end, const char* address) {
    return must(
        rockhopper::Node::open({.port = rockhopper::LinkPort{{&cable->end(end)}},
                                .addresses = {must(rockhopper::InterfaceAddress::parse(address))},
                                .dc = rockhopper::dc::EndpointConfig{}}));
  }
};

}  // namespace example
