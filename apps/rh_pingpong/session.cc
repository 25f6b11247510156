// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_pingpong/session.h"

#include <array>
#include <cstdio>
#include <cstring>

#include <fmt/format.h>

#include "apps/common/progress.h"
#include "apps/common/signals.h"
#include "apps/common/steady_clock.h"

namespace rockhopper::apps::pingpong {
namespace {

using namespace std::string_view_literals;

/// Low bits of a wr_id, and of Lane::pending, as in the stock tool. Above them: of a receive the
/// slot, of a send the lane.
constexpr std::uint64_t kReceiveId = 1;
constexpr std::uint64_t kSendId = 2;
constexpr std::uint64_t kIdMask = 3;
constexpr unsigned kIdShift = 2;

constexpr std::uint32_t kPeerTimeoutMs = 30'000;
/// What one of us tells the other at the end. The stock tool has closed its connection by then.
constexpr std::string_view kBye = "bye\0"sv;
constexpr std::uint64_t kQuietNs = 500 * kNsPerMs;
constexpr std::uint64_t kLingerNs = 5 * kNsPerSecond;
/// Few, as on a busy machine a turn may take as long as others compute.
constexpr std::uint32_t kTurnsPerCheck = 32;
constexpr std::uint64_t kCheckIntervalNs = 2 * kNsPerMs;
/// What the peer has to say of a failure is awaited for so long.
constexpr std::uint64_t kExplainNs = 500 * kNsPerMs;

/// In every byte of a slot that awaits a message.
constexpr int kNoContent = 0xee;

/// That of the stock tool.
constexpr std::uint32_t kQkey = 0x11111111;

}  // namespace

Session::Session(Endpoint& endpoint, const Options& options)
    : endpoint_(endpoint),
      options_(options),
      transport_(info(options.transport)),
      free_slots_(transport_.shares_receives ? options.rx_depth : 1) {}

Session::~Session() {
  roce::Engine& engine = endpoint_.engine();
  dc_.reset();
  for (const Lane& lane : lanes_) {
    if (lane.qp != nullptr) engine.destroy_qp(lane.qp);
    if (lane.ah != nullptr) engine.destroy_ah(lane.ah);
  }
  if (srq_ != nullptr) (void)engine.destroy_srq(srq_);
  for (const roce::MemoryRegion& region : {send_region_, receive_region_}) {
    if (region.base != nullptr) (void)engine.deregister_memory(region.key);
  }
}

Expected<Result> Session::run() {
  ROCKHOPPER_TRY(create_objects());
  if (auto connected = is_client() ? connect_as_client() : connect_as_server(); !connected) {
    return give_up(connected.error());
  }
  print("remote", result_.remote);

  const std::uint64_t start_ns = steady_now_ns();
  last_progress_ns_ = start_ns;
  if (auto exchanged = exchange_messages(); !exchanged) return give_up(exchanged.error());
  result_.seconds = static_cast<double>(steady_now_ns() - start_ns) * 1e-9;
  linger();
  return result_;
}

void Session::print_statistics() const {
  if (dc_ != nullptr) dc_->print_statistics(stderr);
}

void Session::print(const char* whose, const Destinations& destinations) const {
  if (options_.json) return;
  for (const Destination& destination : destinations) {
    fmt::print("  {:<15} {}\n", fmt::format("{} address:", whose), describe(destination));
  }
  (void)std::fflush(stdout);
}

Expected<void> Session::create_memory() {
  roce::Engine& engine = endpoint_.engine();
  ROCKHOPPER_TRY(auto send_slots,
                 MessageSlots::allocate(is_client() ? options_.queue_pairs : 1, options_.size));
  ROCKHOPPER_TRY(auto receive_slots,
                 MessageSlots::allocate(transport_.shares_receives ? options_.rx_depth : 1,
                                        options_.size + grh_bytes()));
  send_slots_ = std::move(send_slots);
  receive_slots_ = std::move(receive_slots);
  std::memset(send_slots_.memory().data(), 0x7b, send_slots_.memory().size());
  if (options_.check) {
    std::memset(receive_slots_.memory().data(), kNoContent, receive_slots_.memory().size());
  }

  pd_ = engine.allocate_pd();
  const auto add = [&](std::span<std::byte> memory, std::uint32_t access) {
    return engine.register_memory(pd_, memory.data(), memory.size(), access);
  };
  ROCKHOPPER_TRY(send_region_, add(send_slots_.memory(), 0));
  ROCKHOPPER_TRY(receive_region_, add(receive_slots_.memory(), roce::kAccessLocalWrite));
  return {};
}

Expected<void> Session::create_objects() {
  ROCKHOPPER_TRY(create_memory());
  ROCKHOPPER_TRY(cq_, roce::CompletionQueue::create(options_.rx_depth + options_.queue_pairs));
  if (transport_.shares_receives) {
    ROCKHOPPER_TRY(
        srq_, endpoint_.engine().create_srq(
                  {.pd = pd_,
                   .attributes = {.max_wr = options_.rx_depth, .max_sge = 1, .srq_limit = 0}}));
  }
  if (is_dc()) ROCKHOPPER_TRY(create_dc_lanes());
  while (lanes_.size() < options_.queue_pairs) {
    ROCKHOPPER_TRY(create_queue_pair());
  }
  return post_receives();
}

void Session::add_lane(wire::Qpn number, std::uint64_t access_key, roce::QueuePair* qp) {
  lane_of_.emplace(number.value, lanes_.size());
  lanes_.push_back({.qp = qp, .pending = kReceiveId});
  result_.local.push_back(
      {.qpn = number, .psn = endpoint_.engine().random_psn(), .gid = {}, .access_key = access_key});
}

Expected<void> Session::create_dc_lanes() {
  ROCKHOPPER_TRY(dc_, DcLanes::create(endpoint_.engine(), options_, pd_, *cq_, *srq_));
  for (std::uint32_t i = 0; i < options_.queue_pairs; ++i) {
    add_lane(dc_->target(i).number(), dc_->target(i).access_key(), nullptr);
  }
  return {};
}

Expected<void> Session::create_queue_pair() {
  roce::QpInit init;
  init.qp_type = transport_.qp_type;
  init.pd = pd_;
  init.send_cq = cq_.get();
  init.recv_cq = cq_.get();
  init.srq = srq_;
  init.max_send_wr = 1;
  init.max_recv_wr = options_.rx_depth;
  ROCKHOPPER_TRY(auto qp, endpoint_.engine().create_qp(init));
  add_lane(qp->number(), 0, qp);
  roce::QpAttributes attributes;
  attributes.qkey = kQkey;
  attributes.pkey_index = options_.endpoint.pkey_index;
  return qp->bring_up(attributes, roce::QpState::init);
}

Expected<stack::IpAddress> Session::choose_gid(const Destination* remote) const {
  const auto& table = endpoint_.addresses();
  if (options_.gid_index) return table[*options_.gid_index].address;
  if (remote == nullptr) return table.front().address;
  return endpoint_.address_of_family(remote->gid.is_ipv4());
}

void Session::set_local_gid(const stack::IpAddress& gid) {
  for (Destination& local : result_.local) {
    local.gid = gid;
  }
  print("local", result_.local);
}

Expected<void> Session::connect_as_client() {
  ROCKHOPPER_TRY(auto gid, choose_gid(nullptr));
  set_local_gid(gid);
  ROCKHOPPER_TRY(connection_,
                 TcpConnection::connect(options_.host, options_.port,
                                        endpoint_.config().connect_timeout_ms, endpoint_));
  ROCKHOPPER_TRY(endpoint_.wait_for_link());
  ROCKHOPPER_TRY(result_.remote, exchange_as_client(*connection_, result_.local, options_.transport,
                                                    kPeerTimeoutMs, endpoint_));
  content_.emplace(result_.local[0].psn, result_.remote[0].psn, PageMemory::page_size());
  content_->expect_own();
  return connect_queue_pairs();
}

Expected<void> Session::connect_as_server() {
  ROCKHOPPER_TRY(connection_, accept_at(options_.port, endpoint_));
  ROCKHOPPER_TRY(endpoint_.wait_for_link());
  ROCKHOPPER_TRY(result_.remote,
                 receive_from_client(*connection_, options_.transport, kPeerTimeoutMs, endpoint_));
  ROCKHOPPER_TRY(auto gid, choose_gid(&result_.remote[0]));
  set_local_gid(gid);
  content_.emplace(result_.remote[0].psn, result_.local[0].psn, PageMemory::page_size());
  ROCKHOPPER_TRY(connect_queue_pairs());
  return answer_client(*connection_, result_.local, options_.transport, kPeerTimeoutMs, endpoint_);
}

Expected<void> Session::connect_queue_pairs() {
  ROCKHOPPER_TRY(endpoint_.check_peer(result_.remote[0].gid));
  result_.remote.resize(lanes_.size());
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    if (result_.remote[i].qpn.value == 0) {
      return fail(ErrorCode::io, "the peer has {} {}, not {}; give both ends the same -q", i,
                  is_dc() ? "targets" : "queue pairs", lanes_.size());
    }
    ROCKHOPPER_TRY(connect_lane(i));
  }
  return {};
}

