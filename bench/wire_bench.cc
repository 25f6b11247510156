// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// What headers and the ICRC cost. Beside the ICRC stands a copy of the same bytes.
#include <array>
#include <cstring>
#include <numeric>
#include <vector>

#include <benchmark/benchmark.h>

#include "roce/wire/icrc.h"
#include "roce/wire/packet.h"

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

/// The payloads of a message's packets, copied one after the other to where packets are built. A
/// message of some size does not come from the first cache.
void copy_of_message(benchmark::State& state) {
  constexpr std::size_t kPayload = 4096;
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
