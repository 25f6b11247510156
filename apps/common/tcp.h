// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "apps/common/background.h"
#include "apps/common/file_descriptor.h"
#include "stack/error.h"

namespace rockhopper::apps {

/// Whether the host's name can be resolved: before a program joins a link, so that a misspelt one
/// disturbs nobody.
[[nodiscard]] Expected<void> check_host(const std::string& host);

/// A TCP connection between two programs for what the RDMA connection needs beforehand. Calls wait
/// while `background` goes on, at most `timeout_ms`, and end early when a stop is requested.
class TcpConnection {
 public:
  static constexpr std::uint32_t kNoTimeout = UINT32_MAX;

  /// Tries until `timeout_ms` is over, as the server may still be starting.
  [[nodiscard]] static Expected<TcpConnection> connect(const std::string& host, std::uint16_t port,
                                                       std::uint32_t timeout_ms,
                                                       Background& background);
  explicit TcpConnection(FileDescriptor socket) : socket_(std::move(socket)) {}

  /// Sends all of `data`, in one segment where the socket allows it.
  [[nodiscard]] Expected<void> send(std::string_view data, std::uint32_t timeout_ms,
                                    Background& background);
  /// Fills `out`.
  [[nodiscard]] Expected<void> receive(std::span<char> out, std::uint32_t timeout_ms,
                                       Background& background);
  /// A line without its end. Longer ones than kLineMax are refused.
  [[nodiscard]] Expected<std::string> receive_line(std::uint32_t timeout_ms,
                                                   Background& background);
  /// A line that has arrived already, if any; does not wait.
  [[nodiscard]] Expected<std::optional<std::string>> poll_line();

  /// True once the peer has closed its side and everything it sent has been taken. Does not wait.
  [[nodiscard]] bool peer_closed();

  static constexpr std::size_t kLineMax = 4 << 20;

 private:
  /// Reads what is there into pending_.
  [[nodiscard]] Expected<void> read_available();
  [[nodiscard]] Expected<void> wait(short events, std::uint64_t deadline_ns,
                                    Background& background);
  [[nodiscard]] std::optional<std::string> take_line();

  FileDescriptor socket_;
  std::string pending_;  ///< received, not yet taken
  bool closed_ = false;  ///< the peer's side
};

class TcpListener {
 public:
  /// Listens on all addresses, IPv6 and IPv4. Port 0 lets the system choose.
  [[nodiscard]] static Expected<TcpListener> open(std::uint16_t port);
  [[nodiscard]] std::uint16_t port() const { return port_; }
  /// Waits without limit for one client.
  [[nodiscard]] Expected<TcpConnection> accept(Background& background);
  /// A client that has come already, if any; does not wait.
  [[nodiscard]] Expected<std::optional<TcpConnection>> poll_accept();

 private:
  TcpListener(FileDescriptor socket, std::uint16_t port)
      : socket_(std::move(socket)), port_(port) {}

  FileDescriptor socket_;
  std::uint16_t port_;
};

/// Waits for one client at `port` (0: the system chooses), and says on standard error where, and
/// what its link has to lead to.
[[nodiscard]] Expected<TcpConnection> accept_at(std::uint16_t port, Background& background);

}  // namespace rockhopper::apps