Expected<void> Session::connect_lane(std::size_t index) {
  if (!is_dc()) ROCKHOPPER_TRY(connect_queue_pair(index));
  if (is_dc() || is_ud()) {
    ROCKHOPPER_TRY(lanes_[index].ah, endpoint_.engine().create_ah(pd_, address_vector(index)));
  }
  return {};
}

roce::AddressVector Session::address_vector(std::size_t index) const {
  return {.source = result_.local[index].gid,
          .destination = result_.remote[index].gid,
          .traffic_class = static_cast<std::uint8_t>(options_.endpoint.traffic_class),
          .service_level = static_cast<std::uint8_t>(options_.service_level)};
}

Expected<void> Session::connect_queue_pair(std::size_t index) {
  const Destination& local = result_.local[index];
  const Destination& remote = result_.remote[index];
  roce::QpAttributes attributes;
  attributes.path_mtu = static_cast<roce::PathMtu>(options_.path_mtu);
  attributes.dest_qp_num = remote.qpn;
  attributes.rq_psn = remote.psn;
  attributes.max_dest_rd_atomic = 1;
  attributes.min_rnr_timer = 12;
  attributes.ah_attr = address_vector(index);
  attributes.timeout = static_cast<std::uint8_t>(options_.ack_timeout);
  attributes.retry_cnt = 7;
  attributes.rnr_retry = 7;
  attributes.sq_psn = local.psn;
  attributes.max_rd_atomic = 1;
  return lanes_[index].qp->bring_up(attributes, roce::QpState::rts);
}

