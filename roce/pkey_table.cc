// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/pkey_table.h"

#include <algorithm>

namespace rockhopper::roce {

Expected<PkeyTable> PkeyTable::create(std::span<const std::uint16_t> pkeys) {
  if (pkeys.size() > kSize) {
    return fail(ErrorCode::invalid_argument, "the P_Key table has {} entries, not {}", kSize,
                pkeys.size());
  }
  PkeyTable table;
  std::copy(pkeys.begin(), pkeys.end(), table.entries_.begin());
  return table;
}

Expected<std::uint16_t> PkeyTable::at(std::uint16_t index) const {
  if (index >= kSize) {
    return fail(ErrorCode::invalid_argument, "the P_Key table has indexes 0 to {}, not {}",
                kSize - 1, index);
  }
  return entries_[index];
}

Expected<std::uint16_t> PkeyTable::valid_at(std::uint16_t index) const {
  auto pkey = at(index);
  if (pkey && !wire::is_valid_pkey(*pkey)) {
    return fail(ErrorCode::invalid_argument,
                "entry {} of the P_Key table, {:#06x}, names no partition", index, *pkey);
  }
  return pkey;
}

Expected<void> PkeyTable::set(std::uint16_t index, std::uint16_t pkey) {
  ROCKHOPPER_TRY(at(index));
  entries_[index] = pkey;
  return {};
}

std::optional<std::uint16_t> PkeyTable::find(std::uint16_t pkey) const {
  std::optional<std::uint16_t> found;
  for (std::uint16_t index = 0; index < kSize; ++index) {
    if (!wire::pkeys_match(entries_[index], pkey)) continue;
    if ((entries_[index] & wire::kPkeyFullMember) != 0) return index;
    if (!found) found = index;
  }
  return found;
}

}  // namespace rockhopper::roce
