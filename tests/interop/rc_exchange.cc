// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/interop/rc_exchange.h"

#include <cerrno>
#include <chrono>
#include <cstring>
#include <iostream>
#include <memory>
#include <thread>
#include <utility>

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace rockhopper::interop {
namespace {

constexpr std::size_t kMaxLine = 1u << 20;
using Clock = std::chrono::steady_clock;

[[noreturn]] void fail(const std::string& what) {
  throw Failure(what + ": " + std::strerror(errno));
}

void set_no_delay(int socket) {
  const int on = 1;
  (void)setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

/// A connected socket, or -1 with errno.
int connect_once(const addrinfo* addresses) {
  int last_error = ECONNREFUSED;
  for (const addrinfo* a = addresses; a != nullptr; a = a->ai_next) {
    const int descriptor = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
    if (descriptor >= 0 && ::connect(descriptor, a->ai_addr, a->ai_addrlen) == 0) return descriptor;
    last_error = errno;
    if (descriptor >= 0) close(descriptor);
  }
  errno = last_error;
  return -1;
}

}  // namespace

Exchange Exchange::accept(std::uint16_t port) {
  const int listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0) fail("cannot make a TCP socket");
  const int on = 1;
  const int off = 0;
  (void)setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  (void)setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(port);
  socklen_t length = sizeof address;
  if (bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      listen(listener, 1) != 0 ||
      getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    fail("cannot listen on TCP port " + std::to_string(port));
  }
  std::cout << Json{{"listening", ntohs(address.sin6_port)}}.dump() << std::endl;
  const int connection = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  if (connection < 0) fail("cannot accept");
  close(listener);
  set_no_delay(connection);
  return Exchange(connection);
}

Exchange Exchange::connect(const std::string& host, std::uint16_t port, int timeout_s) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) throw Failure(host + ": " + gai_strerror(error));
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> addresses(found, freeaddrinfo);
  const auto deadline = Clock::now() + std::chrono::seconds(timeout_s);
  int connection = connect_once(addresses.get());
  while (connection < 0 && errno == ECONNREFUSED && Clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    connection = connect_once(addresses.get());
  }
  if (connection < 0) fail("cannot connect to " + host + " port " + std::to_string(port));
  set_no_delay(connection);
  return Exchange(connection);
}

Exchange::Exchange(Exchange&& other) noexcept
    : socket_(std::exchange(other.socket_, -1)), buffer_(std::move(other.buffer_)) {}

Exchange::~Exchange() {
  if (socket_ >= 0) close(socket_);
}

void Exchange::send(const Json& line) {
  const std::string text = line.dump() + "\n";
  for (std::size_t sent = 0; sent < text.size();) {
    const ssize_t n = ::send(socket_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (n < 0 && errno != EINTR) fail("lost the peer");
    sent += n > 0 ? static_cast<std::size_t>(n) : 0;
  }
}

std::optional<Json> Exchange::poll() {
  std::size_t end = buffer_.find('\n');
  while (end == std::string::npos) {
    char chunk[4096];
    const ssize_t n = recv(socket_, chunk, sizeof chunk, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return std::nullopt;
    if (n < 0) fail("lost the peer");
    if (n == 0) throw Failure("the peer closed the connection");
    buffer_.append(chunk, static_cast<std::size_t>(n));
    if (buffer_.size() > kMaxLine) throw Failure("the peer sent a line that is too long");
    end = buffer_.find('\n');
  }
  const Json line = Json::parse(buffer_.substr(0, end), nullptr, false);
  buffer_.erase(0, end + 1);
  if (!line.is_object()) throw Failure("the peer sent a line that is not a JSON object");
  if (line.contains("abort")) throw Failure("the peer gave up: " + line["abort"].dump());
  return line;
}

void Exchange::abort(const std::string& reason) noexcept {
  try {
    send({{"abort", reason}});
  } catch (...) {  // the peer is gone: nobody left to tell
  }
}

}  // namespace rockhopper::interop
