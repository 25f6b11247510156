// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>

#include <nlohmann/json_fwd.hpp>

#include "tests/conformance/device.h"

namespace rockhopper::conformance {

/// What the runner (tests/conformance/run.py) says to a device, and what it answers: JSON objects,
/// one a line. `{"do": "state"}` is answered by `{"state": "rts"}`, or by `{"error": TEXT}`.
class DeviceServer {
 public:
  using Command = std::function<nlohmann::json(const nlohmann::json&)>;

  explicit DeviceServer(Device& device);

  /// A command that only this kind of device has.
  void add(const std::string& name, Command command);

  /// The answer to one line, without its end.
  [[nodiscard]] std::string answer(const std::string& line);

 private:
  Device& device_;
  std::map<std::string, Command> commands_;
};

/// Lines of standard input. `next` waits up to `timeout_ms` (-1: for ever); nothing when no whole
/// line has come by then.
class LineReader {
 public:
  [[nodiscard]] std::optional<std::string> next(int timeout_ms);
  [[nodiscard]] bool ended() const { return ended_ && buffer_.empty(); }

 private:
  std::string buffer_;
  bool ended_ = false;
};

/// Answers line by line until standard input ends; `turn` is called all the time meanwhile, if
/// there is one, and else the process sleeps.
void serve(DeviceServer& server, const std::function<void()>& turn);

[[nodiscard]] std::string to_hex(const std::vector<std::uint8_t>& bytes);
/// Throws Failure unless `text` is pairs of hexadecimal digits.
[[nodiscard]] std::vector<std::uint8_t> from_hex(const std::string& text);

}  // namespace rockhopper::conformance
