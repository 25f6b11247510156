// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// What the programs include besides what stack/precompiled.h names.
#include <chrono>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <numeric>
#include <set>
#include <thread>

#include <nlohmann/json.hpp>

#include "stack/precompiled.h"
