// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

#include <nlohmann/json.hpp>

/// The out-of-band exchange of the interoperability peers: a TCP connection that carries one JSON
/// object a line, each way.
///
/// First lines (the client's first; the server answers):
///   protocol "rockhopper-rc-peer", version 1
///   qpn, psn     of the queue pair
///   gid          text of the address, IPv4 as ::ffff:a.b.c.d
///   path_mtu     bytes; the client's is its greatest, the server's answer is what both use
///   max_dest_rd_atomic   READs and atomics that this end can hold as responder
///   invalidate   whether this end can make keys for SEND with Invalidate
///   region       {addr, rkey, length}: what the peer's operations may touch
///   options      the client only: see to_json(RunOptions) in rc_run.h
/// Then {"connected":true} each way once the queue pair can send, and the lines of the flow that
/// rc_script.h (or rc_negative.h) describes. {"abort":"reason"} may come at any time instead.
namespace rockhopper::interop {

using Json = nlohmann::json;

/// The run cannot go on: what() says why.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// A TCP connection of lines. Not thread safe.
class Exchange {
 public:
  /// Listens on `port` (0: any free one, printed as {"listening":port} on standard output) at all
  /// addresses and takes one connection.
  [[nodiscard]] static Exchange accept(std::uint16_t port);
  /// Connects to a listener, trying again while nobody listens, up to `timeout_s`.
  [[nodiscard]] static Exchange connect(const std::string& host, std::uint16_t port, int timeout_s);

  Exchange(Exchange&& other) noexcept;
  Exchange& operator=(Exchange&&) = delete;
  ~Exchange();

  [[nodiscard]] int descriptor() const { return socket_; }

  void send(const Json& line);
  /// The next line if it has arrived; throws Failure when the peer aborted or closed.
  [[nodiscard]] std::optional<Json> poll();
  /// Tells the peer why this end gives up; never throws.
  void abort(const std::string& reason) noexcept;

 private:
  explicit Exchange(int socket) : socket_(socket) {}

  int socket_;
  std::string buffer_;
};

}  // namespace rockhopper::interop
