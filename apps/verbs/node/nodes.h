// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include "apps/verbs/node/node.h"
#include "stack/error.h"

namespace rockhopper::verbs {

/// The process's node, which the first call opens: one more user of it. Any thread. A child of
/// fork() has none at first, whatever its parent had.
[[nodiscard]] Expected<Node*> acquire_node();

/// One user less; the last one ends it. Of a node that a parent process has opened, does nothing.
/// Not in a Section.
void release_node(Node& node);

}  // namespace rockhopper::verbs