Expected<void> Session::post_receives() {
  while (receives_posted_ < options_.rx_depth && !free_slots_.empty()) {
    const std::uint32_t slot = free_slots_.take();
    const std::span<std::byte> place = receive_slots_.at(slot);
    const roce::Sge sge{reinterpret_cast<std::uint64_t>(place.data()),
                        static_cast<std::uint32_t>(place.size()), receive_region_.key};
    const roce::RecvWr request{std::uint64_t{slot} << kIdShift | kReceiveId, {&sge, 1}};
    const roce::PostResult result =
        srq_ != nullptr ? srq_->post_recv(request) : lanes_[0].qp->post_recv(request);
    if (result != roce::PostResult::ok) {
      return fail(ErrorCode::invalid_state, "posting a receive failed: {}",
                  roce::to_string(result));
    }
    ++receives_posted_;
  }
  return {};
}

/// What has been in the slot does not pass for the next message.
void Session::release(std::uint32_t slot) {
  if (!transport_.shares_receives) return;
  if (options_.check) std::memset(receive_slots_.at(slot).data(), kNoContent, options_.size);
  free_slots_.release(slot);
}

Expected<void> Session::send_message(std::size_t index) {
  Lane& lane = lanes_[index];
  lane.sending = is_client() ? static_cast<std::uint32_t>(index) : lane.received;
  const std::span<std::byte> message =
      is_client() ? send_slots_.at(lane.sending) : received_bytes(lane.sending);
  const roce::MemoryRegion& region = is_client() ? send_region_ : receive_region_;
  if (is_client() && options_.check) {
    content_->fill(message, message_number(index, lane.messages_sent));
  }
  ++lane.messages_sent;
  const roce::Sge sge{reinterpret_cast<std::uint64_t>(message.data()), options_.size, region.key};
  roce::SendWr request;
  request.wr_id = std::uint64_t{index} << kIdShift | kSendId;
  request.sg_list = {&sge, 1};
  request.send_flags = roce::kSendSignaled;
  request.ah = lane.ah;
  request.remote_qpn = result_.remote[index].qpn;
  request.remote_qkey = kQkey;
  request.dc_access_key = result_.remote[index].access_key;
  const roce::PostResult result =
      is_dc() ? dc_->post_send(index, request) : lane.qp->post_send(request);
  if (result != roce::PostResult::ok) {
    return fail(ErrorCode::invalid_state, "posting a send failed: {}", roce::to_string(result));
  }
  lane.pending = kReceiveId | kSendId;
  return {};
}

