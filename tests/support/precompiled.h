// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// What the tests include besides what stack/precompiled.h names.
#include <chrono>
#include <filesystem>
#include <random>
#include <set>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stack/precompiled.h"
