// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Every kernel of the CRC against a bit-by-bit one.
#include "roce/wire/crc32.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <new>
#include <random>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

#include "tests/support/crc32.h"
#include "tests/support/seed.h"

namespace rockhopper::wire::crc32_test {
namespace {

using Bytes = std::vector<std::uint8_t>;

Bytes random_bytes(std::mt19937_64& random, std::size_t size) {
  Bytes bytes(size);
  std::ranges::generate(bytes, [&random] { return static_cast<std::uint8_t>(random()); });
  return bytes;
}

/// Memory with pages around it that nobody may touch.
class Fenced {
 public:
  explicit Fenced(std::size_t pages) : size_(pages * kPage) {
    void* all = mmap(nullptr, size_ + 2 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED) throw std::bad_alloc();
    begin_ = static_cast<std::uint8_t*>(all) + kPage;
    if (mprotect(begin_, size_, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
  }
  ~Fenced() { munmap(begin_ - kPage, size_ + 2 * kPage); }
  Fenced(const Fenced&) = delete;
  Fenced& operator=(const Fenced&) = delete;

  [[nodiscard]] std::uint8_t* begin() const { return begin_; }
  [[nodiscard]] std::uint8_t* end() const { return begin_ + size_; }

 private:
  static inline const std::size_t kPage = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  std::size_t size_;
  std::uint8_t* begin_;
};

/// Tests run with each kernel that this processor has.
class Crc32 : public testing::TestWithParam<Crc32Kernel> {
 protected:
  void SetUp() override {
    if (!GetParam().usable) {
      GTEST_SKIP() << "this processor has no " << GetParam().name;
    }
  }
  std::mt19937_64 random{test::seed()};
};

INSTANTIATE_TEST_SUITE_P(Kernels, Crc32,
                         testing::ValuesIn(crc32_kernels().begin(), crc32_kernels().end()),
                         [](const auto& instance) {
                           std::string name(instance.param.name);
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

/// The CRCs of the first 0, 1, 2, ... bytes.
std::vector<std::uint32_t> crcs_of_prefixes(const Bytes& bytes) {
  std::vector<std::uint32_t> crcs{0};
  std::uint32_t crc = 0xffffffff;
  for (const std::uint8_t byte : bytes) {
    crc ^= byte;
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0xedb88320 : 0);
    }
    crcs.push_back(~crc);
  }
  return crcs;
}

TEST_P(Crc32, OfEveryLengthAndAlignment) {
  constexpr std::size_t kMost = 700;
  constexpr std::size_t kAlignments = 64;
  constexpr std::uint8_t kUntouched = 0xa5;
  const Bytes bytes = random_bytes(random, kMost);
  const std::vector<std::uint32_t> crcs = crcs_of_prefixes(bytes);
  Bytes from(kMost + kAlignments);
  Bytes to(kMost + 3 * kAlignments);
  for (std::size_t offset = 0; offset < kAlignments; ++offset) {
    std::ranges::copy(bytes, from.begin() + static_cast<std::ptrdiff_t>(offset));
    for (std::size_t length = 0; length <= kMost; ++length) {
      ASSERT_EQ(GetParam().add(0, &from[offset], length), crcs[length])
          << length << " bytes from " << offset;
      const std::size_t at = kAlignments + random() % kAlignments;
      std::ranges::fill(to, kUntouched);
      ASSERT_EQ(GetParam().copy(0, &to[at], &from[offset], length), crcs[length])
          << length << " bytes from " << offset;
      ASSERT_EQ(std::memcmp(&to[at], bytes.data(), length), 0) << length << " bytes to " << at;
      const auto is_untouched = [](std::uint8_t byte) { return byte == kUntouched; };
      const auto begin = to.begin() + static_cast<std::ptrdiff_t>(at);
      ASSERT_TRUE(std::all_of(to.begin(), begin, is_untouched)) << length << " bytes to " << at;
      ASSERT_TRUE(std::all_of(begin + static_cast<std::ptrdiff_t>(length), to.end(), is_untouched))
          << length << " bytes to " << at;
    }
  }
}

/// From some thousand bytes on other means are used, and such inputs are cut into pieces.
TEST_P(Crc32, OfLongInputs) {
  const Bytes bytes = random_bytes(random, 20'000);
  const std::vector<std::uint32_t> crcs = crcs_of_prefixes(bytes);
  Bytes to(bytes.size());
  std::vector<std::size_t> lengths;
  for (std::size_t length = 700; length < 6000; length += 1 + random() % 16) {
    lengths.push_back(length);
  }
  for (const std::size_t length : {1024, 2048, 4096, 5120, 5121, 8192, 9216, 9217, 20'000}) {
    lengths.push_back(length);
  }
  for (const std::size_t length : lengths) {
    ASSERT_EQ(GetParam().add(0, bytes.data(), length), crcs[length]) << length;
    std::ranges::fill(to, std::uint8_t{0});
    ASSERT_EQ(GetParam().copy(0, to.data(), bytes.data(), length), crcs[length]) << length;
    ASSERT_EQ(std::memcmp(to.data(), bytes.data(), length), 0) << length;
  }
}

/// Each byte may make the difference, and each bit of what was before.
TEST_P(Crc32, EveryBitCounts) {
  for (const std::size_t length : {5, 16, 61, 1000, 4096}) {
    Bytes bytes = random_bytes(random, length);
    const auto before = static_cast<std::uint32_t>(random());
    const std::uint32_t crc = GetParam().add(before, bytes.data(), length);
    for (std::uint8_t& byte : bytes) {
      const auto bit = static_cast<std::uint8_t>(1u << random() % 8);
      byte ^= bit;
      ASSERT_NE(GetParam().add(before, bytes.data(), length), crc) << &byte - bytes.data();
      byte ^= bit;
    }
    for (unsigned bit = 0; bit < 32; ++bit) {
      ASSERT_NE(GetParam().add(before ^ 1u << bit, bytes.data(), length), crc) << bit;
    }
  }
}

TEST_P(Crc32, GoesOnBehindOtherBytes) {
  for (int i = 0; i < 400; ++i) {
    const Bytes bytes = random_bytes(random, random() % 9000);
    Bytes to(bytes.size());
    std::uint32_t added = 0;
    std::uint32_t copied = 0;
    const std::size_t most = i % 2 == 0 ? 40 : 5000;
    for (std::size_t at = 0; at < bytes.size();) {
      const std::size_t length = std::min<std::size_t>(random() % most, bytes.size() - at);
      added = GetParam().add(added, &bytes[at], length);
      copied = GetParam().copy(copied, &to[at], &bytes[at], length);
      at += length;
    }
    ASSERT_EQ(added, test::crc32(bytes));
    ASSERT_EQ(copied, added);
    ASSERT_EQ(to, bytes);
  }
}

TEST_P(Crc32, TouchesNothingElse) {
  constexpr std::size_t kMost = 12'000;
  const Fenced from(3);
  const Fenced to(3);
  std::generate(from.begin(), from.end(), [this] { return static_cast<std::uint8_t>(random()); });
  for (std::size_t length = 0; length < kMost; length += length < 700 ? 1 : 1 + random() % 60) {
    const std::uint32_t first = GetParam().add(7, from.begin(), length);
    ASSERT_EQ(GetParam().copy(7, to.end() - length, from.begin(), length), first) << length;
    const std::uint32_t last = GetParam().add(7, from.end() - length, length);
    ASSERT_EQ(GetParam().copy(7, to.begin(), from.end() - length, length), last) << length;
  }
}

#if defined(__x86_64__)

/// Makes the processor trap behind each instruction while it lives, and has every word of `words`
/// changed by then: no two instructions see the same bytes. One at a time.
class Restless {
 public:
  static inline volatile std::sig_atomic_t steps = 0;

  explicit Restless(std::span<volatile std::uint64_t> words) {
    changing = words;
    struct sigaction action = {};
    action.sa_handler = [](int) {
      steps = steps + 1;
      for (volatile std::uint64_t& word : changing) {
        word = word * 0x9e3779b97f4a7c15 + 1;
      }
    };
    EXPECT_EQ(::sigaction(SIGTRAP, &action, &before_), 0);
    __writeeflags(__readeflags() | kTrapFlag);
  }
  ~Restless() {
    __writeeflags(__readeflags() & ~kTrapFlag);
    EXPECT_EQ(::sigaction(SIGTRAP, &before_, nullptr), 0);
  }
  Restless(const Restless&) = delete;
  Restless& operator=(const Restless&) = delete;
  Restless(Restless&&) = delete;
  Restless& operator=(Restless&&) = delete;

 private:
  static constexpr std::uint64_t kTrapFlag = 0x100;

  static inline std::span<volatile std::uint64_t> changing;
  struct sigaction before_ = {};
};

/// An application may write to what is being sent. The packet is a good one all the same.
TEST_P(Crc32, IsThatOfTheCopyWhileTheSourceChanges) {
  std::array<std::uint64_t, 512> words{};
  const auto* from = reinterpret_cast<const std::uint8_t*>(words.data());
  Bytes to(sizeof(words));
  for (const std::size_t length : {7, 24, 100, 270, 1100, 1337, 4090}) {
    const int before = Restless::steps;
    std::uint32_t crc = 0;
    {
      const Restless restless(words);
      crc = GetParam().copy(0, to.data(), from, length);
    }
    EXPECT_EQ(GetParam().add(0, to.data(), length), crc) << length;
    EXPECT_GT(Restless::steps, before + 10) << "The processor does not trap.";
  }
}

#endif

TEST(Crc32Choice, IsTheFastestUnlessOneIsNamed) {
  const auto kernels = crc32_kernels();
  EXPECT_TRUE(kernels.front().usable);
  for (const Crc32Kernel& kernel : kernels) {
    const Crc32Choice choice = choose_crc32_kernel(kernel.name);
    EXPECT_EQ(choice.kernel, kernel.usable ? &kernel : nullptr);
    EXPECT_EQ(choice.error.empty(), kernel.usable) << choice.error;
    if (kernel.usable) {
      EXPECT_LE(&kernel, choose_crc32_kernel("").kernel);
    }
  }
}

TEST(Crc32Choice, ANameThatIsNoneIsRefused) {
  for (const char* name : {"pclmul-", "PORTABLE", "slow", " "}) {
    const Crc32Choice choice = choose_crc32_kernel(name);
    EXPECT_EQ(choice.kernel, nullptr);
    EXPECT_EQ(choice.error.find("ROCKHOPPER_CRC names no kernel"), 0u) << choice.error;
    EXPECT_NE(choice.error.find(std::string(name) + "; there are portable"), std::string::npos)
        << choice.error;
  }
}

}  // namespace
}  // namespace rockhopper::wire::crc32_test
