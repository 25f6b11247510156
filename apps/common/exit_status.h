// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

namespace rockhopper::apps {

/// What a program's exit status says, the same for all programs.
enum ExitStatus : int {
  kExitOk = 0,      ///< all work asked for was done and verified
  kExitFailed = 1,  ///< some of it was not
  kExitUsage = 2,   ///< bad arguments; nothing was tried
};

}  // namespace rockhopper::apps
