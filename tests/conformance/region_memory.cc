// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/conformance/region_memory.h"

#include <cstdlib>
#include <cstring>

namespace rockhopper::conformance {
namespace {

constexpr std::size_t kAlignment = 4096;

}  // namespace

void RegionMemory::FreeAligned::operator()(std::byte* memory) const { std::free(memory); }

RegionMemory::RegionMemory(const RegionSpec& spec) : name(spec.name), length(spec.content.size()) {
  const std::size_t room = (length + kAlignment - 1) / kAlignment * kAlignment;
  bytes.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, room)));
  if (!bytes) throw Failure("out of memory");
  std::memcpy(bytes.get(), spec.content.data(), length);
}

std::vector<std::uint8_t> RegionMemory::content() const {
  const auto* first = reinterpret_cast<const std::uint8_t*>(bytes.get());
  return {first, first + length};
}

}  // namespace rockhopper::conformance