Expected<void> Session::exchange_messages() {
  Progress progress("exchanges");
  for (std::size_t i = 0; is_client() && i < lanes_.size(); ++i) {
    ROCKHOPPER_TRY(send_message(i));
  }
  std::array<roce::Completion, 16> completions;
  std::uint32_t turns = 0;
  while (!finished()) {
    (void)endpoint_.turn();
    const std::size_t count = cq_->poll(completions);
    for (std::size_t i = 0; i < count; ++i) {
      ROCKHOPPER_TRY(handle(completions[i]));
    }
    if (count > 0) {
      last_progress_ns_ = 0;  // dated at the next check
      progress.update(received_, options_.iterations);
    } else if (options_.events) {
      await_event();
    }
    if (++turns % kTurnsPerCheck == 0) ROCKHOPPER_TRY(check_alive());
  }
  return {};
}

Expected<void> Session::handle(const roce::Completion& completion) {
  const std::uint64_t kind = completion.wr_id & kIdMask;
  if (completion.status != roce::WcStatus::success) {
    return fail(ErrorCode::io, "{} failed with status {} ({}) after {} of {} exchanges{}",
                kind == kSendId ? "send" : "receive", roce::to_string(completion.status),
                static_cast<int>(completion.status), received_, options_.iterations,
                received_ == 0 ? "; have both ends the same --transport and --size?" : "");
  }
  const std::size_t index =
      kind == kSendId ? completion.wr_id >> kIdShift : lane_of_.at(completion.qp_num.value);
  Lane& lane = lanes_[index];
  if (kind == kSendId) {
    ++sent_;
    if (!is_client()) release(lane.sending);
  } else {
    ROCKHOPPER_TRY(take_message(index, completion));
  }
  lane.pending &= ~static_cast<std::uint32_t>(kind);
  if (lane.pending == 0 && sent_ < options_.iterations) ROCKHOPPER_TRY(send_message(index));
  // As the stock tool: a new lot when there is no more than one for each queue pair.
  return receives_posted_ <= lanes_.size() ? post_receives() : Expected<void>{};
}

