// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string_view>

#include "roce/memory.h"

namespace rockhopper::ami {

/// Names a peer within a context; chosen by the application, as a rank is.
using EndpointId = std::uint16_t;

/// What an instruction does.
enum class Operation : std::uint8_t {
  put,         ///< RDMA WRITE
  put_notify,  ///< the same, and after the data a value of 64 bits at another address (AM-14)
  get,         ///< RDMA READ
  fetch_add,   ///< on 64 bits of the peer's; what was there comes back
  message,     ///< runs a handler of the peer's
};

/// When an instruction is complete (AM-26).
enum class Level : std::uint8_t {
  local,    ///< its buffer may be used again
  remote,   ///< the peer has it; a get or fetch_add: its result is here
  handled,  ///< messages: the peer's handler has returned
};

/// How the adapter tells of complete transfers (AM-32).
enum class CompletionMode : std::uint8_t {
  mask,     ///< a bit for each, in any order (US 8,751,595)
  counter,  ///< how many, in the order of injection (US 8,732,229)
};

/// What became of an instruction.
enum class Status : std::uint8_t {
  ok,
  unreachable,      ///< the peer does not answer, or there is none by that name
  refused,          ///< by the peer: key, range or right
  unknown_handler,  ///< the peer has none of that number
  outcome_unknown,  ///< the connection was lost: executed, or not
  flushed,          ///< not executed: one before it to the same peer has failed
  canceled,         ///< the context was closed
  invalid,          ///< local memory or length
};
[[nodiscard]] std::string_view to_string(Status status);

/// A slot of an injection FIFO. What a completion descriptor has to say is in `value`: the bit of
/// its slot in a word of the mask.
struct alignas(64) Descriptor {
  enum class Type : std::uint8_t { transfer, completion };
  enum Flags : std::uint8_t {
    kCallback = 1u << 0,   ///< with the mask, the next slot has its completion descriptor
    kImmediate = 1u << 1,  ///< the payload is with the slot too, behind the header
  };

  Type type = Type::transfer;
  Operation operation = Operation::put;
  Level level = Level::remote;
  std::uint8_t flags = 0;
  EndpointId endpoint = 0;
  std::uint16_t handler = 0;
  std::uint16_t header_length = 0;  ///< of a message, in front of the payload with the slot
  std::uint32_t length = 0;         ///< of the payload
  std::uint64_t local_addr = 0;
  std::uint64_t remote_addr = 0;
  roce::MemoryKey lkey{};
  roce::MemoryKey rkey{};
  std::uint64_t notify_addr = 0;  ///< with the same rkey
  std::uint64_t value = 0;        ///< to be written there, or to be added
};
static_assert(sizeof(Descriptor) == 64);

}  // namespace rockhopper::ami
