// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/tcp.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <memory>
#include <utility>

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "apps/common/signals.h"
#include "apps/common/steady_clock.h"

namespace rockhopper::apps {
namespace {

/// Clients that may come at once.
constexpr int kBacklog = 128;

std::uint64_t deadline_after(std::uint32_t timeout_ms) {
  return timeout_ms == TcpConnection::kNoTimeout ? UINT64_MAX
                                                 : steady_now_ns() + timeout_ms * kNsPerMs;
}

/// Waits for `events` of `fd`, or without one (fd < 0) for the deadline.
Expected<void> wait_for(int fd, short events, std::uint64_t deadline_ns, Background& background) {
  for (;;) {
    if (stop_requested()) return tl::make_unexpected(interrupted());
    const bool busy = background.turn();
    pollfd item{fd, events, 0};
    const int ready = ::poll(&item, 1, busy ? 0 : background.wait_ms());
    if (ready > 0) return {};
    if (ready < 0 && errno != EINTR) {
      return fail(ErrorCode::io, "waiting for a socket failed: {}", std::strerror(errno));
    }
    if (steady_now_ns() >= deadline_ns) return fail(ErrorCode::timeout, "timed out");
  }
}

bool would_block(int error) { return error == EAGAIN || error == EWOULDBLOCK; }

struct AddressInfoDeleter {
  void operator()(addrinfo* info) const { freeaddrinfo(info); }
};
using AddressInfo = std::unique_ptr<addrinfo, AddressInfoDeleter>;

Expected<AddressInfo> look_up(const std::string& host, std::uint16_t port) {
  in6_addr ipv6{};
  if (::inet_pton(AF_INET6, host.c_str(), &ipv6) == 1 && IN6_IS_ADDR_LINKLOCAL(&ipv6)) {
    return fail(ErrorCode::invalid_argument,
                "host {} is local to a link: write {}%INTERFACE, as {}%eth0", host, host, host);
  }
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (error != 0) {
    return fail(ErrorCode::not_found, "host {} is not known: {}", host, gai_strerror(error));
  }
  return AddressInfo(list);
}

/// One attempt at one address; the error is an errno.
tl::expected<FileDescriptor, int> connect_once(const addrinfo& address, std::uint64_t deadline_ns,
                                               Background& background) {
  FileDescriptor socket(::socket(address.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return tl::make_unexpected(errno);
  if (::connect(socket.get(), address.ai_addr, address.ai_addrlen) == 0) return socket;
  if (errno != EINPROGRESS) return tl::make_unexpected(errno);
  if (!wait_for(socket.get(), POLLOUT, deadline_ns, background)) {
    return tl::make_unexpected(ETIMEDOUT);
  }
  int error = 0;
  socklen_t length = sizeof(error);
  if (getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
  if (error != 0) return tl::make_unexpected(error);
  return socket;
}

void send_at_once(int fd) {
  const int on = 1;
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
}

}  // namespace

Expected<void> check_host(const std::string& host) {
  ROCKHOPPER_TRY(look_up(host, 0));
  return {};
}

Expected<TcpConnection> TcpConnection::connect(const std::string& host, std::uint16_t port,
                                               std::uint32_t timeout_ms, Background& background) {
  ROCKHOPPER_TRY(auto addresses, look_up(host, port));
  const std::uint64_t deadline_ns = deadline_after(timeout_ms);
  constexpr std::uint64_t kRetryNs = 50 * kNsPerMs;
  const std::uint64_t say_ns = steady_now_ns() + kSayNs;
  bool said = false;
  int error = 0;
  for (;;) {
    for (const addrinfo* item = addresses.get(); item != nullptr; item = item->ai_next) {
      auto socket = connect_once(*item, deadline_ns, background);
      if (socket) {
        send_at_once(socket->get());
        return TcpConnection(std::move(*socket));
      }
      if (stop_requested()) return tl::make_unexpected(interrupted());
      error = socket.error();
    }
    const std::uint64_t now_ns = steady_now_ns();
    if (now_ns >= deadline_ns) break;
    if (now_ns >= say_ns && !std::exchange(said, true)) {
      fmt::print(stderr, "waiting for a server at {} port {}\n", host, port);
    }
    const auto paused = wait_for(-1, 0, std::min(now_ns + kRetryNs, deadline_ns), background);
    if (!paused && paused.error().code != ErrorCode::timeout) {
      return tl::make_unexpected(paused.error());
    }
  }
  return fail(ErrorCode::io, "no server answers at {} port {}: {}; start it first", host, port,
              std::strerror(error));
}

Expected<void> TcpConnection::wait(short events, std::uint64_t deadline_ns,
                                   Background& background) {
  return wait_for(socket_.get(), events, deadline_ns, background);
}

Expected<void> TcpConnection::send(std::string_view data, std::uint32_t timeout_ms,
                                   Background& background) {
  const std::uint64_t deadline_ns = deadline_after(timeout_ms);
  while (!data.empty()) {
    const ssize_t sent = ::send(socket_.get(), data.data(), data.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      data.remove_prefix(static_cast<std::size_t>(sent));
    } else if (would_block(errno)) {
      ROCKHOPPER_TRY(wait(POLLOUT, deadline_ns, background));
    } else if (errno != EINTR) {
      return fail(ErrorCode::io, "the peer's connection failed: {}", std::strerror(errno));
    }
  }
  return {};
}

Expected<void> TcpConnection::read_available() {
  std::array<char, 4096> buffer;
  while (!closed_ && pending_.size() <= kLineMax) {
    const ssize_t got = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got > 0) {
      pending_.append(buffer.data(), static_cast<std::size_t>(got));
    } else if (got == 0) {
      closed_ = true;
    } else if (would_block(errno)) {
      return {};
    } else if (errno != EINTR) {
      closed_ = true;
      return fail(ErrorCode::io, "the peer's connection failed: {}", std::strerror(errno));
    }
  }
  return {};
}

Expected<void> TcpConnection::receive(std::span<char> out, std::uint32_t timeout_ms,
                                      Background& background) {
  const std::uint64_t deadline_ns = deadline_after(timeout_ms);
  for (;;) {
    ROCKHOPPER_TRY(read_available());
    if (pending_.size() >= out.size()) break;
    if (closed_) return fail(ErrorCode::io, "the peer closed its connection");
    ROCKHOPPER_TRY(wait(POLLIN, deadline_ns, background));
  }
  std::copy_n(pending_.begin(), out.size(), out.begin());
  pending_.erase(0, out.size());
  return {};
}

std::optional<std::string> TcpConnection::take_line() {
  const std::size_t end = pending_.find('\n');
  if (end == std::string::npos) return std::nullopt;
  std::string line = pending_.substr(0, end);
  pending_.erase(0, end + 1);
  return line;
}

Expected<std::optional<std::string>> TcpConnection::poll_line() {
  if (auto line = take_line()) return line;
  ROCKHOPPER_TRY(read_available());
  if (auto line = take_line()) return line;
  if (pending_.size() > kLineMax) return fail(ErrorCode::io, "the peer sent an endless line");
  if (closed_) return fail(ErrorCode::io, "the peer closed its connection");
  return std::nullopt;
}

Expected<std::string> TcpConnection::receive_line(std::uint32_t timeout_ms,
                                                  Background& background) {
  const std::uint64_t deadline_ns = deadline_after(timeout_ms);
  for (;;) {
    ROCKHOPPER_TRY(auto line, poll_line());
    if (line) return std::move(*line);
    ROCKHOPPER_TRY(wait(POLLIN, deadline_ns, background));
  }
}

bool TcpConnection::peer_closed() {
  (void)read_available();
  return closed_ && pending_.empty();
}

Expected<TcpListener> TcpListener::open(std::uint16_t port) {
  // What is 0 in it is the address of all interfaces, of IPv6 as of IPv4.
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  FileDescriptor socket(::socket(AF_INET6, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!socket.valid()) {
    // A kernel without IPv6 has IPv4 alone.
    address.sin6_family = AF_INET;
    socket = FileDescriptor(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  }
  if (!socket.valid()) return fail(ErrorCode::io, "no TCP socket: {}", std::strerror(errno));
  const int on = 1;
  const int off = 0;
  (void)setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  (void)setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
  address.sin6_port = htons(port);
  static_assert(offsetof(sockaddr_in6, sin6_port) == offsetof(sockaddr_in, sin_port));
  socklen_t length = address.sin6_family == AF_INET ? sizeof(sockaddr_in) : sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (::bind(socket.get(), any, length) != 0 || ::listen(socket.get(), kBacklog) != 0 ||
      ::getsockname(socket.get(), any, &length) != 0) {
    return fail(ErrorCode::io, "cannot listen on TCP port {}: {}; choose another with --port", port,
                std::strerror(errno));
  }
  return TcpListener(std::move(socket), ntohs(address.sin6_port));
}

Expected<std::optional<TcpConnection>> TcpListener::poll_accept() {
  for (;;) {
    FileDescriptor client(::accept4(socket_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (client.valid()) {
      send_at_once(client.get());
      return TcpConnection(std::move(client));
    }
    if (would_block(errno)) return std::nullopt;
    if (errno != EINTR && errno != ECONNABORTED) {
      return fail(ErrorCode::io, "accepting a client failed: {}", std::strerror(errno));
    }
  }
}

Expected<TcpConnection> accept_at(std::uint16_t port, Background& background) {
  ROCKHOPPER_TRY(auto listener, TcpListener::open(port));
  const std::string link = background.link_name();
  fmt::print(stderr, "listening on TCP port {}{}{}\n", listener.port(), link.empty() ? "" : ", ",
             link);
  return listener.accept(background);
}

Expected<TcpConnection> TcpListener::accept(Background& background) {
  for (;;) {
    ROCKHOPPER_TRY(auto client, poll_accept());
    if (client) return std::move(*client);
    ROCKHOPPER_TRY(wait_for(socket_.get(), POLLIN, UINT64_MAX, background));
  }
}

}  // namespace rockhopper::apps
