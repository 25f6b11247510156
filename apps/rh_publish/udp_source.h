// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "apps/common/file_descriptor.h"
#include "apps/rh_publish/source.h"

namespace rockhopper::apps::publish {

/// Each datagram that comes to a UDP socket. Longer ones than the store takes are dropped and
/// counted, as whoever sends them is not the user.
class UdpSource final : public Source {
 public:
  /// `where` is PORT, ADDRESS:PORT or [IPV6]:PORT. A multicast address is joined, on the interface
  /// that the system's routes name or on that of @INTERFACE behind it, and shared with others of
  /// this machine that listen to it. Port 0 lets the system choose.
  [[nodiscard]] static Expected<std::unique_ptr<UdpSource>> open(const std::string& where,
                                                                 std::size_t payload_max);

  [[nodiscard]] Expected<Next> next(std::uint64_t now_ns,
                                    std::span<const std::byte>& payload) override;
  void visit_counters(const CounterVisit& visit) const override;

  [[nodiscard]] std::uint16_t port() const { return port_; }
  /// Datagrams that were too long for the store.
  [[nodiscard]] std::uint64_t too_long() const { return too_long_; }

 private:
  UdpSource(FileDescriptor socket, std::uint16_t port, std::size_t payload_max);

  FileDescriptor socket_;
  std::uint16_t port_;
  std::size_t payload_max_;
  std::vector<std::byte> buffer_;
  std::uint64_t too_long_ = 0;
  std::uint64_t overflows_ = 0;  ///< datagrams that the socket had no room for
};

}  // namespace rockhopper::apps::publish
