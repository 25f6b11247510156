// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <functional>
#include <memory>

#include <CLI/CLI.hpp>

#include "tests/interop/rc_endpoint.h"

namespace rockhopper::interop {

/// The command line that the peers share. `add_options` adds those of the endpoint's kind,
/// `make_endpoint` is called once they are parsed. Prints the summary as one JSON line on standard
/// output. Returns the exit status: 0 all verified, 1 failed, 2 bad arguments.
[[nodiscard]] int rc_main(int argc, char** argv, const std::string& description,
                          const std::function<void(CLI::App&)>& add_options,
                          const std::function<std::unique_ptr<Endpoint>()>& make_endpoint);

}  // namespace rockhopper::interop
