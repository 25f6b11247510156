// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

#include "apps/common/background.h"
#include "apps/common/fields.h"
#include "apps/common/tcp.h"
#include "stack/error.h"

namespace rockhopper::apps {

/// A message: an object with one member.
struct Message {
  std::string type;
  nlohmann::json body;
};

/// Sends and receives messages, one JSON object a line.
class ControlChannel {
 public:
  static constexpr std::uint32_t kTimeoutMs = 30'000;

  /// `background` goes on while this waits; not owned.
  ControlChannel(TcpConnection connection, Background& background)
      : connection_(std::move(connection)), background_(background) {}

  [[nodiscard]] Expected<void> send(const char* type, const nlohmann::json& body);
  /// The next message, which must be of that type. A peer's "error" becomes this end's, with
  /// ErrorCode::invalid_state; so for all functions.
  [[nodiscard]] Expected<nlohmann::json> receive(const char* type,
                                                 std::uint32_t timeout_ms = kTimeoutMs);
  /// The same, as a struct with a field list.
  template <typename T>
  [[nodiscard]] Expected<T> receive(const char* type, std::uint32_t timeout_ms = kTimeoutMs) {
    ROCKHOPPER_TRY(auto body, receive(type, timeout_ms));
    return fields_from_json<T>(body);
  }
  /// The next message of any type but "error"; waits without limit.
  [[nodiscard]] Expected<Message> receive_any();
  /// A message that has come already, if any.
  [[nodiscard]] Expected<std::optional<Message>> poll();
  /// Fails when the peer has failed or gone. For an end that expects no message now.
  [[nodiscard]] Expected<void> check();
  /// Tells the peer, if it still listens.
  void send_error(const Error& error);

 private:
  TcpConnection connection_;
  Background& background_;
};

}  // namespace rockhopper::apps
