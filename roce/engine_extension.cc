// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// What an extension may do to the engine.
#include <algorithm>
#include <cassert>
#include <memory>
#include <utility>

#include "roce/engine.h"
#include "roce/extension.h"
#include "roce/extension_context.h"

namespace rockhopper::roce {

class Engine::ExtensionServices final : public ExtensionContext {
 public:
  explicit ExtensionServices(Engine& engine) : engine_(engine) {}

  [[nodiscard]] const EngineConfig& config() const override { return engine_.config_; }
  [[nodiscard]] stack::TimingWheel& timers() override { return engine_.timers_; }
  [[nodiscard]] std::uint64_t now_ns() const override { return engine_.now_ns_; }
  [[nodiscard]] AddressHandle* find_ah(std::uint64_t id) const override {
    return engine_.find_ah(id);
  }

  [[nodiscard]] Expected<ExtensionQp*> create_qp(
      wire::Qpn number, const QpInit& init,
      const ExtensionQp::MakeTransport& make_transport) override {
    if (!only_responds(init.qp_type) && !engine_.has_pd(init.pd)) {
      return fail(ErrorCode::not_found, "no such protection domain");
    }
    ROCKHOPPER_TRY(check_sizes(init));
    if (init.lock_execution) engine_.need_locks();
    auto& qps = engine_.extension_qps_;
    qps.push_back(std::make_unique<ExtensionQp>(engine_, number, init, make_transport));
    count_users(init, 1);
    return qps.back().get();
  }

  void destroy_qp(ExtensionQp* qp) override {
    auto& qps = engine_.extension_qps_;
    // Those that were made last go first, as a rule.
    const auto found = std::find_if(qps.rbegin(), qps.rend(),
                                    [qp](const auto& candidate) { return candidate.get() == qp; });
    assert(found != qps.rend());
    count_users(qp->init(), -1);
    std::swap(*found, qps.back());
    qps.pop_back();
  }

  [[nodiscard]] std::optional<DropReason> deliver(ExtensionQp& qp,
                                                  const stack::UdpDatagram& datagram,
                                                  const RxPacket& packet,
                                                  std::uint64_t now_ns) override {
    return engine_.accept_for(qp, datagram, packet, now_ns);
  }
  [[nodiscard]] bool admits(const ExtensionQp& qp, const RxPacket& packet) const override {
    return engine_.admits(qp, packet.headers.bth.pkey);
  }
  [[nodiscard]] bool obey_cnp(ExtensionQp& qp, std::uint64_t now_ns) override {
    return Engine::obey_cnp(qp, now_ns);
  }
  void count_cnp(bool obeyed) override { engine_.count_cnp(obeyed); }

  [[nodiscard]] Expected<void> check_receive_side(ProtectionDomain pd,
                                                  const SharedReceiveQueue* srq,
                                                  const CompletionQueue* cq) const override {
    if (!engine_.has_pd(pd)) return fail(ErrorCode::not_found, "no such protection domain");
    if (srq == nullptr || cq == nullptr || engine_.find_srq(srq->number()) != srq) {
      return fail(ErrorCode::invalid_argument,
                  "a shared receive queue of the engine and a completion queue are needed");
    }
    return {};
  }
  void use_receive_side(SharedReceiveQueue* srq, CompletionQueue* cq, int change) override {
    QpInit init;
    init.recv_cq = cq;
    init.srq = srq;
    count_users(init, change);
  }

 private:
  Engine& engine_;
};

ExtensionContext& Engine::attach_extension(Extension& extension) {
  assert(extension_ == nullptr);
  if (extension_context_ == nullptr) {
    extension_context_ = std::make_unique<ExtensionServices>(*this);
  }
  extension_ = &extension;
  return *extension_context_;
}

void Engine::detach_extension() { extension_ = nullptr; }

}  // namespace rockhopper::roce
