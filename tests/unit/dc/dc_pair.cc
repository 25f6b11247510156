// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/unit/dc/dc_pair.h"

#include <cstring>

#include "tests/sim/seeded_runs.h"

namespace rockhopper::test {

using sim::must;

std::set<std::pair<unsigned, std::uint64_t>> first_packets(unsigned node, std::uint64_t count) {
  std::set<std::pair<unsigned, std::uint64_t>> all;
  for (std::uint64_t number = 0; number < count; ++number) {
    all.emplace(node, number);
  }
  return all;
}

DcPair::DcPair(const dc::EndpointConfig& target_config, const sim::NetworkFaults& faults,
               std::uint64_t delay_ns)
    : network_({.seed = 1, .pools = &sim::pools(), .delay_ns = delay_ns, .faults = faults}),
      send_cq_(must(roce::CompletionQueue::create(1024))),
      recv_cq_(must(roce::CompletionQueue::create(1024))) {
  for (unsigned node = 0; node < 2; ++node) {
    pds_[node] = engine(node).allocate_pd();
    memory_[node].resize(kMemoryBytes);
    for (std::size_t i = 0; i < kMemoryBytes; ++i) {
      memory_[node][i] = static_cast<std::uint8_t>(node == 0 ? i * 7 + 1 : 0);
    }
    keys_[node] = must(engine(node).register_memory(pds_[node], memory_[node].data(), kMemoryBytes,
                                                    roce::kAccessAll | roce::kAccessFlushGlobal))
                      .key;
    endpoints_[node] =
        must(dc::Endpoint::create(engine(node), node == 1 ? target_config : dc::EndpointConfig{}));
  }
  srq_ = must(engine(1).create_srq({.pd = pds_[1], .attributes = {.max_wr = 64}}));
  ah_ = must(engine(0).create_ah(
      pds_[0], {.source = network_.node(0).address(), .destination = network_.node(1).address()}));
}

dc::DciInit DcPair::dci_init() const {
  dc::DciInit init;
  init.pd = pds_[0];
  init.send_cq = send_cq_.get();
  init.sq_sig_all = true;
  return init;
}

dc::DctInit DcPair::dct_init() const {
  dc::DctInit init;
  init.pd = pds_[1];
  init.srq = srq_;
  init.recv_cq = recv_cq_.get();
  init.access_flags = roce::kAccessAll | roce::kAccessFlushGlobal;
  return init;
}

dc::Dci& DcPair::make_dci(const std::function<void(dc::DciInit&)>& change) {
  dc::DciInit init = dci_init();
  if (change) change(init);
  return *must(endpoints_[0]->create_dci(init));
}

dc::Dct& DcPair::make_dct(const std::function<void(dc::DctInit&)>& change) {
  dc::DctInit init = dct_init();
  if (change) change(init);
  return *must(endpoints_[1]->create_dct(init));
}

std::uint64_t DcPair::word(unsigned node, std::size_t offset) const {
  std::uint64_t value = 0;
  std::memcpy(&value, &memory_.at(node)[offset], sizeof value);
  return value;
}

void DcPair::set_word(unsigned node, std::size_t offset, std::uint64_t value) {
  std::memcpy(&memory_.at(node)[offset], &value, sizeof value);
}

std::uint64_t DcPair::va(unsigned node, std::size_t offset) const {
  return reinterpret_cast<std::uintptr_t>(memory_.at(node).data()) + offset;
}

roce::PostResult DcPair::post(dc::Dci& dci, const dc::Dct& dct, roce::WrOpcode opcode,
                              std::uint32_t length, std::size_t offset, std::uint8_t stream,
                              const std::function<void(roce::SendWr&)>& change) {
  const roce::Sge sge{.addr = va(0, offset), .length = length, .lkey = keys_[0]};
  roce::SendWr wr;
  wr.wr_id = offset;
  wr.sg_list = {&sge, 1};
  wr.opcode = opcode;
  wr.remote_addr = va(1, offset);
  wr.rkey = keys_[1];
  wr.ah = ah_;
  wr.remote_qpn = dct.number();
  wr.dc_access_key = dct.access_key();
  if (change) change(wr);
  return dci.post_send(wr, stream);
}

void DcPair::post_receive(std::uint32_t length, std::size_t offset) {
  const roce::Sge sge{.addr = va(1, offset), .length = length, .lkey = keys_[1]};
  ASSERT_EQ(srq_->post_recv({.wr_id = offset, .sg_list = {&sge, 1}}), roce::PostResult::ok);
}

void DcPair::run_for(std::uint64_t ns) {
  const std::uint64_t limit_ns = now_ns() + ns;
  if (!network_.run_to_rest(limit_ns) || now_ns() < limit_ns) {
    network_.advance_to(limit_ns);
    while (network_.poll()) {
    }
  }
}

bool DcPair::run_until(const std::function<bool()>& done) {
  const std::uint64_t limit_ns = now_ns() + 100'000'000'000;
  for (;;) {
    while (!done() && network_.poll()) {
    }
    if (done()) return true;
    if (!network_.advance(limit_ns)) return false;
  }
}

namespace {

std::vector<roce::Completion> take(roce::CompletionQueue& cq) {
  std::vector<roce::Completion> all(cq.size());
  all.resize(cq.poll(all));
  return all;
}

}  // namespace

std::vector<roce::Completion> DcPair::send_completions() { return take(*send_cq_); }
std::vector<roce::Completion> DcPair::recv_completions() { return take(*recv_cq_); }

std::vector<roce::WcStatus> DcPair::statuses(std::size_t count) {
  EXPECT_TRUE(run_until([&] { return send_cq_->size() >= count; }));
  std::vector<roce::WcStatus> all;
  for (const roce::Completion& completion : send_completions()) {
    all.push_back(completion.status);
  }
  return all;
}

}  // namespace rockhopper::test
