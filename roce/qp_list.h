// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <boost/intrusive/list.hpp>

namespace rockhopper::roce {

/// Base of what can stand in one of the engine's scheduling lists; leaves its list when destroyed.
using QpListHook =
    boost::intrusive::list_base_hook<boost::intrusive::link_mode<boost::intrusive::auto_unlink>>;

}  // namespace rockhopper::roce
