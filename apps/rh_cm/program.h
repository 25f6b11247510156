// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

namespace rockhopper::apps::cm {

/// The whole program rh-cm, with main()'s arguments; returns its exit status.
int program(int argc, char** argv);

}  // namespace rockhopper::apps::cm
