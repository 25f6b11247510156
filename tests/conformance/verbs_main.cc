// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors

/// An RDMA device of Linux as a device of tests/conformance: commands on standard input, packets
/// wherever its cable leads.
#include <cstdio>
#include <string>
#include <vector>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>

#include "tests/conformance/device_server.h"
#include "tests/conformance/verbs_device.h"

int main(int argc, char** argv) {
  using namespace rockhopper::conformance;
  CLI::App app("An RDMA device as a device of tests/conformance");
  std::string name;
  std::vector<std::string> addresses;
  app.add_option("--device", name, "RDMA device, as ibv_devices lists it")->required();
  app.add_option("--address", addresses, "an address of it that scripts use; may be repeated")
      ->required();
  CLI11_PARSE(app, argc, argv);
  try {
    VerbsDevice device(name, addresses);
    DeviceServer server(device);
    serve(server, nullptr);
  } catch (const Failure& failure) {
    std::fprintf(stderr, "conformance-verbs: %s\n", failure.what());
    return 1;
  }
  return 0;
}
