// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// A program of libibverbs with several queue pairs, each connected to one of any other process.
// Sends numbered messages on all of them, verifies those that come, and finds out when a peer has
// gone: while a queue pair waits, it has a request without data under way.
//
//   harm_peer QUEUE_PAIRS MESSAGES TIMEOUT [poll|events] [exit]
//
// Prints the queue pairs' numbers, reads as many numbers of their peers, and prints "done" or
// "error STATUS" of the first completion that failed. Goes on to answer peers until a line comes or
// the input ends. With `exit` it leaves in the middle of its messages, and destroys nothing.
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <infiniband/verbs.h>
#include <poll.h>
#include <sched.h>

namespace {

constexpr std::uint32_t kMessageBytes = 5000;  // two packets
constexpr int kReceives = 8;
constexpr std::uint32_t kSends = 4;
constexpr std::uint64_t kProbe = 1;  ///< in a wr_id, beside the queue pair
constexpr int kLookMs = 20;

[[noreturn]] void give_up(const char* what) {
  std::perror(what);
  std::exit(3);
}

/// A request's identifier: queue pair, slot of the buffer, and whether it is one without data.
std::uint64_t id_of(std::size_t pair, std::uint32_t slot, std::uint64_t probe) {
  return static_cast<std::uint64_t>(pair) << 32 | std::uint64_t{slot} << 1 | probe;
}

struct Pair {
  ibv_qp* qp = nullptr;
  std::uint32_t posted = 0;    ///< messages
  std::uint32_t sent = 0;      ///< and completed
  std::uint32_t received = 0;  ///< in order, each right
  bool probes = false;         ///< a request without data is under way
  std::vector<std::uint32_t> sends{};
  std::vector<std::uint32_t> receives{};
};

class Peer {
 public:
  Peer(std::size_t pairs, std::uint32_t messages, int timeout, bool waits)
      : messages_(messages),
        timeout_(static_cast<std::uint8_t>(timeout)),
        waits_(waits),
        pairs_(pairs) {
    int count = 0;
    ibv_device** devices = ibv_get_device_list(&count);
    if (devices == nullptr || count == 0) give_up("no device");
    context_ = ibv_open_device(devices[0]);
    if (context_ == nullptr) give_up("ibv_open_device");
    ibv_free_device_list(devices);
    pd_ = ibv_alloc_pd(context_);
    channel_ = ibv_create_comp_channel(context_);
    const int entries = 1 + static_cast<int>(pairs) * (kReceives + static_cast<int>(kSends) + 1);
    cq_ = ibv_create_cq(context_, entries, nullptr, channel_, 0);
    if (pd_ == nullptr || cq_ == nullptr || ibv_req_notify_cq(cq_, 0) != 0) {
      give_up("ibv_create_cq");
    }
    for (Pair& pair : pairs_) {
      make(pair);
    }
  }
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  void connect() {
    for (const Pair& pair : pairs_) {
      std::printf("%u ", pair.qp->qp_num);
    }
    std::printf("\n");
    std::fflush(stdout);
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
      unsigned number = 0;
      if (std::scanf("%u", &number) != 1) std::exit(0);
      bring_up(pairs_[i], number);
      for (std::uint32_t slot = 0; slot < kReceives; ++slot) {
        receive(i, slot);
      }
    }
    (void)std::getchar();  // the line's end
    ready();
  }

  void run(std::uint32_t leave_after) {
    bool told = false;
    while (true) {
      bool moved = false;
      for (std::size_t i = 0; i < pairs_.size() && status_ == IBV_WC_SUCCESS; ++i) {
        moved = send(i) || moved;
      }
      moved = take_completions() || moved;
      if (leave_after > 0 && pairs_[0].sent >= leave_after) std::exit(0);
      if (!told && (status_ != IBV_WC_SUCCESS || is_done())) {
        if (status_ == IBV_WC_SUCCESS) {
          std::printf("done\n");
        } else {
          std::printf("error %s\n", ibv_wc_status_str(status_));
        }
        std::fflush(stdout);
        told = true;
      }
      if (!moved && pause(told)) return;
    }
  }

  void end() {
    for (Pair& pair : pairs_) {
      if (ibv_destroy_qp(pair.qp) != 0) give_up("ibv_destroy_qp");
    }
    for (ibv_mr* region : regions_) {
      if (ibv_dereg_mr(region) != 0) give_up("ibv_dereg_mr");
    }
    if (ibv_destroy_cq(cq_) != 0 || ibv_destroy_comp_channel(channel_) != 0 ||
        ibv_dealloc_pd(pd_) != 0 || ibv_close_device(context_) != 0) {
      give_up("ibv_close_device");
    }
  }

