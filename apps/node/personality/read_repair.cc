// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/node/personality/read_repair.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "roce/segmentation.h"

namespace rockhopper {
namespace {

/// More READs than a queue pair can have at once.
constexpr std::size_t kReadsMax = 256;

/// `rest` begins `ahead` responses behind the beginning of `whole` and is its end.
bool is_rest(const wire::Reth& whole, const wire::Reth& rest, std::int32_t ahead) {
  return rest.rkey == whole.rkey && ahead >= 0 && rest.va - whole.va < whole.length &&
         rest.va + rest.length == whole.va + whole.length && (ahead == 0) == (rest.va == whole.va);
}

/// Responses of a part call themselves first, last or only of that; the engine has asked for all.
void make_plain(RoceFrame& frame, std::uint32_t index, std::uint32_t count) {
  using wire::Opcode;
  const bool first = index == 0;
  const bool last = index + 1 == count;
  const Opcode opcode = first && last ? Opcode::rc_rdma_read_response_only
                        : first       ? Opcode::rc_rdma_read_response_first
                        : last        ? Opcode::rc_rdma_read_response_last
                                      : Opcode::rc_rdma_read_response_middle;
  wire::Bth bth = frame.headers().bth;
  if (bth.opcode == static_cast<std::uint8_t>(opcode)) return;
  bth.opcode = static_cast<std::uint8_t>(opcode);
  std::optional<wire::Aeth> aeth;
  if (wire::info(opcode).has(wire::Header::aeth)) {
    // Without one of its own it tells nothing new.
    aeth = frame.opcode().has(wire::Header::aeth) ? frame.headers().aeth
                                                  : wire::Aeth::ack(wire::kCreditCodeUnlimited, 0);
  }
  if (frame.set_headers(bth, aeth)) frame.seal(false);
}

}  // namespace

void ReadRepair::on_request(OwnedMbuf packet, const RoceFrame& request) {
  const wire::Psn psn = request.headers().bth.psn;
  const wire::Reth reth = request.headers().reth;
  // What goes back goes back for all that comes behind.
  std::erase_if(reads_, [&](const Read& read) {
    const std::int32_t ahead = wire::distance(read.first, psn);
    return ahead <= 0 || is_rest(read.reth, reth, ahead);
  });
  if (reads_.size() == kReadsMax) reads_.clear();
  reads_.push_back({.request = std::move(packet), .first = psn, .reth = reth});
}

bool ReadRepair::on_response(OwnedMbuf& packet, RoceFrame& frame, std::uint32_t mtu,
                             rte_mempool* pool, std::vector<OwnedMbuf>& ready, OwnedMbuf& missing) {
  const wire::Psn psn = frame.headers().bth.psn;
  const auto found = std::find_if(reads_.begin(), reads_.end(), [&](const Read& read) {
    const std::int32_t ahead = wire::distance(read.first, psn);
    return ahead >= 0 && std::cmp_less(ahead, roce::packets_of(read.reth.length, mtu));
  });
  if (found == reads_.end()) return false;
  const auto index = static_cast<std::uint32_t>(wire::distance(found->first, psn));
  if (index < found->next) return true;  // a second time
  make_plain(frame, index, roce::packets_of(found->reth.length, mtu));
  found->kept.insert_or_assign(index, std::move(packet));
  while (!reads_.empty()) {
    Read& read = reads_.front();
    const std::uint32_t count = roce::packets_of(read.reth.length, mtu);
    while (!read.kept.empty() && read.kept.begin()->first == read.next) {
      ready.push_back(std::move(read.kept.begin()->second));
      read.kept.erase(read.kept.begin());
      ++read.next;
      read.asked = false;
    }
    if (read.next < count) break;
    reads_.pop_front();
  }
  const bool gap = std::any_of(reads_.begin(), reads_.end(),
                               [](const Read& read) { return !read.kept.empty(); });
  if (gap && !reads_.front().asked) ask_for(reads_.front(), mtu, pool, missing);
  return true;
}

std::size_t ReadRepair::mbufs_held() const {
  std::size_t held = 0;
  for (const Read& read : reads_) {
    held += 1 + read.kept.size();
  }
  return held;
}

/// From what is missing up to what has come.
void ReadRepair::ask_for(Read& read, std::uint32_t mtu, rte_mempool* pool, OwnedMbuf& missing) {
  missing.reset(rte_pktmbuf_copy(read.request.get(), pool, 0, UINT32_MAX));
  auto part = missing != nullptr ? RoceFrame::of(missing.get()) : std::nullopt;
  if (!part) return;
  read.asked = true;
  const std::uint64_t done = std::uint64_t{read.next} * mtu;
  const std::uint64_t end =
      read.kept.empty() ? read.reth.length : std::uint64_t{read.kept.begin()->first} * mtu;
  wire::Bth bth = part->headers().bth;
  bth.psn = read.first + read.next;
  part->set_bth(bth);
  part->set_reth({.va = read.reth.va + done,
                  .rkey = read.reth.rkey,
                  .length = static_cast<std::uint32_t>(end - done)});
  part->seal(false);
}

}  // namespace rockhopper
