// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// What headers and the ICRC cost. Beside the ICRC stands a copy of the same bytes.
#include <array>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include <benchmark/benchmark.h>
#include <isa-l/crc.h>

#include "roce/wire/crc32.h"
#include "roce/wire/icrc.h"
#include "roce/wire/packet.h"
#include "roce/wire/wide_vectors.h"

// ISA-L exports it without a declaration: its kernel for 128-bit vectors.
extern "C" std::uint32_t crc32_gzip_refl_by8(std::uint32_t crc, const unsigned char* bytes,
                                             std::uint64_t length);

namespace rockhopper::wire {
namespace {

Headers headers_of(Opcode opcode) {
  Headers headers{};
  headers.bth.opcode = static_cast<std::uint8_t>(opcode);
  headers.bth.destination = Qpn{0x123456};
  headers.bth.psn = Psn{0x654321};
  headers.reth = {.va = 0x1122334455667788, .rkey = 0x99aabbcc, .length = 4096};
  return headers;
}

void emit(benchmark::State& state) {
  const Headers headers = headers_of(static_cast<Opcode>(state.range(0)));
  std::array<std::uint8_t, kHeadersMax> bytes{};
  for (auto _ : state) {
    benchmark::DoNotOptimize(emit_headers(headers, bytes));
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(emit)->ArgName("opcode")->Arg(0x04)->Arg(0x0a);

void parse(benchmark::State& state) {
  std::array<std::uint8_t, kHeadersMax + Icrc::kSize> bytes{};
  const std::size_t length = emit_headers(headers_of(static_cast<Opcode>(state.range(0))),
                                          std::span(bytes).first<kHeadersMax>());
  for (auto _ : state) {
    Headers headers;
    benchmark::DoNotOptimize(
        parse_headers(std::span(bytes).first(length), length + Icrc::kSize, headers));
    benchmark::DoNotOptimize(headers);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(parse)->ArgName("opcode")->Arg(0x04)->Arg(0x0a);

/// A whole packet over IPv4, whose payload has state.range(0) bytes.
void icrc(benchmark::State& state) {
  constexpr std::size_t kHead = 20 + 8 + 12;
  std::vector<std::uint8_t> packet(kHead + static_cast<std::size_t>(state.range(0)));
  std::iota(packet.begin(), packet.end(), std::uint8_t{0});
  packet[0] = 0x45;
  for (auto _ : state) {
    Icrc icrc;
    icrc.add_packet(packet, kHead);
    benchmark::DoNotOptimize(icrc.value());
  }
  state.SetItemsProcessed(state.iterations());
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(icrc)->ArgName("bytes")->Arg(8)->Arg(64)->Arg(256)->Arg(1024)->Arg(4096);

void copy(benchmark::State& state) {
  const std::vector<std::uint8_t> from(static_cast<std::size_t>(state.range(0)), 1);
  std::vector<std::uint8_t> to(from.size());
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), from.size());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations());
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(copy)->ArgName("bytes")->Arg(8)->Arg(64)->Arg(256)->Arg(1024)->Arg(4096);

constexpr std::size_t kPayload = 4096;

/// One payload, with each kernel of the CRC and with ISA-L's.
void crc(benchmark::State& state, auto compute) {
  const std::vector<std::uint8_t> from(kPayload + 26, 1);
  std::uint32_t value = 0;
  for (auto _ : state) {
    value = compute(value, &from[26], kPayload);
    benchmark::DoNotOptimize(value);
    leave_wide_vectors();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kPayload));
}

/// The same, copied in one pass.
void copy_crc(benchmark::State& state, const Crc32Kernel& kernel) {
  std::vector<std::uint8_t> to(kPayload + 58);
  crc(state, [&](std::uint32_t value, const std::uint8_t* bytes, std::size_t length) {
    return kernel.copy(value, &to[58], bytes, length);
  });
}

const bool kKernelsRegistered = [] {
  benchmark::RegisterBenchmark("crc/isa-l", [](auto& state) { crc(state, crc32_gzip_refl); });
  if (crc32_kernels().size() > 1 && crc32_kernels()[1].usable) {
    benchmark::RegisterBenchmark("crc/isa-l-by8",
                                 [](auto& state) { crc(state, crc32_gzip_refl_by8); });
  }
  for (const Crc32Kernel& kernel : crc32_kernels()) {
    if (!kernel.usable) continue;
    const std::string name(kernel.name);
    benchmark::RegisterBenchmark(("crc/" + name).c_str(),
                                 [&kernel](auto& state) { crc(state, kernel.add); });
    benchmark::RegisterBenchmark(("copy_crc/" + name).c_str(),
                                 [&kernel](auto& state) { copy_crc(state, kernel); });
  }
  return true;
}();

/// The payloads of a message's packets, copied one after the other to where packets are built. A
/// message of some size does not come from the first cache.
void copy_of_message(benchmark::State& state) {
  const std::vector<std::uint8_t> message(static_cast<std::size_t>(state.range(0)), 1);
  std::vector<std::uint8_t> packet(kPayload);
  std::size_t offset = 0;
  for (auto _ : state) {
    std::memcpy(packet.data(), &message[offset], kPayload);
    benchmark::ClobberMemory();
    offset = (offset + kPayload) % message.size();
  }
  state.SetItemsProcessed(state.iterations());
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kPayload));
}
BENCHMARK(copy_of_message)->ArgName("bytes")->Arg(65536)->Arg(1 << 20);

}  // namespace
}  // namespace rockhopper::wire
