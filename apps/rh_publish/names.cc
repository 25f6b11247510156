// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_publish/names.h"

#include "apps/services/publisher/store_info.h"

namespace rockhopper::apps::publish {

Expected<void> check_name(std::string_view name) {
  constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
  const bool valid = !name.empty() && name.size() <= publisher::StoreInfo::kNameMax &&
                     name.front() != '.' && name.front() != '-' &&
                     name.find_first_not_of(kLetters) == std::string_view::npos;
  if (valid) return {};
  return fail(ErrorCode::invalid_argument,
              "{:?} is no name: 1 to {} of A-Z, a-z, 0-9, '_', '.' and '-' are, without '.' or "
              "'-' in front",
              name, publisher::StoreInfo::kNameMax);
}

}  // namespace rockhopper::apps::publish
