// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "stack/error.h"
#include "stack/memif_session.h"

namespace rockhopper::stack {

/// Stands between the memif driver of one device and the socket at which its peers connect.
///
/// DPDK's driver trusts every peer. A peer that has gone before its greeting leaves a closed
/// descriptor with the EAL's interrupt thread, which then ends the process (22.11 to 25.11), and
/// one that sends half a handshake, other messages or wrong sizes leaves descriptors behind, bars
/// the link for others, or makes the driver read where nothing is. No order of calls prevents that
/// from outside: the kernel may report a peer's end at any instant. So no peer speaks to the
/// driver. The guard has the socket that peers know, and a thread of its own that makes the
/// handshake with them; the driver hears only of handshakes that are complete and good, from the
/// guard, on a socket that no one else can find, and whose other end lives until the driver has
/// closed its own. Packets take the same way as without: the peers' shared memory.
///
/// What a peer writes into that memory after the handshake is not checked: the driver follows it. A
/// link is for processes of one user.
class MemifGuard {
 public:
  /// Returns null if the devargs are not those of a memif device. `queues`: how many the device
  /// will have.
  [[nodiscard]] static Expected<std::unique_ptr<MemifGuard>> create(const std::string& devargs,
                                                                    std::uint16_t queues);
  MemifGuard(const MemifGuard&) = delete;
  MemifGuard& operator=(const MemifGuard&) = delete;
  /// When the device is gone.
  ~MemifGuard();

  /// What the driver gets in place of those that create() got.
  [[nodiscard]] const std::string& devargs() const { return devargs_; }

  // At a server:
  /// Lets peers in. When the driver has the device.
  [[nodiscard]] Expected<void> open();
  /// Lets no peer in any more, and waits until the driver has the whole handshake of one that is on
  /// the way. To be called before the device stops for good.
  void close();

  // At a client:
  /// Connects to the server. False if there is none. Before each start of the device.
  [[nodiscard]] bool dial();
  /// Joins the two, or forgets the server if the device did not start.
  void started(bool good);
  /// The server has not refused it or gone since.
  [[nodiscard]] bool is_joining() const;

  void visit_counters(void (*visit)(void* context, const char* name, std::uint64_t value),
                      void* context) const;
  /// Calls `visit` with the name of each counter and what it counts, in one line. Any thread.
  static void describe_counters(void (*visit)(void* context, const char* name, const char* text),
                                void* context);

 private:
  class Thread;
  struct Address;

  MemifGuard();
  [[nodiscard]] Expected<void> listen();

  std::shared_ptr<Thread> thread_;
  std::unique_ptr<Address> address_;
  std::uint32_t id_ = 0;
  std::uint16_t queues_ = 1;
  bool is_server_ = false;
  std::string driver_path_;  ///< of the socket between driver and guard, while it has a name
  std::string devargs_;
  std::shared_ptr<memif::Served> served_;             ///< of a server
  std::shared_ptr<memif::SessionCounters> counters_;  ///< of a client
  std::shared_ptr<std::atomic<bool>> joined_;         ///< false: its last session has ended
  Descriptor dialled_;
  Descriptor meeting_point_;
};

}  // namespace rockhopper::stack
