// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <string>

#include "stack/error.h"

namespace rockhopper::stack {

enum class MemifRole { server, client };

/// One end of a memif link: shared-memory packet rings between two processes of a user.
struct MemifConfig {
  MemifRole role = MemifRole::server;
  std::string device = "net_memif0";
  std::string socket{};  ///< path; empty: "memif.sock" in runtime_directory(). At most 107 bytes.
  std::uint32_t id = 0;  ///< of the link; equal at both ends, unique for a socket
  std::uint16_t buffer_size = 0;     ///< 0: Port chooses; one frame must fit one
  std::uint8_t ring_size_log2 = 10;  ///< 1 to 14
};

/// Returns the path of its socket, which follows from the environment where `config` names none.
[[nodiscard]] Expected<std::string> memif_socket(const MemifConfig& config);

/// Finds out why the driver would refuse the socket, as it does not say why itself: there is no
/// such folder, no permission, something else of that name, or another server. A client's socket
/// and folder need not be there yet. Asks the file system, and connects to nobody.
[[nodiscard]] Expected<void> check_memif_socket(const MemifConfig& config);

/// The devargs for PortConfig::devargs. The socket is a file (memif's default is an abstract one,
/// which every user of the machine may open).
[[nodiscard]] Expected<std::string> memif_devargs(const MemifConfig& config);

}  // namespace rockhopper::stack