 private:
  void make(Pair& pair) {
    pair.sends.resize(kSends * kMessageBytes / 4);
    pair.receives.resize(kReceives * kMessageBytes / 4);
    constexpr int kAccess = IBV_ACCESS_LOCAL_WRITE;
    for (std::vector<std::uint32_t>* memory : {&pair.sends, &pair.receives}) {
      regions_.push_back(ibv_reg_mr(pd_, memory->data(), memory->size() * 4, kAccess));
      if (regions_.back() == nullptr) give_up("ibv_reg_mr");
    }
    ibv_qp_init_attr init{};
    init.send_cq = init.recv_cq = cq_;
    init.cap.max_send_wr = kSends + 1;
    init.cap.max_recv_wr = kReceives;
    init.cap.max_send_sge = init.cap.max_recv_sge = 1;
    init.qp_type = IBV_QPT_RC;
    pair.qp = ibv_create_qp(pd_, &init);
    if (pair.qp == nullptr) give_up("ibv_create_qp");
  }

  void bring_up(Pair& pair, std::uint32_t peer) {
    ibv_qp_attr attributes{};
    attributes.qp_state = IBV_QPS_INIT;
    attributes.port_num = 1;
    attributes.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    if (ibv_modify_qp(pair.qp, &attributes,
                      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0) {
      give_up("INIT");
    }
    attributes.qp_state = IBV_QPS_RTR;
    attributes.path_mtu = IBV_MTU_4096;
    attributes.dest_qp_num = peer;
    attributes.min_rnr_timer = 12;
    attributes.ah_attr.is_global = 1;
    attributes.ah_attr.port_num = 1;
    attributes.ah_attr.grh.hop_limit = 64;
    if (ibv_query_gid(context_, 1, 0, &attributes.ah_attr.grh.dgid) != 0) give_up("GID");
    if (ibv_modify_qp(pair.qp, &attributes,
                      IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                          IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0) {
      give_up("RTR");
    }
    attributes.qp_state = IBV_QPS_RTS;
    attributes.timeout = timeout_;
    attributes.retry_cnt = 7;
    attributes.rnr_retry = 7;
    if (ibv_modify_qp(pair.qp, &attributes,
                      IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
                          IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC) != 0) {
      give_up("RTS");
    }
  }

  /// All processes of a test have come as far as this before any sends.
  static void ready() {
    std::printf("ready\n");
    std::fflush(stdout);
    int next = 0;
    while ((next = std::getchar()) != '\n') {
      if (next == EOF) std::exit(0);
    }
  }

  void receive(std::size_t index, std::uint32_t slot) {
    Pair& pair = pairs_[index];
    ibv_sge element{};
    element.addr = reinterpret_cast<std::uint64_t>(&pair.receives[slot * kMessageBytes / 4]);
    element.length = kMessageBytes;
    element.lkey = regions_[2 * index + 1]->lkey;
    ibv_recv_wr wr{};
    wr.wr_id = id_of(index, slot, 0);
    wr.sg_list = &element;
    wr.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    if (ibv_post_recv(pair.qp, &wr, &bad) != 0 && status_ == IBV_WC_SUCCESS) give_up("receive");
  }

  /// Posts a message, or a request without data if nothing else is under way. Returns false if
  /// there is nothing to post.
  bool send(std::size_t index) {
    Pair& pair = pairs_[index];
    ibv_sge element{};
    ibv_send_wr wr{};
    wr.send_flags = IBV_SEND_SIGNALED;
    if (pair.posted < messages_ && pair.posted - pair.sent < kSends) {
      const std::uint32_t slot = pair.posted % kSends;
      std::uint32_t* words = &pair.sends[slot * kMessageBytes / 4];
      for (std::uint32_t i = 0; i < kMessageBytes / 4; ++i) {
        words[i] = pair.posted * 0x9e3779b9u + i;
      }
      element.addr = reinterpret_cast<std::uint64_t>(words);
      element.length = kMessageBytes;
      element.lkey = regions_[2 * index]->lkey;
      wr.wr_id = id_of(index, slot, 0);
      wr.sg_list = &element;
      wr.num_sge = 1;
      wr.opcode = IBV_WR_SEND;
      ++pair.posted;
    } else if (pair.sent == messages_ && !pair.probes && wants_probe_) {
      wr.wr_id = id_of(index, 0, kProbe);
      wr.opcode = IBV_WR_RDMA_WRITE;
      pair.probes = true;
    } else {
      return false;
    }
    ibv_send_wr* bad = nullptr;
    if (ibv_post_send(pair.qp, &wr, &bad) != 0) give_up("ibv_post_send");
    return true;
  }

  bool take_completions() {
    std::array<ibv_wc, 16> completions{};
    const int count = ibv_poll_cq(cq_, static_cast<int>(completions.size()), completions.data());
    if (count < 0) give_up("ibv_poll_cq");
    for (int i = 0; i < count; ++i) {
      take(completions[static_cast<std::size_t>(i)]);
    }
    wants_probe_ = false;
    return count > 0;
  }

  void take(const ibv_wc& completion) {
    const std::size_t index = completion.wr_id >> 32;
    Pair& pair = pairs_.at(index);
    if (completion.status != IBV_WC_SUCCESS) {
      if (status_ == IBV_WC_SUCCESS) status_ = completion.status;
      return;
    }
    if ((completion.opcode & IBV_WC_RECV) != 0) {
      const auto slot = static_cast<std::uint32_t>(completion.wr_id & UINT32_MAX) >> 1;
      verify(pair, slot, completion.byte_len);
      receive(index, slot);
    } else if ((completion.wr_id & kProbe) != 0) {
      pair.probes = false;
    } else {
      ++pair.sent;
    }
  }

  static void verify(Pair& pair, std::uint32_t slot, std::uint32_t length) {
    const std::uint32_t* words = &pair.receives[slot * kMessageBytes / 4];
    bool right = length == kMessageBytes;
    for (std::uint32_t i = 0; i < kMessageBytes / 4 && right; ++i) {
      right = words[i] == pair.received * 0x9e3779b9u + i;
    }
    if (!right) {
      std::fprintf(stderr, "message %u is wrong\n", pair.received);
      std::exit(4);
    }
    ++pair.received;
  }

  [[nodiscard]] bool is_done() const {
    for (const Pair& pair : pairs_) {
      if (pair.sent < messages_ || pair.received < messages_) return false;
    }
    return true;
  }

  /// Nothing moves. Returns true if it is time to end.
  bool pause(bool told) {
    std::array<pollfd, 2> entries{{{.fd = 0, .events = POLLIN, .revents = 0},
                                   {.fd = channel_->fd, .events = POLLIN, .revents = 0}}};
    const auto looked = static_cast<nfds_t>(waits_ ? 2 : 1);
    if (!waits_) {
      sched_yield();
      ++idle_;
    }
    const int found = ::poll(entries.data(), looked, waits_ ? kLookMs : 0);
    wants_probe_ = !told && (waits_ ? found == 0 : idle_ % 1000 == 0);
    if (entries[0].revents != 0) return told;
    if (waits_ && entries[1].revents != 0) {
      ibv_cq* cq = nullptr;
      void* cq_context = nullptr;
      if (ibv_get_cq_event(channel_, &cq, &cq_context) != 0) give_up("ibv_get_cq_event");
      ibv_ack_cq_events(cq, 1);
      if (ibv_req_notify_cq(cq_, 0) != 0) give_up("ibv_req_notify_cq");
    }
    return false;
  }

  const std::uint32_t messages_;
  const std::uint8_t timeout_;
  const bool waits_;
  ibv_context* context_ = nullptr;
  ibv_pd* pd_ = nullptr;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
  std::vector<Pair> pairs_;
  std::vector<ibv_mr*> regions_;  ///< of each queue pair two
  ibv_wc_status status_ = IBV_WC_SUCCESS;
  bool wants_probe_ = false;
  unsigned idle_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return 2;
  // What was read ahead would not be seen by poll().
  std::setvbuf(stdin, nullptr, _IONBF, 0);
  const auto messages = static_cast<std::uint32_t>(std::strtoul(argv[2], nullptr, 10));
  Peer peer(std::strtoul(argv[1], nullptr, 10), messages, std::atoi(argv[3]),
            std::strcmp(argv[4], "events") == 0);
  peer.connect();
  peer.run(argc > 5 ? messages / 2 + 1 : 0);
  peer.end();
  return 0;
}
