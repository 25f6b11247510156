// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "roce/types.h"

namespace rockhopper::dag {

/// An entry of a metadata hash map as a client has it: what leads from a hash code to a record at a
/// server (DG-4). It does not have the key: several may match, and the record decides (DG-6 to 8).
struct Entry {
  std::uint64_t hash = 0;         ///< as many bits as the server's map has (DG-6)
  std::uint64_t incarnation = 0;  ///< the version of the key's record (DG-15)
  // The remote pointer.
  std::uint64_t address = 0;
  std::uint32_t length = 0;  ///< of the whole record, bytes
  roce::MemoryKey rkey{};    ///< the client's own: no other can use it
  friend bool operator==(const Entry&, const Entry&) = default;
};

}  // namespace rockhopper::dag
