// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// What the programs include besides what stack/precompiled.h names. nlohmann/json is not here: its
// literals have each file that sees it compile a parser, which takes half a second.
#include <chrono>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <numeric>
#include <set>
#include <thread>

#include "stack/precompiled.h"
