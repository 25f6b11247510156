// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// What the programs include besides what stack/precompiled.h names. CLI11 is not here: what it
// defines in each file that sees it takes three seconds to compile.
#include <chrono>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <numeric>
#include <set>
#include <thread>

#include <nlohmann/json.hpp>

#include "stack/precompiled.h"
