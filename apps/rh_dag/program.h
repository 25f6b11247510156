// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

namespace rockhopper::apps::dag_node {

/// The whole program rh-dag, with main()'s arguments; returns its exit status.
int program(int argc, char** argv);

}  // namespace rockhopper::apps::dag_node
