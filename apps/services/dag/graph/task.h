// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stack/error.h"

namespace rockhopper::dag {

/// What a task's code is known by. Code itself is never shipped (DG-42).
struct FunctionId {
  std::uint32_t number = 0;
  std::uint32_t version = 0;
  // NOLINTNEXTLINE(modernize-use-nullptr)
  friend auto operator<=>(const FunctionId&, const FunctionId&) = default;
};

enum class TaskKind : std::uint8_t {
  function = 1,  ///< of a FunctionRegistry
  command = 2,   ///< a program of the worker's machine
};

/// One task of a node's sequence (DG-2).
struct Task {
  TaskKind kind = TaskKind::function;
  FunctionId function{};  ///< of a command: {}
  /// What the function makes of it; of a command its words, each with a zero byte behind it.
  std::span<const std::byte> arguments;
};

/// The output of a node that its successor reads.
struct TaskInput {
  std::string_view key;  ///< of the node
  std::span<const std::byte> bytes;
};

/// What a task is called with. Everything in it is the caller's, and valid during the call.
struct TaskCall {
  std::string_view key;                  ///< of the task's node
  std::span<const std::byte> arguments;  ///< as Task::arguments
  std::span<const std::byte> previous;   ///< what the node's task before it has left, or nothing
  std::span<const TaskInput> inputs;  ///< of the predecessors by data, in the order of their keys
};

/// A command's arguments: the program and what it gets.
[[nodiscard]] std::vector<std::byte> emit_command(std::span<const std::string_view> words);
/// Fails unless `arguments` is a program's name and any number of words; views of `arguments`.
[[nodiscard]] Expected<std::vector<std::string_view>> parse_command(
    std::span<const std::byte> arguments);

/// A key for people: in quotation marks, all but printable ASCII as `\xNN`, and not longer than a
/// line can be. So it can stand in a message of any kind whatever bytes it has.
[[nodiscard]] std::string key_text(std::string_view key);

}  // namespace rockhopper::dag
