// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include "roce/wire/identification.h"
#include "stack/identification.h"

namespace rockhopper::roce {

/// For UDP sockets that carry RoCEv2.
inline constexpr stack::IdentificationRules kIdentificationRules{
    .factor = &wire::identification_factor,
    .change = &wire::identification_change,
    .find = &wire::find_identification};

}  // namespace rockhopper::roce