Expected<void> Session::take_message(std::size_t index, const roce::Completion& completion) {
  Lane& lane = lanes_[index];
  if (completion.byte_len != options_.size + grh_bytes()) {
    return fail(ErrorCode::io, "message {} has {} bytes, not {}; give both ends the same --size",
                received_, completion.byte_len, options_.size + grh_bytes());
  }
  lane.received = static_cast<std::uint32_t>(completion.wr_id >> kIdShift);
  if (options_.check) {
    const auto wrong = content_->check(received_bytes(lane.received),
                                       message_number(index, lane.messages_received));
    if (wrong) return fail(ErrorCode::io, "invalid data: {}", *wrong);
    ++result_.messages_checked;
  }
  ++lane.messages_received;
  ++received_;
  --receives_posted_;
  if (is_client()) release(lane.received);
  return {};
}

tl::unexpected<Error> Session::give_up(Error error) {
  if (!connection_) return tl::make_unexpected(std::move(error));
  NoBackground none;
  if (!stop_requested() && !peer_has_told_) {
    // What the client wanted may be why. A stock server has closed its connection long ago, and
    // would take a line behind the exchange for a part of it.
    if (is_client()) (void)connection_->send(to_line(terms()), 0, none);
    const std::uint64_t end_ns = steady_now_ns() + kExplainNs;
    while (steady_now_ns() < end_ns && !stop_requested() && !connection_->peer_closed()) {
      if (auto heard = hear_peer(); !heard) {
        error = heard.error();
        break;
      }
      (void)endpoint_.turn();
    }
  }
  (void)connection_->send(to_line(error), 0, none);
  return tl::make_unexpected(std::move(error));
}

Expected<void> Session::hear_peer() {
  for (;;) {
    // The stock tools close their connections.
    const auto line = connection_->poll_line();
    if (!line || !*line) return {};
    if (auto told = check_line(**line, terms()); !told) {
      peer_has_told_ = true;
      return told;
    }
  }
}

Expected<void> Session::check_alive() {
  if (stop_requested()) return tl::make_unexpected(interrupted());
  const std::uint64_t now_ns = steady_now_ns();
  if (now_ns < next_check_ns_) return {};
  next_check_ns_ = now_ns + kCheckIntervalNs;
  ROCKHOPPER_TRY(hear_peer());
  if (last_progress_ns_ == 0) last_progress_ns_ = now_ns;
  if (!endpoint_.link_alive()) {
    return fail(ErrorCode::io, "the link went down after {} of {} exchanges: the peer has gone{}",
                received_, options_.iterations,
                received_ > 0 ? "; have both ends the same --iters?" : "");
  }
  const auto limit_ns = static_cast<std::uint64_t>(options_.timeout_s * 1e9);
  if (now_ns - last_progress_ns_ > limit_ns) {
    return fail(ErrorCode::timeout, "no message for {} s after {} of {} exchanges (--timeout)",
                options_.timeout_s, received_, options_.iterations);
  }
  return {};
}

void Session::await_event() {
  if (event_) {
    event_ = false;
    endpoint_.set_idle(endpoint_.config().idle);
    return;
  }
  // Armed again on each idle turn: as good as new, and nothing that came between is missed.
  cq_->request_notify(roce::Notify::next, this);
  endpoint_.set_idle(IdlePolicy::sleep);
}

void Session::on_completion_event(roce::CompletionQueue& /*cq*/) { event_ = true; }

void Session::linger() {
  const std::uint64_t end_ns = steady_now_ns() + kLingerNs;
  if (connection_->send(kBye, 0, endpoint_)) {
    std::array<char, kBye.size()> bye;
    if (connection_->receive(bye, static_cast<std::uint32_t>(kLingerNs / kNsPerMs), endpoint_)) {
      return;
    }
  }
  // The stock tool says nothing: stay until it has been quiet for longer than its ACK timeout.
  std::uint64_t quiet_ns = steady_now_ns();
  while (!stop_requested()) {
    const bool moved = endpoint_.turn();
    const std::uint64_t now_ns = steady_now_ns();
    if (moved) quiet_ns = now_ns;
    if (now_ns - quiet_ns > kQuietNs || now_ns > end_ns) return;
  }
}

}  // namespace rockhopper::apps::pingpong
