// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <span>

#include "roce/address_vector.h"
#include "roce/cm/connection.h"
#include "stack/timing_wheel.h"

namespace rockhopper::roce::cm {

class ConnectionManager;

struct ResolveParameters {
  AddressVector path;
  std::uint16_t pkey_index = 0;  ///< the partition: of the port's P_Key table
  std::uint64_t service_id = 0;
  std::span<const std::uint8_t> private_data;  ///< up to 216 bytes
};

/// A service ID resolution (SIDR, IBTA vol. 1, 12.11): the question which queue pair takes
/// datagrams for a service, ours or a peer's. Owned by the ConnectionManager until release();
/// belongs to its thread.
class Lookup {
 public:
  [[nodiscard]] const AddressVector& path() const { return path_; }
  /// Returns the index of the P_Key that the datagrams will have.
  [[nodiscard]] std::uint16_t pkey_index() const { return path_.pkey_index; }
  [[nodiscard]] std::uint64_t service_id() const { return service_id_; }
  [[nodiscard]] bool is_ours() const { return ours_; }  ///< made by resolve()

  /// The application's; the manager does not look at it.
  std::uint64_t context = 0;

 private:
  friend class ConnectionManager;
  /// `on_time` is called with the lookup when its timer expires.
  Lookup(ConnectionManager& manager, std::uint32_t request_id, bool ours,
         stack::Timer::Callback on_time)
      : manager_(manager), request_id_(request_id), ours_(ours), timer_(on_time, this) {}

  ConnectionManager& manager_;
  const std::uint32_t request_id_;
  const bool ours_;
  bool done_ = false;   ///< answered; a peer's is kept for a while to answer repetitions
  bool waits_ = false;  ///< counts against its listener's backlog
  MadPath path_;
  std::uint64_t service_id_ = 0;
  std::uint64_t transaction_id_ = 0;
  Mad message_{};  ///< the request, or our answer
  std::uint8_t retries_left_ = 0;
  stack::Timer timer_;
};

}  // namespace rockhopper::roce::cm
