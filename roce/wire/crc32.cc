// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "roce/wire/crc32.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "roce/wire/crc32_factors.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace rockhopper::wire {
namespace {

/// What a byte adds to the CRC with so many bytes behind it.
constexpr std::size_t kSlices = 16;
constexpr auto kSlice = [] {
  std::array<std::array<std::uint32_t, 256>, kSlices> slices{kCrc32OfByte};
  for (std::size_t behind = 1; behind < kSlices; ++behind) {
    for (std::size_t value = 0; value < 256; ++value) {
      const std::uint32_t before = slices[behind - 1][value];
      slices[behind][value] = before >> 8 ^ kCrc32OfByte[before & 0xff];
    }
  }
  return slices;
}();

/// Bytes of which there are too few for anything else. Copies them if `to` is not null; all of them
/// are read once.
std::uint32_t by_bytes(std::uint32_t crc, std::uint8_t* to, const std::uint8_t* from,
                       std::size_t length) {
  if (length == 0) return crc;
  crc = ~crc;
  if (to != nullptr) {
    std::memcpy(to, from, length);
    from = to;
  }
  for (std::size_t i = 0; i < length; ++i) {
    crc = crc >> 8 ^ kCrc32OfByte[(crc ^ from[i]) & 0xff];
  }
  return ~crc;
}

template <bool kCopies>
std::uint32_t by_slices(std::uint32_t crc, std::uint8_t* to, const std::uint8_t* from,
                        std::size_t length) {
  crc = ~crc;
  for (; length >= kSlices; length -= kSlices) {
    std::array<std::uint64_t, 2> words;
    std::memcpy(words.data(), from, kSlices);
    from += kSlices;
    if constexpr (kCopies) {
      // A compiler may make one copy of two, and read the source for each; others may write to it.
      asm volatile("" : "+r"(words[0]), "+r"(words[1]));
      std::memcpy(to, words.data(), kSlices);
      to += kSlices;
    }
    const std::uint64_t first = words[0] ^ crc;
    std::uint32_t first_sum = 0;
    std::uint32_t second_sum = 0;
#pragma GCC unroll 8
    for (std::size_t i = 0; i < 8; ++i) {
      first_sum ^= kSlice[15 - i][first >> 8 * i & 0xff];
      second_sum ^= kSlice[7 - i][words[1] >> 8 * i & 0xff];
    }
    crc = first_sum ^ second_sum;
  }
  return by_bytes(~crc, kCopies ? to : nullptr, from, length);
}

std::uint32_t portable_add(std::uint32_t crc, const std::uint8_t* bytes, std::size_t length) {
  return by_slices<false>(crc, nullptr, bytes, length);
}

std::uint32_t portable_copy(std::uint32_t crc, std::uint8_t* to, const std::uint8_t* from,
                            std::size_t length) {
  return by_slices<true>(crc, to, from, length);
}

}  // namespace
}  // namespace rockhopper::wire

#if defined(__x86_64__)

// For the processor that DPDK names, GCC would halve each access to 32 bytes.
#if defined(__clang__)
#define ROCKHOPPER_TUNE
#else
#define ROCKHOPPER_TUNE ",tune=generic"
#endif

#define ROCKHOPPER_FOLDING pclmul
#define ROCKHOPPER_FOLDING_TARGET "pclmul,sse4.1"
#define ROCKHOPPER_FOLDING_LANE 128
#define ROCKHOPPER_FOLDING_LANES 8
#define ROCKHOPPER_FOLDING_SPARSE 128
#include "roce/wire/crc32_folding.inc"

#define ROCKHOPPER_FOLDING pclmul_avx2
#define ROCKHOPPER_FOLDING_TARGET "pclmul,avx2" ROCKHOPPER_TUNE
#define ROCKHOPPER_FOLDING_LANE 128
#define ROCKHOPPER_FOLDING_LANES 8
#define ROCKHOPPER_FOLDING_SPARSE 256
#include "roce/wire/crc32_folding.inc"

