// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_subscribe/program.h"

int main(int argc, char** argv) { return rockhopper::apps::subscribe::program(argc, argv); }
