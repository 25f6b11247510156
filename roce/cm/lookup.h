// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <span>

#include "roce/address_vector.h"
#include "roce/cm/connection.h"

namespace rockhopper::roce::cm {

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
  Lookup(const Lookup&) = delete;
  Lookup& operator=(const Lookup&) = delete;

  [[nodiscard]] const AddressVector& path() const { return path_; }
  /// Returns the index of the P_Key that the datagrams will have.
  [[nodiscard]] std::uint16_t pkey_index() const { return path_.pkey_index; }
  [[nodiscard]] std::uint64_t service_id() const { return service_id_; }
  [[nodiscard]] bool is_ours() const { return ours_; }  ///< made by resolve()

  /// The application's; the manager does not look at it.
  std::uint64_t context = 0;

 protected:
  explicit Lookup(bool ours) : ours_(ours) {}
  ~Lookup() = default;

  const bool ours_;
  MadPath path_;
  std::uint64_t service_id_ = 0;
};

}  // namespace rockhopper::roce::cm
