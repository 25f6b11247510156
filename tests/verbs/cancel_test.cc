// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Threads that are cancelled: those that wait for an event at once, and others not in the middle of
// a verb.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <rdma/rdma_user_cm.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/verbs/rig.h"

namespace rockhopper::test {
namespace {

/// A thread that can be cancelled.
class Cancelled {
 public:
  explicit Cancelled(std::function<void()> work) : work_(std::move(work)) {
    EXPECT_EQ(pthread_create(&thread_, nullptr, &run, this), 0);
  }
  Cancelled(const Cancelled&) = delete;
  Cancelled& operator=(const Cancelled&) = delete;
  /// Ends it, which must be by being cancelled.
  ~Cancelled() {
    EXPECT_EQ(pthread_cancel(thread_), 0);
    void* result = nullptr;
    EXPECT_EQ(pthread_join(thread_, &result), 0);
    EXPECT_EQ(result, PTHREAD_CANCELED);
  }

 private:
  static void* run(void* self) {
    static_cast<Cancelled*>(self)->work_();
    return nullptr;
  }

  const std::function<void()> work_;
  pthread_t thread_{};
};

class Cancellation : public ::testing::Test {
 protected:
  static constexpr unsigned kRounds = 300;
  static constexpr std::uint32_t kLength = 32768;  ///< a capture is written often

  Cancellation() { connect(qp_, peer_); }

  /// One message, with an event for its receiver. The engine library has no point at which a thread
  /// is cancelled, so none is lost.
  void send_one() {
    ASSERT_EQ(ibv_req_notify_cq(b_.cq, 0), 0);
    ASSERT_EQ(post_recv(peer_, 1, b_.element(0, kLength)), 0);
    ASSERT_EQ(post_send(qp_, 2, IBV_WR_SEND, a_.element(0, kLength)), 0);
    EXPECT_EQ(next(a_.cq).status, IBV_WC_SUCCESS);
    EXPECT_EQ(next(b_.cq).status, IBV_WC_SUCCESS);
  }
  /// Takes and acknowledges an event; false if there is none.
  bool take_event() {
    ibv_cq* cq = nullptr;
    void* cq_context = nullptr;
    if (table().get_cq_event(b_.channel, &cq, &cq_context) != 0) return false;
    table().ack_cq_events(cq, 1);
    return true;
  }
  /// Runs a thread that does this all the time, and cancels it after some rounds.
  void cancel_often(const std::function<void()>& work) {
    std::minstd_rand random(1);
    for (unsigned round = 0; round < kRounds; ++round) {
      std::atomic<unsigned> done{0};
      const Cancelled thread([&] {
        while (true) {
          work();
          ++done;
          pthread_testcancel();
        }
      });
      for (const std::uint64_t wanted = random() % 8; done < wanted;) {
        sched_yield();
      }
    }
  }

  void cancel_traffic() {
    fcntl(b_.channel->fd, F_SETFL, fcntl(b_.channel->fd, F_GETFL) | O_NONBLOCK);
    cancel_often([this] {
      send_one();
      // The event is there already, but its descriptor is a point at which a thread is cancelled.
      (void)take_event();
    });
    send_one();
  }

