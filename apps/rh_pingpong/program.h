// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

namespace rockhopper::apps::pingpong {

/// The whole program rh-pingpong, with main()'s arguments; returns its exit status.
int program(int argc, char** argv);

}  // namespace rockhopper::apps::pingpong
