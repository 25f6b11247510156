// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "apps/services/dag/operation.h"

namespace rockhopper::dag {

/// Asks the server's software, by one request, which is executed once if at all. Lives for one
/// call.
class Operation::Requesting {
 public:
  explicit Requesting(Operation& operation) : operation_(operation), client_(operation.client_) {}

  /// Sends this request, with the operation's key and with `data`, which is copied: up to
  /// kCreateDataMax bytes.
  void begin(const Request& request, std::span<const std::byte> data = {});
  /// Falls back on the server, whose answer refreshes the entry (DG-31).
  void look_up();

  /// The request has got a request word.
  void on_word(std::uint64_t id);
  /// It has been sent, or its answer has come, or both.
  void on_sent();
  void on_timeout();
  void on_canceled();

 private:
  [[nodiscard]] Status status_of_lost() const;
  void send();
  void time_out();
  void cancel();
  void take_answer();
  void take_entry(const Entry& entry);

  Operation& operation_;
  ClientParts& client_;
};

}  // namespace rockhopper::dag
