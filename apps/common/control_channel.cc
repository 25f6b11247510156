// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/common/control_channel.h"

namespace rockhopper::apps {
namespace {

constexpr int kDepthMax = 32;

Expected<Message> parse(const std::string& line) {
  // What is nested deeper is none of ours, and is left out: copying it might take the whole stack.
  const auto is_shallow = [](int depth, nlohmann::json::parse_event_t, nlohmann::json&) {
    return depth <= kDepthMax;
  };
  auto json = nlohmann::json::parse(line, is_shallow, false);
  if (!json.is_object() || json.size() != 1) {
    return fail(ErrorCode::io, "the peer does not speak this program's language");
  }
  Message message{json.begin().key(), json.begin().value()};
  if (message.type != "error") return message;
  return fail(ErrorCode::invalid_state, "the peer reports: {}",
              message.body.is_string() ? message.body.get<std::string>() : message.body.dump());
}

}  // namespace

Expected<void> ControlChannel::send(const char* type, const nlohmann::json& body) {
  const nlohmann::json message{{type, body}};
  return connection_.send(message.dump() + "\n", kTimeoutMs, background_);
}

Expected<nlohmann::json> ControlChannel::receive(const char* type, std::uint32_t timeout_ms) {
  auto message = connection_.receive_line(timeout_ms, background_).and_then(parse);
  if (!message) {
    if (message.error().code != ErrorCode::timeout) return tl::make_unexpected(message.error());
    return fail(ErrorCode::timeout, "the peer did not answer with \"{}\" within {} s", type,
                timeout_ms / 1000);
  }
  if (message->type != type) {
    return fail(ErrorCode::io, "the peer sent \"{}\" where \"{}\" was due", message->type, type);
  }
  return std::move(message->body);
}

Expected<Message> ControlChannel::receive_any() {
  return connection_.receive_line(TcpConnection::kNoTimeout, background_).and_then(parse);
}

Expected<std::optional<Message>> ControlChannel::poll() {
  ROCKHOPPER_TRY(auto line, connection_.poll_line());
  if (!line) return std::nullopt;
  ROCKHOPPER_TRY(auto message, parse(*line));
  return std::optional<Message>(std::move(message));
}

Expected<void> ControlChannel::check() {
  ROCKHOPPER_TRY(auto message, poll());
  if (!message) return {};
  return fail(ErrorCode::io, "the peer sent \"{}\" out of turn", message->type);
}

void ControlChannel::send_error(const Error& error) {
  const nlohmann::json message{{"error", error.message}};
  NoBackground none;
  (void)connection_.send(message.dump() + "\n", 0, none);
}

}  // namespace rockhopper::apps
