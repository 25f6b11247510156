// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_stats/telemetry_client.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

#include <sys/socket.h>
#include <sys/un.h>

namespace rockhopper::apps::stats {
namespace {

constexpr timeval kTimeout{2, 0};
/// Of the greeting, before the program has said what it may send at most.
constexpr std::size_t kGreetingMax = 1024;
/// No more than this whatever the program says.
constexpr std::size_t kAnswerMax = std::size_t{1} << 20;

template <typename T>
T member_or(const Json& object, const char* name, T otherwise) {
  const auto found = object.find(name);
  if (found == object.end()) return otherwise;
  if constexpr (std::is_integral_v<T>) {
    return found->is_number_integer() ? found->get<T>() : otherwise;
  } else {
    return found->is_string() ? found->get<T>() : otherwise;
  }
}

}  // namespace

Expected<TelemetryClient> TelemetryClient::connect(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return fail(ErrorCode::invalid_argument, "{}: the path is too long for a socket", path);
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  FileDescriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket.valid()) return fail(ErrorCode::io, "no socket: {}", std::strerror(errno));
  (void)setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &kTimeout, sizeof(kTimeout));
  (void)setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &kTimeout, sizeof(kTimeout));
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    if (errno == ECONNREFUSED || errno == ENOENT) {
      return fail(ErrorCode::not_found, "{}: left behind by a program that has ended", path);
    }
    return fail(ErrorCode::io, "{}: {}", path, std::strerror(errno));
  }
  TelemetryClient client(std::move(socket));
  client.answer_max_ = kGreetingMax;
  const auto greeting = client.receive();
  if (!greeting) return fail(greeting.error().code, "{}: {}", path, greeting.error().message);
  if (!greeting->is_object()) {
    return fail(ErrorCode::unsupported, "{}: no DPDK telemetry answers there", path);
  }
  client.pid_ = member_or<std::int64_t>(*greeting, "pid", 0);
  client.version_ = member_or<std::string>(*greeting, "version", "");
  client.answer_max_ = std::clamp(member_or<std::size_t>(*greeting, "max_output_len", kAnswerMax),
                                  kGreetingMax, kAnswerMax);
  return client;
}

Expected<Json> TelemetryClient::receive() {
  std::vector<char> buffer(answer_max_);
  ssize_t size = 0;
  do {
    size = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_TRUNC);
  } while (size < 0 && errno == EINTR);
  if (size == 0) return fail(ErrorCode::not_found, "the program has ended");
  if (size < 0) {
    if (errno == EAGAIN) return fail(ErrorCode::timeout, "no answer within {} s", kTimeout.tv_sec);
    return fail(errno == ECONNRESET ? ErrorCode::not_found : ErrorCode::io, "{}",
                std::strerror(errno));
  }
  if (static_cast<std::size_t>(size) > buffer.size()) {
    return fail(ErrorCode::unsupported, "an answer of {} bytes is too long", size);
  }
  Json answer = Json::parse(buffer.data(), buffer.data() + size, nullptr, false);
  if (answer.is_discarded()) return fail(ErrorCode::unsupported, "an answer is not JSON");
  return answer;
}

Expected<Json> TelemetryClient::ask(std::string_view command) {
  const ssize_t sent = ::send(socket_.get(), command.data(), command.size(), MSG_NOSIGNAL);
  if (sent != static_cast<ssize_t>(command.size())) {
    return fail(errno == EPIPE || errno == ECONNRESET ? ErrorCode::not_found : ErrorCode::io,
                "the program has ended: {}", std::strerror(errno));
  }
  ROCKHOPPER_TRY(auto answer, receive());
  // { "/the/command": answer }
  const std::string name(command.substr(0, command.find(',')));
  const auto found = answer.find(name);
  if (!answer.is_object() || found == answer.end()) {
    return fail(ErrorCode::unsupported, "the answer is not one to {}", name);
  }
  return *found;
}

}  // namespace rockhopper::apps::stats