  End a_;
  End b_{256, table().create_comp_channel};
  ibv_qp* qp_ = a_.create_qp(IBV_QPT_RC);
  ibv_qp* peer_ = b_.create_qp(IBV_QPT_RC);
};

TEST_F(Cancellation, OfOneThatWaitsForACompletion) {
  {
    const Cancelled thread([this] { EXPECT_TRUE(take_event()); });
  }
  send_one();
  EXPECT_TRUE(take_event());
}

TEST_F(Cancellation, OfOneThatWaitsForAnAsynchronousEvent) {
  {
    const Cancelled thread([this] {
      ibv_async_event event{};
      (void)table().get_async_event(a_.context, &event);
    });
  }
  send_one();
}

/// Asks for an event, as librdmacm does; false if that is no channel.
bool wait_for_event(int fd) {
  struct {
    rdma_ucm_cmd_hdr header{.cmd = RDMA_USER_CM_CMD_GET_EVENT,
                            .in = sizeof(rdma_ucm_get_event),
                            .out = sizeof(rdma_ucm_event_resp)};
    rdma_ucm_get_event body{};
  } get;
  rdma_ucm_event_resp event{};
  get.body.response = reinterpret_cast<std::uintptr_t>(&event);
  ssize_t result = 0;
  return table().write_channel(fd, &get, sizeof get, &result);
}

/// A descriptor that another thread closes meanwhile: the kernel's device goes on waiting, and
/// programs end with an error if it does not.
TEST_F(Cancellation, OfOneThatWaitsForAChannelThatIsClosed) {
  std::minstd_rand random(1);
  for (unsigned round = 0; round < kRounds; ++round) {
    const int fd = table().open_channel(device(), O_RDWR | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    std::atomic<bool> started{false};
    const Cancelled thread([&] {
      started = true;
      if (!wait_for_event(fd)) pause();  // it was closed before
    });
    while (!started) {
    }
    for (std::atomic<std::uint64_t> turns = random() % 4000; turns > 0; --turns) {
    }
    // To use it meanwhile is a race, of which ThreadSanitizer need not know.
    EXPECT_EQ(syscall(SYS_close, fd), 0);
    table().closed_channel();
  }
}

TEST_F(Cancellation, OfOneThatWaitsForTheConnectionManager) {
  const int fd = table().open_channel(device(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  {
    const Cancelled thread([&] { (void)wait_for_event(fd); });
  }
  // Its locks are free.
  struct {
    rdma_ucm_cmd_hdr header{.cmd = RDMA_USER_CM_CMD_CREATE_ID,
                            .in = sizeof(rdma_ucm_create_id),
                            .out = sizeof(rdma_ucm_create_id_resp)};
    rdma_ucm_create_id body{};
  } create;
  rdma_ucm_create_id_resp created{};
  create.body.response = reinterpret_cast<std::uintptr_t>(&created);
  create.body.ps = RDMA_PS_TCP;
  create.body.qp_type = IBV_QPT_RC;
  ssize_t result = 0;
  EXPECT_TRUE(table().write_channel(fd, &create, sizeof create, &result));
  EXPECT_EQ(result, ssize_t{sizeof create});
  EXPECT_EQ(close(fd), 0);
  table().closed_channel();
}

/// The events are written to descriptors, where a thread could be cancelled.
TEST_F(Cancellation, OfOneThatPostsAndPolls) { cancel_traffic(); }

/// A setting of the device, for as long as the test has it.
class Setting {
 public:
  Setting(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), 1);
  }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;
  ~Setting() { unsetenv(name_); }

 private:
  const char* name_;
};

/// The frames are written to a file.
struct Capture {
  std::string path = ::testing::TempDir() + "rockhopper-" + std::to_string(getpid()) + ".pcapng";
  Setting setting{"ROCKHOPPER_PCAP", path};
  ~Capture() { unlink(path.c_str()); }
};
class CancellationWithCapture : private Capture, public Cancellation {};

TEST_F(CancellationWithCapture, OfOneThatPostsAndPolls) { cancel_traffic(); }

TEST_F(Cancellation, OfOneThatMakesAndEndsObjects) {
  cancel_often([] {
    ibv_context* context = open_device();
    ibv_comp_channel* channel = table().create_comp_channel(context);
    ibv_cq* cq = table().create_cq(context, 16, nullptr, channel, 0);
    EXPECT_NE(cq, nullptr);
    EXPECT_EQ(table().destroy_cq(cq), 0);
    EXPECT_EQ(table().destroy_comp_channel(channel), 0);
    EXPECT_EQ(table().close_device(context), 0);
  });
  send_one();
}

}  // namespace
}  // namespace rockhopper::test
