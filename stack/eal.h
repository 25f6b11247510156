// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "stack/error.h"

namespace rockhopper::stack {

/// A command line taken apart at the first `--`, without the program's name.
struct Arguments {
  std::vector<std::string> eal{};          ///< what stood before `--`
  std::vector<std::string> application{};  ///< what stood after it, or everything without `--`
  bool embedded = true;  ///< no `--` was given: embedded_arguments() serve the EAL
};
[[nodiscard]] Arguments split_arguments(int argc, const char* const* argv);

/// What an EAL needs that its user has not configured.
struct EmbeddedConfig {
  unsigned memory_mb = 256;
  unsigned lcores = 1;  ///< the main lcore included; as far as the CPU affinity allows
};

/// EAL arguments for a process with no huge pages, no PCI devices and no root rights, with a file
/// prefix of its own, logging warnings only. Each lcore floats over all CPUs of the affinity, so
/// that two such processes do not poll on one CPU while another is free.
[[nodiscard]] std::vector<std::string> embedded_arguments(const EmbeddedConfig& config = {});

/// The life of DPDK's environment: at most one in a process, and none after it has ended.
/// Ports, pools and workers must be gone before it. Main thread only.
class Eal {
 public:
  /// Starts with `arguments.eal`, or with embedded_arguments(embedded) where `--` was not given;
  /// then DPDK's own files go to runtime_directory() where it would find no place, and the
  /// directory that DPDK made is removed at the end. DPDK's messages go to standard error; those of
  /// a failed start are summed up in the error. Help and version options end the process, as in any
  /// DPDK program.
  [[nodiscard]] static Expected<std::unique_ptr<Eal>> start(const Arguments& arguments,
                                                            const EmbeddedConfig& embedded = {});
  Eal(const Eal&) = delete;
  Eal& operator=(const Eal&) = delete;
  ~Eal();

  /// Whether there is one in this process.
  [[nodiscard]] static bool running();

  /// Holds the telemetry socket `dpdk_telemetry.v2`.
  [[nodiscard]] std::string runtime_directory() const;

 private:
  explicit Eal(bool embedded) : embedded_(embedded) {}
  bool embedded_;
};

}  // namespace rockhopper::stack
