// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <unordered_map>

#include "roce/cm/lookup.h"
#include "roce/cm/manager_parts.h"

namespace rockhopper::roce::cm {

/// Service ID resolution: which queue pair takes datagrams for a service (IBTA vol. 1, 12.11).
class Resolver {
 public:
  /// `parts` must outlive it.
  explicit Resolver(ManagerParts& parts) : parts_(parts) {}
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  /// As ConnectionManager's.
  [[nodiscard]] Expected<Lookup*> resolve(const ResolveParameters& parameters);
  [[nodiscard]] Expected<void> answer(Lookup& lookup, wire::Qpn qpn, std::uint32_t qkey,
                                      std::span<const std::uint8_t> private_data);
  [[nodiscard]] Expected<void> refuse(Lookup& lookup, wire::cm::SidrStatus status,
                                      std::span<const std::uint8_t> private_data);
  void release(Lookup& released);
  /// Nobody serves it any more.
  void stop_listening(std::uint64_t service_id);
  void on_req(const ReceivedMad& mad, std::uint64_t transaction_id, const wire::cm::SidrReq& req);
  void on_rep(const ReceivedMad& mad, const wire::cm::SidrRep& rep);

 private:
  /// A lookup as the manager's parts see it.
  struct ManagedLookup final : Lookup {
    ManagedLookup(Resolver& of, std::uint32_t id, bool ours)
        : Lookup(ours), resolver(of), request_id(id), pending(on_timer, this) {}
    using Lookup::ours_;
    using Lookup::path_;
    using Lookup::service_id_;

    Resolver& resolver;
    const std::uint32_t request_id;
    bool is_done = false;  ///< answered; a peer's is kept for a while to answer repetitions
    Listeners::Place place{};
    std::uint64_t transaction_id = 0;
    PendingAnswer pending;  ///< the request, or our answer

   private:
    static void on_timer(void* self, std::uint64_t /*now_ns*/) {
      auto& lookup = *static_cast<ManagedLookup*>(self);
      lookup.resolver.on_timer(lookup);
    }
  };

  [[nodiscard]] Expected<void> reply(ManagedLookup& lookup, wire::cm::SidrRep reply,
                                     std::span<const std::uint8_t> private_data);
  void on_timer(ManagedLookup& lookup);
  void forget(const ManagedLookup& lookup);

  ManagerParts& parts_;
  std::unordered_map<std::uint32_t, std::unique_ptr<ManagedLookup>> ours_;  ///< by request ID
  std::map<PeerKey, std::unique_ptr<ManagedLookup>> peers_;
};

}  // namespace rockhopper::roce::cm
