// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/pingpong/session.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <fmt/format.h>

#include "apps/common/progress.h"
#include "apps/common/signals.h"
#include "apps/common/steady_clock.h"

namespace rockhopper::apps::pingpong {
namespace {

using namespace std::string_view_literals;

/// Bits of Session::pending_ too, as in the stock tool.
constexpr std::uint64_t kReceiveId = 1;
constexpr std::uint64_t kSendId = 2;

constexpr std::uint32_t kPeerTimeoutMs = 30'000;
/// What one of us tells the other at the end. The stock tool has closed its connection by then.
constexpr std::string_view kBye = "bye\0"sv;
constexpr std::uint64_t kQuietNs = 500 * kNsPerMs;
constexpr std::uint64_t kLingerNs = 5 * kNsPerSecond;
constexpr std::uint32_t kTurnsPerCheck = 1024;

/// That of the stock tool.
constexpr std::uint32_t kQkey = 0x11111111;

/// What modify() needs for each step up (ibv_modify_qp).
struct Steps {
  std::uint32_t init, rtr, rts;
};

Steps steps_of(roce::QpType transport) {
  using namespace roce;
  constexpr std::uint32_t kInit = kQpState | kQpPkeyIndex | kQpPort;
  constexpr std::uint32_t kConnectedRtr = kQpState | kQpAv | kQpPathMtu | kQpDestQpn | kQpRqPsn;
  constexpr std::uint32_t kRts = kQpState | kQpSqPsn;
  switch (transport) {
    case QpType::rc:
      break;
    case QpType::uc:
      return {.init = kInit | kQpAccessFlags, .rtr = kConnectedRtr, .rts = kRts};
    case QpType::ud:
      return {.init = kInit | kQpQkey, .rtr = kQpState, .rts = kRts};
  }
  return {.init = kInit | kQpAccessFlags,
          .rtr = kConnectedRtr | kQpMaxDestRdAtomic | kQpMinRnrTimer,
          .rts = kRts | kQpTimeout | kQpRetryCnt | kQpRnrRetry | kQpMaxQpRdAtomic};
}

}  // namespace

Session::Session(Endpoint& endpoint, const Options& options)
    : endpoint_(endpoint), options_(options) {}

Session::~Session() {
  if (qp_ != nullptr) endpoint_.engine().destroy_qp(qp_);
  if (ah_ != nullptr) endpoint_.engine().destroy_ah(ah_);
  for (const roce::MemoryRegion& region : {send_region_, receive_region_}) {
    if (region.base != nullptr) (void)endpoint_.engine().deregister_memory(region.key);
  }
}

Expected<Result> Session::run() {
  auto connected = create_objects().and_then(
      [&] { return is_client() ? connect_as_client() : connect_as_server(); });
  if (!connected) return tl::make_unexpected(connected.error());
  if (!options_.json) {
    fmt::print("  remote address: {}\n", describe(result_.remote));
    (void)std::fflush(stdout);
  }

  const std::uint64_t start_ns = steady_now_ns();
  last_progress_ns_ = start_ns;
  auto exchanged = exchange_messages();
  if (!exchanged) return tl::make_unexpected(exchanged.error());
  result_.seconds = static_cast<double>(steady_now_ns() - start_ns) * 1e-9;
  linger();
  return result_;
}

Expected<void> Session::create_objects() {
  roce::Engine& engine = endpoint_.engine();
  auto send_memory = PageMemory::allocate(options_.size);
  const std::uint32_t receive_bytes = options_.size + grh_bytes();
  auto receive_memory = PageMemory::allocate(receive_bytes);
  if (!send_memory) return tl::make_unexpected(send_memory.error());
  if (!receive_memory) return tl::make_unexpected(receive_memory.error());
  send_memory_ = std::move(*send_memory);
  receive_memory_ = std::move(*receive_memory);
  std::memset(send_memory_.data(), 0x7b, send_memory_.size());

  pd_ = engine.allocate_pd();
  auto send_region = engine.register_memory(pd_, send_memory_.data(), options_.size, 0);
  if (!send_region) return tl::make_unexpected(send_region.error());
  send_region_ = *send_region;
  auto receive_region =
      engine.register_memory(pd_, receive_memory_.data(), receive_bytes, roce::kAccessLocalWrite);
  if (!receive_region) return tl::make_unexpected(receive_region.error());
  receive_region_ = *receive_region;
  return create_queue_pair();
}

Expected<void> Session::create_queue_pair() {
  roce::Engine& engine = endpoint_.engine();
  auto cq = roce::CompletionQueue::create(options_.rx_depth + 1);
  if (!cq) return tl::make_unexpected(cq.error());
  cq_ = std::move(*cq);
  roce::QpInit init;
  init.qp_type = options_.transport;
  init.pd = pd_;
  init.send_cq = cq_.get();
  init.recv_cq = cq_.get();
  init.max_send_wr = 1;
  init.max_recv_wr = options_.rx_depth;
  auto qp = engine.create_qp(init);
  if (!qp) return tl::make_unexpected(qp.error());
  qp_ = *qp;
  roce::QpAttributes attributes;
  attributes.qp_state = roce::QpState::init;
  attributes.qkey = kQkey;
  if (auto moved = qp_->modify(attributes, steps_of(options_.transport).init); !moved) return moved;
  result_.local.qpn = qp_->number();
  result_.local.psn = engine.random_psn();
  return post_receives();
}

Expected<stack::IpAddress> Session::choose_gid(const Destination* remote) const {
  const auto& table = endpoint_.addresses();
  if (options_.gid_index) return table[*options_.gid_index].address;
  if (remote == nullptr) return table.front().address;
  return endpoint_.address_of_family(remote->gid.is_ipv4());
}

Expected<void> Session::connect_as_client() {
  auto gid = choose_gid(nullptr);
  if (!gid) return tl::make_unexpected(gid.error());
  result_.local.gid = *gid;
  if (!options_.json) fmt::print("  local address:  {}\n", describe(result_.local));
  auto connection = TcpConnection::connect(options_.host, options_.port,
                                           endpoint_.config().connect_timeout_ms, endpoint_);
  if (!connection) return tl::make_unexpected(connection.error());
  connection_ = std::move(*connection);
  if (auto up = endpoint_.wait_for_link(); !up) return up;
  auto remote = exchange_as_client(*connection_, result_.local, kPeerTimeoutMs, endpoint_);
  if (!remote) return tl::make_unexpected(remote.error());
  result_.remote = *remote;
  content_.emplace(result_.local.psn, result_.remote.psn, PageMemory::page_size());
  content_->expect_own();
  pending_ = kReceiveId;
  return connect_queue_pair();
}

Expected<void> Session::connect_as_server() {
  auto listener = TcpListener::open(options_.port);
  if (!listener) return tl::make_unexpected(listener.error());
  if (options_.port == 0) fmt::print(stderr, "listening on TCP port {}\n", listener->port());
  auto connection = listener->accept(endpoint_);
  if (!connection) return tl::make_unexpected(connection.error());
  connection_ = std::move(*connection);
  if (auto up = endpoint_.wait_for_link(); !up) return up;
  auto remote = receive_from_client(*connection_, kPeerTimeoutMs, endpoint_);
  if (!remote) return tl::make_unexpected(remote.error());
  result_.remote = *remote;
  auto gid = choose_gid(&result_.remote);
  if (!gid) return tl::make_unexpected(gid.error());
  result_.local.gid = *gid;
  if (!options_.json) fmt::print("  local address:  {}\n", describe(result_.local));
  content_.emplace(result_.remote.psn, result_.local.psn, PageMemory::page_size());
  pending_ = kReceiveId;
  if (auto connected = connect_queue_pair(); !connected) return connected;
  return answer_client(*connection_, result_.local, kPeerTimeoutMs, endpoint_);
}

Expected<void> Session::connect_queue_pair() {
  roce::QpAttributes attributes;
  attributes.qp_state = roce::QpState::rtr;
  attributes.path_mtu = static_cast<roce::PathMtu>(options_.path_mtu);
  attributes.dest_qp_num = result_.remote.qpn;
  attributes.rq_psn = result_.remote.psn;
  attributes.max_dest_rd_atomic = 1;
  attributes.min_rnr_timer = 12;
  attributes.ah_attr.source = result_.local.gid;
  attributes.ah_attr.destination = result_.remote.gid;
  attributes.ah_attr.service_level = static_cast<std::uint8_t>(options_.service_level);
  const Steps steps = steps_of(options_.transport);
  if (auto moved = qp_->modify(attributes, steps.rtr); !moved) return moved;
  attributes.qp_state = roce::QpState::rts;
  attributes.timeout = static_cast<std::uint8_t>(options_.ack_timeout);
  attributes.retry_cnt = 7;
  attributes.rnr_retry = 7;
  attributes.sq_psn = result_.local.psn;
  attributes.max_rd_atomic = 1;
  if (auto moved = qp_->modify(attributes, steps.rts); !moved || !is_ud()) return moved;
  auto ah = endpoint_.engine().create_ah(pd_, attributes.ah_attr);
  if (!ah) return tl::make_unexpected(ah.error());
  ah_ = *ah;
  return {};
}

Expected<void> Session::post_receives() {
  const roce::Sge sge{reinterpret_cast<std::uint64_t>(receive_memory_.data()),
                      options_.size + grh_bytes(), receive_region_.key};
  const roce::RecvWr request{kReceiveId, {&sge, 1}};
  for (; receives_posted_ < options_.rx_depth; ++receives_posted_) {
    const roce::PostResult result = qp_->post_recv(request);
    if (result != roce::PostResult::ok) {
      return fail(ErrorCode::invalid_state, "posting a receive failed: {}",
                  roce::to_string(result));
    }
  }
  return {};
}

Expected<void> Session::send_message() {
  const std::span<std::byte> message = is_client() ? send_memory_.bytes() : received_bytes();
  const roce::MemoryRegion& region = is_client() ? send_region_ : receive_region_;
  if (is_client() && options_.check) content_->fill(message, sent_);
  const roce::Sge sge{reinterpret_cast<std::uint64_t>(message.data()), options_.size, region.key};
  roce::SendWr request;
  request.wr_id = kSendId;
  request.sg_list = {&sge, 1};
  request.send_flags = roce::kSendSignaled;
  request.ah = ah_;
  request.remote_qpn = result_.remote.qpn;
  request.remote_qkey = kQkey;
  const roce::PostResult result = qp_->post_send(request);
  if (result != roce::PostResult::ok) {
    return fail(ErrorCode::invalid_state, "posting a send failed: {}", roce::to_string(result));
  }
  pending_ = kReceiveId | kSendId;
  return {};
}

Expected<void> Session::exchange_messages() {
  Progress progress("exchanges");
  if (is_client()) {
    if (auto posted = send_message(); !posted) return posted;
  }
  std::array<roce::Completion, 16> completions;
  std::uint32_t turns = 0;
  while (!finished()) {
    (void)endpoint_.turn();
    const std::size_t count = cq_->poll(completions);
    for (std::size_t i = 0; i < count; ++i) {
      if (auto handled = handle(completions[i]); !handled) return handled;
    }
    if (count > 0) {
      last_progress_ns_ = 0;  // dated at the next check
      progress.update(received_, options_.iterations);
    } else if (options_.events) {
      await_event();
    }
    if (++turns % kTurnsPerCheck == 0) {
      if (auto alive = check_alive(); !alive) return alive;
    }
  }
  return {};
}

Expected<void> Session::handle(const roce::Completion& completion) {
  if (completion.status != roce::WcStatus::success) {
    return fail(ErrorCode::io, "{} failed with status {} ({}) after {} of {} exchanges",
                completion.wr_id == kSendId ? "send" : "receive",
                roce::to_string(completion.status), static_cast<int>(completion.status), received_,
                options_.iterations);
  }
  if (completion.wr_id == kSendId) {
    ++sent_;
  } else if (auto taken = take_message(completion); !taken) {
    return taken;
  }
  pending_ &= ~static_cast<std::uint32_t>(completion.wr_id);
  return pending_ == 0 && sent_ < options_.iterations ? send_message() : Expected<void>{};
}

Expected<void> Session::take_message(const roce::Completion& completion) {
  if (completion.byte_len != options_.size + grh_bytes()) {
    return fail(ErrorCode::io, "message {} has {} bytes, not {}; give both ends the same --size",
                received_, completion.byte_len, options_.size + grh_bytes());
  }
  if (options_.check) {
    const auto wrong = content_->check(received_bytes(), received_);
    if (wrong) return fail(ErrorCode::io, "invalid data: {}", *wrong);
    ++result_.messages_checked;
  }
  ++received_;
  // As the stock tool: a new lot when the last but one is used.
  if (--receives_posted_ <= 1) return post_receives();
  return {};
}

Expected<void> Session::check_alive() {
  if (stop_requested()) return tl::make_unexpected(interrupted());
  const std::uint64_t now_ns = steady_now_ns();
  if (last_progress_ns_ == 0) last_progress_ns_ = now_ns;
  if (!endpoint_.link_alive()) {
    return fail(ErrorCode::io, "the link went down after {} of {} exchanges: the peer has gone",
                received_, options_.iterations);
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
