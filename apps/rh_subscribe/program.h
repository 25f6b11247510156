// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

namespace rockhopper::apps::subscribe {

/// The whole program rh-subscribe, with main()'s arguments; returns its exit status.
int program(int argc, char** argv);

}  // namespace rockhopper::apps::subscribe
