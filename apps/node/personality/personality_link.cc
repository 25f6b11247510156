// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/node/personality/personality_link.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "roce/queue_pair.h"
#include "roce/segmentation.h"
#include "roce/wire/cnp.h"
#include "roce/wire/pkey.h"

namespace rockhopper {
namespace {

using wire::AethKind;
using wire::Header;
using wire::Operation;

constexpr std::uint16_t kBurst = 32;
/// Peers that are remembered; beyond, everything is forgotten and begins anew.
constexpr std::size_t kPeersMax = 65536;
/// Probes stop so long after the last packet.
constexpr std::uint64_t kProbesEndNs = 1'000'000;
/// The low five bits of an opcode that IBTA reserves in each service.
constexpr std::uint8_t kReservedOperation = 0x1f;

using Member = stack::Counter PersonalityCounters::*;
struct NamedCounter {
  const char* name;
  Member counter;
  const char* text;
};
constexpr std::array kCounters = {
    NamedCounter{"changed", &PersonalityCounters::changed, "packets that were given another look"},
    NamedCounter{"held_acks", &PersonalityCounters::held_acks,
                 "acknowledgements that waited for a newer one (ack_delay)"},
    NamedCounter{"replaced_acks", &PersonalityCounters::replaced_acks,
                 "acknowledgements that a newer one has replaced"},
    NamedCounter{"delayed_naks", &PersonalityCounters::delayed_naks,
                 "NAKs of sequence that left later (nak_delay)"},
    NamedCounter{"repeated_naks", &PersonalityCounters::repeated_naks,
                 "NAKs sent again for a packet behind a gap (nak_repeat)"},
    NamedCounter{"cnps", &PersonalityCounters::cnps, "CNPs sent with a NAK (nak_draws_cnp)"},
    NamedCounter{"unsent_repetitions", &PersonalityCounters::unsent_repetitions,
                 "requests not sent again, as no NAK named them (write_retry)"},
    NamedCounter{"partial_reads", &PersonalityCounters::partial_reads,
                 "parts of a READ that were asked for again (read_retry)"},
    NamedCounter{"unseen_acks", &PersonalityCounters::unseen_acks,
                 "acknowledgements with nothing but credits, not seen (unsolicited_credit_ack)"},
    NamedCounter{"refused_requests", &PersonalityCounters::refused_requests,
                 "requests of a kind that the device does not serve"},
    NamedCounter{"probes", &PersonalityCounters::probes,
                 "packets of an unknown opcode sent (probe_every)"},
    NamedCounter{"copy_failed", &PersonalityCounters::copy_failed,
                 "packets passed as they were, or not added, as there was no buffer"},
};

bool is_sequence_nak(const RoceFrame& frame) {
  return frame.opcode().operation == Operation::acknowledge &&
         frame.headers().aeth.kind() == AethKind::nak &&
         frame.headers().aeth.nak_code() == wire::NakCode::psn_sequence_error;
}

bool is_rc(const RoceFrame& frame) { return frame.opcode().service == wire::ServiceClass::rc; }

/// PSNs that a request takes, of which a READ has those of its responses.
std::uint32_t psn_count(std::uint32_t read_bytes, std::uint32_t mtu) {
  return mtu == 0 ? 1 : roce::packets_of(read_bytes, mtu);
}

}  // namespace

PersonalityLink::PersonalityLink(stack::Link& inner, rte_mempool* pool,
                                 const Personality& personality)
    : inner_(inner), pool_(pool), personality_(personality) {}

PersonalityLink::~PersonalityLink() {
  for (rte_mbuf* packet : due_) {
    rte_pktmbuf_free(packet);
  }
}

std::size_t PersonalityLink::PeerHash::operator()(const Peer& peer) const {
  return XXH3_64bits_withSeed(peer.address.bytes.data(), peer.address.bytes.size(),
                              peer.number.value);
}

PersonalityLink::Conversation& PersonalityLink::with(const Peer& peer) {
  if (peers_.size() == kPeersMax) peers_.clear();
  return peers_[peer];
}

PersonalityLink::Mbuf PersonalityLink::copy_of(rte_mbuf* packet) {
  Mbuf copied(rte_pktmbuf_copy(packet, pool_, 0, UINT32_MAX));
  if (copied == nullptr) counters_.copy_failed.add();
  return copied;
}

std::uint16_t PersonalityLink::tx_burst(rte_mbuf** packets, std::uint16_t count,
                                        std::uint64_t now_ns) {
  release(now_ns);
  // What the inner link does not take waits with the sender, not here.
  if (!due_.empty()) return 0;
  for (std::uint16_t i = 0; i < count; ++i) {
    send(packets[i], now_ns);
  }
  probe(now_ns);
  release(now_ns);
  return count;
}

void PersonalityLink::send(rte_mbuf* original, std::uint64_t now_ns) {
  // The engine may keep what it has handed out.
  Mbuf packet = copy_of(original);
  auto frame = packet != nullptr ? RoceFrame::of(packet.get()) : std::nullopt;
  if (!frame) {
    queue(Mbuf(original), now_ns);
    return;
  }
  rte_pktmbuf_free(original);
  dress(*frame);
  counters_.changed.add();
  std::optional<std::uint64_t> wait_ns{0};
  if (is_rc(*frame)) {
    Conversation& peer = with({frame->destination(), frame->headers().bth.destination});
    if (frame->opcode().is_request) {
      if (!pass_request(peer, *frame, packet.get())) return;
    } else if (wait_ns = pass_reply(peer, *frame, packet, now_ns); !wait_ns) {
      return;
    }
    if (personality_.probe_every_ns != 0) {
      probe_ = copy_of(packet.get());
      last_traffic_ns_ = now_ns;
      next_probe_ns_ = std::max(next_probe_ns_, now_ns);
    }
  }
  frame->seal(personality_.udp_checksum);
  queue(std::move(packet), now_ns + *wait_ns);
}

/// The look of each packet.
void PersonalityLink::dress(RoceFrame& frame) {
  const bool is_cnp = frame.opcode().operation == Operation::cnp;
  if (personality_.zero_source_mac) frame.set_source_mac_zero();
  if (personality_.ip_id_counts) frame.set_identification(identification_++);
  if (is_cnp) {
    dress_cnp(frame);
  } else {
    if (personality_.ttl) frame.set_ttl(*personality_.ttl);
    if (personality_.traffic_class) frame.set_traffic_class(*personality_.traffic_class);
    if (personality_.source_port == Personality::SourcePort::qpn) {
      frame.set_source_port(static_cast<std::uint16_t>(frame.headers().bth.destination.value));
    }
  }
  wire::Bth bth = frame.headers().bth;
  bth.mig_req = bth.mig_req && personality_.mig_req;
  bth.reserved7 = personality_.bth_reserved;
  frame.set_bth(bth);
}

void PersonalityLink::dress_cnp(RoceFrame& frame) const {
  frame.set_traffic_class(
      static_cast<std::uint8_t>(personality_.cnp.dscp << 2 | personality_.cnp_ecn));
  if (personality_.cnp_source_port) frame.set_source_port(*personality_.cnp_source_port);
  if (personality_.cnp_ttl) frame.set_ttl(*personality_.cnp_ttl);
}

std::optional<std::uint64_t> PersonalityLink::pass_reply(Conversation& peer, RoceFrame& frame,
                                                         Mbuf& packet, std::uint64_t now_ns) {
  if (!frame.opcode().has(Header::aeth)) return 0;
  const bool positive = frame.headers().aeth.kind() == AethKind::ack;
  if (positive && personality_.static_credits) {
    frame.set_syndrome(wire::Aeth::ack(*personality_.static_credits, 0).syndrome);
  }
  // A newer answer says all that the held one does.
  if (peer.held_ack != nullptr) {
    peer.held_ack.reset();
    counters_.replaced_acks.add();
  }
  if (is_sequence_nak(frame)) {
    frame.seal(personality_.udp_checksum);
    if (personality_.nak_repeat) {
      peer.nak = copy_of(packet.get());
      peer.nak_psn = frame.headers().bth.psn;
    }
    for (; peer.behind_gap > 1; --peer.behind_gap) {
      repeat_nak(peer, now_ns);
    }
    peer.behind_gap = 0;
    if (personality_.nak_draws_cnp) {
      // Behind the NAK.
      send_cnp(packet.get(), now_ns + personality_.nak_delay_ns + 1);
    }
    if (personality_.nak_delay_ns > 0) counters_.delayed_naks.add();
    return personality_.nak_delay_ns;
  }
  const bool is_ack = positive && frame.opcode().operation == Operation::acknowledge;
  if (is_ack && personality_.ack_delay_ns > 0) {
    frame.seal(personality_.udp_checksum);
    // The first one that is held says when the newest leaves.
    if (peer.ack_release_ns <= now_ns) peer.ack_release_ns = now_ns + personality_.ack_delay_ns;
    peer.held_ack = std::move(packet);
    counters_.held_acks.add();
    return std::nullopt;
  }
  return 0;
}

/// Returns false if the request is not sent.
bool PersonalityLink::pass_request(Conversation& peer, RoceFrame& frame, rte_mbuf* packet) {
  const wire::Bth& bth = frame.headers().bth;
  const wire::OpcodeInfo& opcode = frame.opcode();
  const bool is_read = opcode.operation == Operation::rdma_read_request;
  if (is_read && personality_.read_retry == Personality::ReadRetry::part) {
    if (Mbuf request = copy_of(packet); request != nullptr) {
      peer.reads.on_request(std::move(request), frame);
    }
  }
  const std::int32_t ahead = peer.last_sent ? wire::distance(*peer.last_sent, bth.psn) : 1;
  if (ahead > 0 && std::cmp_greater_equal(ahead, psn_count(peer.last_read_bytes, peer.mtu))) {
    peer.last_sent = bth.psn;
    peer.last_read_bytes = is_read ? frame.headers().reth.length : 0;
    return true;
  }
  // SENDs, and WRITEs with immediate data, go back N.
  const bool one_sided = opcode.operation == Operation::rdma_write && !opcode.has_immediate;
  if (personality_.write_retry == Personality::WriteRetry::named_plus_one && one_sided &&
      peer.named) {
    if (bth.psn != *peer.named && bth.psn != *peer.last_sent) {
      counters_.unsent_repetitions.add();
      return false;
    }
    wire::Bth asking = bth;
    asking.ack_request = true;
    frame.set_bth(asking);
  }
  return true;
}

/// One as the notification point would send it, to the peer that `like` goes to.
void PersonalityLink::send_cnp(rte_mbuf* like, std::uint64_t release_ns) {
  Mbuf packet = copy_of(like);
  if (packet == nullptr) return;
  auto frame = RoceFrame::of(packet.get());
  if (!frame) return;
  const wire::Bth& bth = frame->headers().bth;
  frame->set_bth({.opcode = static_cast<std::uint8_t>(wire::Opcode::cnp),
                  .pkey = bth.pkey,
                  .becn = true,
                  .destination = bth.destination});
  if (!frame->set_rest(wire::CnpReserved{}.bytes)) return;
  dress_cnp(*frame);
  frame->seal(personality_.udp_checksum);
  queue(std::move(packet), release_ns);
  counters_.cnps.add();
}

/// Some RNICs measure round trips by packets of their own, whose form is not published.
void PersonalityLink::probe(std::uint64_t now_ns) {
  if (probe_ == nullptr || now_ns < next_probe_ns_) return;
  if (now_ns > last_traffic_ns_ + kProbesEndNs) {
    probe_.reset();
    return;
  }
  next_probe_ns_ = now_ns + personality_.probe_every_ns;
  Mbuf packet = copy_of(probe_.get());
  if (packet == nullptr) return;
  auto frame = RoceFrame::of(packet.get());
  if (!frame) return;
  wire::Bth bth = frame->headers().bth;
  // To the queue pair with its own number or none, and to those that are not one's own.
  const std::array<std::pair<wire::Qpn, wire::Psn>, 4> kinds = {
      {{bth.destination, bth.psn}, {bth.destination, {}}, {wire::Qpn{0}, {}}, {wire::Qpn{1}, {}}}};
  const auto& [number, psn] = kinds[probes_++ % kinds.size()];
  bth = {.opcode = personality_.probe_opcode, .pkey = bth.pkey, .destination = number, .psn = psn};
  frame->set_bth(bth);
  constexpr std::array<std::uint8_t, 16> kNothing{};
  if (!frame->set_rest(kNothing)) return;
  frame->seal(personality_.udp_checksum);
  queue(std::move(packet), now_ns);
  counters_.probes.add();
}

void PersonalityLink::queue(Mbuf packet, std::uint64_t release_ns) {
  waiting_.emplace(release_ns, std::move(packet));
}

void PersonalityLink::release(std::uint64_t now_ns) {
  if (personality_.ack_delay_ns > 0) {
    for (auto& [key, peer] : peers_) {
      if (peer.held_ack != nullptr && peer.ack_release_ns <= now_ns) {
        queue(std::move(peer.held_ack), now_ns);
      }
    }
  }
  while (!waiting_.empty() && waiting_.begin()->first <= now_ns) {
    due_.push_back(waiting_.begin()->second.release());
    waiting_.erase(waiting_.begin());
  }
  std::size_t sent = 0;
  while (sent < due_.size()) {
    const auto wanted =
        static_cast<std::uint16_t>(std::min<std::size_t>(due_.size() - sent, kBurst));
    const std::uint16_t taken = inner_.tx_burst(due_.data() + sent, wanted, now_ns);
    sent += taken;
    if (taken < wanted) break;
  }
  due_.erase(due_.begin(), due_.begin() + static_cast<std::ptrdiff_t>(sent));
}

std::uint16_t PersonalityLink::rx_burst(rte_mbuf** packets, std::uint16_t count,
                                        std::uint64_t now_ns) {
  probe(now_ns);
  release(now_ns);  // what waits leaves though nobody sends any more
  if (arrived_.empty()) {
    std::array<rte_mbuf*, kBurst> burst;
    const std::uint16_t received = inner_.rx_burst(burst.data(), std::min(count, kBurst), now_ns);
    for (std::uint16_t i = 0; i < received; ++i) {
      if (receive(burst[i], now_ns)) arrived_.emplace_back(burst[i]);
    }
    release(now_ns);
  }
  const auto given = static_cast<std::uint16_t>(std::min<std::size_t>(count, arrived_.size()));
  for (std::uint16_t i = 0; i < given; ++i) {
    packets[i] = arrived_[i].release();
  }
  arrived_.erase(arrived_.begin(), arrived_.begin() + given);
  return given;
}

bool PersonalityLink::receive(rte_mbuf*& packet, std::uint64_t now_ns) {
  Mbuf copied = copy_of(packet);
  if (copied == nullptr) return true;
  auto frame = RoceFrame::of(copied.get());
  if (!frame || !is_rc(*frame) || engine_ == nullptr || !frame->has_right_icrc()) return true;
  const roce::QueuePair* qp = engine_->find_qp(frame->headers().bth.destination);
  if (qp == nullptr) return true;
  const roce::QpAttributes connection = qp->query();
  const auto pkey = engine_->query_pkey(connection.pkey_index);
  if (!pkey || !wire::pkeys_match(*pkey, frame->headers().bth.pkey)) return true;
  Conversation& peer = with({frame->source(), connection.dest_qp_num});
  peer.mtu = static_cast<std::uint32_t>(connection.path_mtu);
  if (!peer.expected) peer.expected = connection.rq_psn;
  if (frame->opcode().is_request) {
    if (!receive_request(peer, *frame, now_ns)) return true;
    // It has been changed.
    rte_pktmbuf_free(packet);
    packet = copied.release();
    return true;
  }
  if (receive_reply(peer, *frame, copied, now_ns)) return true;
  rte_pktmbuf_free(packet);
  return false;
}

/// Returns true if the request has been changed.
bool PersonalityLink::receive_request(Conversation& peer, RoceFrame& frame, std::uint64_t now_ns) {
  if (personality_.nak_repeat) note_order(peer, frame, now_ns);
  if (!is_refused(frame)) return false;
  // As one of a kind that there is not: the engine answers that it is invalid.
  wire::Bth refused = frame.headers().bth;
  refused.opcode = static_cast<std::uint8_t>((refused.opcode & 0xe0) | kReservedOperation);
  frame.set_bth(refused);
  frame.seal(false);
  counters_.refused_requests.add();
  return true;
}

/// What comes behind a gap draws the NAK again: at once if it has been sent, else with it.
void PersonalityLink::note_order(Conversation& peer, const RoceFrame& frame, std::uint64_t now_ns) {
  const wire::Psn psn = frame.headers().bth.psn;
  const std::int32_t ahead = peer.expected ? wire::distance(*peer.expected, psn) : 0;
  if (ahead > 0) {
    if (peer.nak != nullptr) {
      repeat_nak(peer, now_ns);
    } else {
      ++peer.behind_gap;
    }
  } else if (ahead == 0) {
    const bool is_read = frame.opcode().operation == Operation::rdma_read_request;
    peer.expected = psn + psn_count(is_read ? frame.headers().reth.length : 0, peer.mtu);
    peer.nak.reset();
    peer.behind_gap = 0;
  }
}

void PersonalityLink::repeat_nak(Conversation& peer, std::uint64_t now_ns) {
  Mbuf repeated = copy_of(peer.nak.get());
  if (repeated == nullptr) return;
  queue(std::move(repeated), now_ns + personality_.nak_delay_ns);
  counters_.repeated_naks.add();
}

bool PersonalityLink::is_refused(const RoceFrame& frame) const {
  const wire::Headers& headers = frame.headers();
  const wire::OpcodeInfo& opcode = frame.opcode();
  switch (opcode.operation) {
    case Operation::compare_swap:
    case Operation::fetch_add:
      return !personality_.serves_atomics;
    case Operation::send:
      return !personality_.takes_empty_sends && opcode.position == wire::Position::only &&
             headers.payload_length == 0;
    default:
      break;
  }
  if (!opcode.has(Header::reth)) return false;
  const std::uint64_t mask = personality_.alignment - 1;
  return ((headers.reth.va | headers.reth.length) & mask) != 0 ||
         headers.reth.length > personality_.max_message;
}

/// Returns false if the engine is not to see the packet itself.
bool PersonalityLink::receive_reply(Conversation& peer, RoceFrame& frame, Mbuf& packet,
                                    std::uint64_t now_ns) {
  const wire::Headers& headers = frame.headers();
  if (is_sequence_nak(frame)) {
    peer.named = headers.bth.psn;
  } else if (headers.opcode->operation == Operation::acknowledge &&
             headers.aeth.kind() == AethKind::ack) {
    if (peer.named && wire::distance(*peer.named, headers.bth.psn) >= 0) peer.named.reset();
    const LastAck seen{headers.bth.psn, headers.aeth};
    const bool only_credits = peer.last_ack && peer.last_ack->psn == seen.psn &&
                              peer.last_ack->aeth.msn == seen.aeth.msn &&
                              peer.last_ack->aeth.credit() != seen.aeth.credit();
    peer.last_ack = seen;
    if (only_credits && !personality_.obeys_unsolicited_credits) {
      counters_.unseen_acks.add();
      return false;
    }
  }
  if (personality_.read_retry != Personality::ReadRetry::part ||
      headers.opcode->operation != Operation::rdma_read_response) {
    return true;
  }
  Mbuf missing;
  if (!peer.reads.on_response(packet, frame, peer.mtu, pool_, arrived_, missing)) return true;
  if (missing != nullptr) {
    queue(std::move(missing), now_ns);
    counters_.partial_reads.add();
  }
  return false;
}

std::uint64_t PersonalityLink::next_deadline_ns() const {
  std::uint64_t deadline_ns = inner_.next_deadline_ns();
  if (due_.empty() && !waiting_.empty()) {
    deadline_ns = std::min(deadline_ns, waiting_.begin()->first);
  }
  if (personality_.ack_delay_ns > 0) {
    for (const auto& [key, peer] : peers_) {
      if (peer.held_ack != nullptr) deadline_ns = std::min(deadline_ns, peer.ack_release_ns);
    }
  }
  if (probe_ != nullptr) deadline_ns = std::min(deadline_ns, next_probe_ns_);
  return deadline_ns;
}

std::size_t PersonalityLink::mbufs_held() const {
  std::size_t held = waiting_.size() + due_.size() + arrived_.size() + (probe_ != nullptr ? 1 : 0);
  for (const auto& [key, peer] : peers_) {
    held += (peer.held_ack != nullptr ? 1 : 0) + (peer.nak != nullptr ? 1 : 0) +
            peer.reads.mbufs_held();
  }
  return held;
}

void PersonalityLink::visit_counters(void (*visit)(void* context, const char* name,
                                                   std::uint64_t value),
                                     void* context) const {
  for (const NamedCounter& named : kCounters) {
    visit(context, named.name, (counters_.*named.counter).value());
  }
}

void PersonalityLink::describe_counters(void (*visit)(void* context, const char* name,
                                                      const char* text),
                                        void* context) {
  for (const NamedCounter& named : kCounters) {
    visit(context, named.name, named.text);
  }
}

}  // namespace rockhopper
