// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>

#include "roce/cm/active.h"
#include "roce/cm/connections.h"
#include "roce/cm/passive.h"

namespace rockhopper::roce::cm {

/// How connections end: DREQ and DREP, REJ, and the application's release (IBTA vol. 1, 12.9.8).
class Release {
 public:
  /// All must outlive it.
  Release(ManagerParts& parts, Connections& connections, ActiveSide& active, PassiveSide& passive)
      : parts_(parts), connections_(connections), active_(active), passive_(passive) {}

  /// As ConnectionManager::release().
  void release(ManagedConnection& connection);
  void on_dreq(const ReceivedMad& mad, std::uint64_t transaction_id, const wire::cm::Dreq& dreq);
  void on_drep(const ReceivedMad& mad, const wire::cm::Drep& drep);
  void on_rej(const ReceivedMad& mad, const wire::cm::Rej& rej);

 private:
  [[nodiscard]] ManagedConnection* find(const ReceivedMad& mad, const wire::cm::Rej& rej);

  ManagerParts& parts_;
  Connections& connections_;
  ActiveSide& active_;
  PassiveSide& passive_;
};

}  // namespace rockhopper::roce::cm
