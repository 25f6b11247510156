// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "apps/rh_ami/node.h"

namespace rockhopper::apps::messages {

/// The server's application: handles messages, answers pings, and sees to what is in its memory.
class Target final : public Work {
 public:
  /// `node` has a context and must outlive it. Sets the handlers.
  explicit Target(Node& node);

  /// Makes the memory ready. With the application's thread elsewhere, as finish().
  void begin(const RunSpec& spec);
  bool turn() override;
  /// Messages of the run that have been handled. Any thread.
  [[nodiscard]] std::uint64_t handled() const { return handled_.load(std::memory_order_acquire); }
  /// After `instructions` of the run: fails if something was wrong with them.
  [[nodiscard]] Expected<void> finish(std::uint64_t instructions);

 private:
  void on_message(const ami::Message& message);
  void on_ping(const ami::Message& message);
  void check(const ami::Message& message);
  [[nodiscard]] bool pong();
  [[nodiscard]] std::byte* word(std::uint64_t number) {
    return node_.memory().data() + layout_.word(number);
  }

  Node& node_;
  Layout layout_;
  RunSpec spec_;
  std::atomic<std::uint64_t> handled_{0};
  bool owes_pong_ = false;
  std::string fault_;
};

}  // namespace rockhopper::apps::messages
