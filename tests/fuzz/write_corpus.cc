// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// fuzz-corpus FOLDER: writes an input a captured packet for every target, FOLDER/<target>/<number>,
// to start libFuzzer from, and the inputs that are kept in tests/data/fuzz/<target>.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/fuzz/fuzz_target.h"

int main(int argc, char** argv) {
  namespace fuzz = rockhopper::fuzz;
  namespace test = rockhopper::test;
  if (argc != 2) {
    std::fprintf(stderr, "usage: fuzz-corpus FOLDER\n");
    return 2;
  }
  for (const fuzz::FuzzTarget* target : fuzz::fuzz_targets()) {
    const auto folder = std::filesystem::path(argv[1]) / target->name;
    std::filesystem::create_directories(folder);
    std::size_t number = 0;
    for (const auto& pcap : test::pcap_files(test::captures_directory())) {
      for (const test::RocePacket& packet : test::read_roce_packets(pcap)) {
        const test::Bytes input = target->make_input(packet);
        std::ofstream file(folder / std::to_string(number++), std::ios::binary);
        file.write(reinterpret_cast<const char*>(input.data()),
                   static_cast<std::streamsize>(input.size()));
        if (!file.good()) {
          std::fprintf(stderr, "fuzz-corpus: cannot write to %s\n", folder.c_str());
          return 1;
        }
      }
    }
    const auto kept = std::filesystem::path(ROCKHOPPER_TEST_DATA) / "fuzz" / target->name;
    if (std::filesystem::exists(kept)) {
      for (const auto& entry : std::filesystem::directory_iterator(kept)) {
        std::filesystem::copy_file(entry.path(), folder / entry.path().filename(),
                                   std::filesystem::copy_options::overwrite_existing);
        ++number;
      }
    }
    std::printf("%s: %zu inputs\n", target->name, number);
  }
  return 0;
}