#define ROCKHOPPER_FOLDING vpclmul_avx2
#define ROCKHOPPER_FOLDING_TARGET "pclmul,avx2,vpclmulqdq" ROCKHOPPER_TUNE
#define ROCKHOPPER_FOLDING_LANE 256
#define ROCKHOPPER_FOLDING_LANES 4
#define ROCKHOPPER_FOLDING_SPARSE 0
#include "roce/wire/crc32_folding.inc"

#define ROCKHOPPER_FOLDING vpclmul_avx512
#define ROCKHOPPER_FOLDING_TARGET "pclmul,avx2,avx512f,vpclmulqdq"
#define ROCKHOPPER_FOLDING_LANE 512
#define ROCKHOPPER_FOLDING_LANES 4
#define ROCKHOPPER_FOLDING_SPARSE 0
#include "roce/wire/crc32_folding.inc"

#undef ROCKHOPPER_TUNE
#endif

namespace rockhopper::wire {
namespace {

#if defined(__x86_64__)
// The compiler's library asks the processor, and the operating system by XGETBV for the state of
// wide vectors.
bool has_pclmul() {
  __builtin_cpu_init();
  return __builtin_cpu_supports("pclmul") != 0 && __builtin_cpu_supports("sse4.1") != 0;
}
bool has_pclmul_avx2() { return has_pclmul() && __builtin_cpu_supports("avx2") != 0; }
bool has_vpclmul_avx2() { return has_pclmul_avx2() && __builtin_cpu_supports("vpclmulqdq") != 0; }
bool has_vpclmul_avx512() { return has_vpclmul_avx2() && __builtin_cpu_supports("avx512f") != 0; }
#endif

std::string names_of_usable() {
  std::string names;
  for (const Crc32Kernel& kernel : crc32_kernels()) {
    if (!kernel.usable) continue;
    if (!names.empty()) names += ", ";
    names += kernel.name;
  }
  return names;
}

struct OfProcess {
  const Crc32Kernel* kernel;
  std::string error;
};

const OfProcess& of_process() {
  static const OfProcess chosen = [] {
    const char* name = std::getenv(kCrc32Variable);
    Crc32Choice choice = choose_crc32_kernel(name == nullptr ? "" : name);
    if (choice.kernel == nullptr) choice.kernel = choose_crc32_kernel("").kernel;
    return OfProcess{choice.kernel, choice.error};
  }();
  return chosen;
}

}  // namespace

std::span<const Crc32Kernel> crc32_kernels() {
  static const std::array kernels {
    Crc32Kernel{"portable", true, portable_add, portable_copy},
#if defined(__x86_64__)
        Crc32Kernel{"pclmul", has_pclmul(), pclmul::add, pclmul::copy},
        Crc32Kernel{"pclmul-avx2", has_pclmul_avx2(), pclmul_avx2::add, pclmul_avx2::copy},
        Crc32Kernel{"vpclmul-avx2", has_vpclmul_avx2(), vpclmul_avx2::add, vpclmul_avx2::copy},
        Crc32Kernel{"vpclmul-avx512", has_vpclmul_avx512(), vpclmul_avx512::add,
                    vpclmul_avx512::copy},
#endif
  };
  return kernels;
}

Crc32Choice choose_crc32_kernel(std::string_view name) {
  const Crc32Kernel* chosen = nullptr;
  bool known = name.empty();
  for (const Crc32Kernel& kernel : crc32_kernels()) {
    if (!name.empty() && kernel.name != name) continue;
    known = true;
    if (kernel.usable) chosen = &kernel;
  }
  std::string error;
  if (chosen == nullptr) {
    error = kCrc32Variable;
    error += known ? ": this processor cannot do " : " names no kernel by ";
    error.append(name).append("; there are ").append(names_of_usable());
  }
  return {chosen, std::move(error)};
}

const Crc32Kernel& crc32_kernel() { return *of_process().kernel; }

const std::string& crc32_error() { return of_process().error; }

}  // namespace rockhopper::wire
