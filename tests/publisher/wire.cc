// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/publisher/wire.h"

#include <cstdlib>
#include <cstring>
#include <string>
#include <system_error>

#include <gtest/gtest.h>
#include <pcap/pcap.h>

namespace rockhopper::test {
namespace {

constexpr std::size_t kWindow = sizeof(std::uint64_t);

template <typename Byte>
std::uint64_t window(const Byte* bytes) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes, kWindow);
  return value;
}

struct Close {
  void operator()(pcap_t* capture) const { pcap_close(capture); }
};

}  // namespace

CaptureFile::CaptureFile() {
  std::string name = (std::filesystem::temp_directory_path() / "rockhopper-wire-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) std::abort();
  folder_ = name;
}

CaptureFile::~CaptureFile() {
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void for_each_frame(const std::string& path,
                    const std::function<void(const CapturedFrame&)>& take) {
  char error[PCAP_ERRBUF_SIZE] = "";
  const std::unique_ptr<pcap_t, Close> capture(
      pcap_open_offline_with_tstamp_precision(path.c_str(), PCAP_TSTAMP_PRECISION_NANO, error));
  ASSERT_NE(capture, nullptr) << error;
  pcap_pkthdr* header = nullptr;
  const u_char* bytes = nullptr;
  int result = 0;
  while ((result = pcap_next_ex(capture.get(), &header, &bytes)) == 1) {
    take({.time_ns = static_cast<std::uint64_t>(header->ts.tv_sec) * 1'000'000'000 +
                     static_cast<std::uint64_t>(header->ts.tv_usec),
          .bytes = {bytes, header->caplen}});
  }
  ASSERT_EQ(result, PCAP_ERROR_BREAK) << pcap_geterr(capture.get());
}

void Secrets::add(std::span<const std::byte> bytes) {
  for (std::size_t at = 0; at + kWindow <= bytes.size(); ++at) {
    const std::uint64_t value = window(bytes.data() + at);
    windows_.insert(value);
    filter_->set(value >> (64 - kFilterBits));
  }
}

bool Secrets::are_in(std::span<const std::uint8_t> bytes) const {
  for (std::size_t at = 0; at + kWindow <= bytes.size(); ++at) {
    const std::uint64_t value = window(bytes.data() + at);
    if (filter_->test(value >> (64 - kFilterBits)) && windows_.count(value) != 0) return true;
  }
  return false;
}

}  // namespace rockhopper::test
