// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_publish/program.h"

int main(int argc, char** argv) { return rockhopper::apps::publish::program(argc, argv); }
