// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace rockhopper::conformance {

/// The device cannot do what was asked; the text says why. Control path of a test only.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Rights of memory and of the queue pair; values as in enum ibv_access_flags.
enum Access : std::uint32_t {
  kLocalWrite = 1u << 0,
  kRemoteWrite = 1u << 1,
  kRemoteRead = 1u << 2,
  kRemoteAtomic = 1u << 3,
  kMwBind = 1u << 4,
  kZeroBased = 1u << 5,
  kFlushGlobal = 1u << 8,
  kFlushPersistent = 1u << 9,
  /// The peer's SEND with Invalidate may end the key's life.
  kRemoteInvalidate = 1u << 16,
};

struct RegionSpec {
  std::string name;
  std::uint32_t access = 0;           ///< of Access
  bool other_pd = false;              ///< in another protection domain than the queue pair
  std::vector<std::uint8_t> content;  ///< its length is the region's
};

/// A memory window, not bound yet.
struct WindowSpec {
  std::string name;
  unsigned type = 1;  ///< 1 or 2, as enum ibv_mw_type
};

/// A queue pair and its one peer, which is the script; attributes as in ibv_qp_attr.
struct QueuePairSpec {
  std::string type;             ///< rc, uc, ud, xrc
  bool initiator = false;       ///< xrc: else it is the target
  std::string state;            ///< to be brought to: reset, init, rtr, rts
  bool srq = false;             ///< receive requests go to a shared receive queue
  std::uint32_t srq_limit = 0;  ///< of that
  std::uint32_t access = 0;
  std::uint32_t path_mtu = 0;  ///< in bytes
  std::uint32_t qkey = 0;
  std::uint32_t sq_psn = 0;
  std::uint32_t rq_psn = 0;
  std::uint8_t timeout = 0;
  std::uint8_t retry_cnt = 0;
  std::uint8_t rnr_retry = 0;
  std::uint8_t min_rnr_timer = 0;
  std::uint8_t max_rd_atomic = 0;
  std::uint8_t max_dest_rd_atomic = 0;
  std::string group;  ///< a multicast address that it is attached to; empty: none
  std::string peer_address;
  std::string peer_mac;
  std::uint32_t peer_qpn = 0;
};

struct OpenedRegion {
  std::string name;
  std::uint64_t address = 0;
  std::uint32_t key = 0;
};

/// An SRQ that an XRC target can be told to use. `first` takes receive requests, in the protection
/// domain of most regions; `second` is of the other one; `foreign` is of another XRC domain.
struct OpenedSrq {
  std::string name;
  std::uint32_t number = 0;
};

struct Opened {
  std::uint32_t qpn = 0;
  std::vector<OpenedRegion> regions;
  std::vector<OpenedSrq> srqs;
};

/// A piece of a region, by the region's name.
struct Element {
  std::string region;
  std::uint32_t offset = 0;
  std::uint32_t length = 0;
  bool bad_lkey = false;
};

/// Opcodes are numbered as in enum ibv_wr_opcode, which the runner knows by name.
enum class Opcode : std::uint8_t {
  rdma_write,
  rdma_write_with_imm,
  send,
  send_with_imm,
  rdma_read,
  atomic_cmp_and_swp,
  atomic_fetch_and_add,
  send_with_inv,
  local_inv,
  bind_mw,
};

/// What a bind asks for, as ibv_mw_bind_info.
struct BindSpec {
  std::string window;
  std::string region;
  std::uint32_t offset = 0;  ///< in the region
  std::uint32_t length = 0;
  std::uint32_t access = 0;
};

struct SendSpec {
  std::uint64_t wr_id = 0;
  Opcode opcode = Opcode::send;
  std::vector<Element> elements;
  bool fence = false;
  bool signaled = true;
  bool solicited = false;
  bool is_inline = false;
  std::uint32_t imm_data = 0;  ///< host order
  std::uint32_t invalidate_rkey = 0;
  std::uint64_t remote_addr = 0;
  std::uint32_t rkey = 0;
  std::uint64_t compare_add = 0;
  std::uint64_t swap = 0;
  std::uint32_t remote_qkey = 0;            ///< UD
  bool to_group = false;                    ///< UD: to the queue pair's group instead of the peer
  std::optional<std::uint32_t> remote_qpn;  ///< UD: instead of the destination's
  std::uint32_t remote_srqn = 0;            ///< XRC
  BindSpec bind;                            ///< bind_mw
  bool other_qp = false;                    ///< by another queue pair of the same domain: bind_mw
};

/// What became of a posted request.
struct Posted {
  bool ok = false;         ///< false: refused at once
  std::uint32_t rkey = 0;  ///< bind_mw: that the window will have
};

struct Completed {
  bool receive = false;
  std::uint64_t wr_id = 0;
  std::string status;  ///< as in enum ibv_wc_status, in small letters
  std::string opcode;  ///< as in enum ibv_wc_opcode, in small letters; only of a success
  std::uint32_t byte_len = 0;
  std::optional<std::uint32_t> imm_data;
  std::optional<std::uint32_t> invalidated_rkey;
  std::optional<std::uint32_t> src_qp;  ///< UD receives
};

/// What a script is played against, apart from its packets: one queue pair at a time.
class Device {
 public:
  Device() = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  /// Addresses of the device (IPv4 and IPv6) and the MAC address that leads to it; empty if the
  /// runner knows them better.
  [[nodiscard]] virtual std::vector<std::string> addresses() const = 0;
  [[nodiscard]] virtual std::string mac() const = 0;

  /// Ends what the last script has left, then makes everything anew.
  [[nodiscard]] virtual Opened open(const QueuePairSpec& qp, const std::vector<RegionSpec>& regions,
                                    const std::vector<WindowSpec>& windows) = 0;
  virtual void close() = 0;

  [[nodiscard]] virtual Posted post_send(const SendSpec& spec) = 0;
  /// `srq` is the name of an SRQ, or empty where there is no choice. False: refused at once.
  [[nodiscard]] virtual bool post_recv(std::uint64_t wr_id, const std::vector<Element>& elements,
                                       const std::string& srq) = 0;
  /// All completions since the last call.
  [[nodiscard]] virtual std::vector<Completed> poll() = 0;
  /// Asynchronous events since the last call; names as in enum ibv_event_type.
  [[nodiscard]] virtual std::vector<std::string> events() = 0;

  virtual void modify_state(const std::string& state) = 0;
  [[nodiscard]] virtual std::string state() = 0;
  virtual void deregister(const std::string& region) = 0;
  [[nodiscard]] virtual std::vector<std::uint8_t> memory(const std::string& region) = 0;

  /// What a person wants to know of a failed script: counters that are not 0, by name.
  [[nodiscard]] virtual std::vector<std::pair<std::string, std::uint64_t>> counters() = 0;
};

}  // namespace rockhopper::conformance
