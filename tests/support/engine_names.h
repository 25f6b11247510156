// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <string>

#include "roce/async_event.h"

namespace rockhopper::test {

/// What verbs calls the event; see tests/support/verbs_names.h.
[[nodiscard]] std::string event_type_name(roce::AsyncEventType type);

}  // namespace rockhopper::test
