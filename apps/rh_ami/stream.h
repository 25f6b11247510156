// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "apps/rh_ami/node.h"
#include "apps/rh_ami/run.h"
#include "stack/random.h"

namespace rockhopper::apps::messages {

/// Instructions of one kind, a window of them on their way. What complete is known by callbacks:
/// instructions to one peer complete in order.
class Stream final : public Run {
 public:
  /// References must outlive it.
  Stream(Node& node, const Options& options, const RunSpec& spec);
  bool turn() override;

 private:
  static void on_end(void* self, std::uint64_t number, ami::Status status) {
    static_cast<Stream*>(self)->end(number, status);
  }
  void end(std::uint64_t number, ami::Status status);
  void turn_phase();
  [[nodiscard]] bool inject_window();
  [[nodiscard]] bool draw_callback();
  [[nodiscard]] ami::Injected inject(std::uint64_t number, const ami::Completion& completion);
  [[nodiscard]] ami::Injected send(std::uint64_t number, const ami::Completion& completion);
  void fill(std::uint64_t number);
  void spoil(std::uint64_t number);
  /// The data of an instruction are where they should be; nothing: nobody can tell.
  [[nodiscard]] std::optional<bool> is_there(std::uint64_t number) const;

  Node& node_;
  const Options& options_;
  const RunSpec spec_;
  const Layout layout_;
  stack::Random random_;
  std::uint64_t limit_;          ///< the last instruction before this number has a callback
  std::uint64_t completed_ = 0;  ///< all before this number are
  std::uint32_t without_callback_ = 0;
  std::optional<bool> drawn_;  ///< for the next instruction
  bool measures_ = false;
  std::uint64_t start_ns_ = 0;
  std::uint64_t callbacks_before_ = 0;
};

}  // namespace rockhopper::apps::messages
