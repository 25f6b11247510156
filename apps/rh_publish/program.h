// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

namespace rockhopper::apps::publish {

/// The whole program rh-publish, with main()'s arguments; returns its exit status.
int program(int argc, char** argv);

}  // namespace rockhopper::apps::publish
