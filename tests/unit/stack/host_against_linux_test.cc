// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// The IP host against the Linux kernel's: a TAP device in a network namespace of its own, the host
// on the far side of it. Linux asks, answers, pings and checks checksums as it does with anyone.
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "stack/random.h"
#include "tests/support/packets.h"
#include "tests/support/seed.h"
#include "tests/unit/stack/host_fixture.h"

namespace rockhopper::stack::host_against_linux_test {
namespace {

constexpr const char* kUs4 = "192.0.2.1";
constexpr const char* kUs6 = "2001:db8::1";
constexpr const char* kLinux4 = "192.0.2.2";
constexpr const char* kLinux6 = "2001:db8::2";
constexpr std::uint16_t kLinuxPort = 5000;
constexpr int kMtu = 9000;
constexpr std::uint64_t kPatienceNs = 30'000'000'000;

/// A descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int get() const { return fd_; }

 private:
  int fd_;
};

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;
  [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

SocketAddress socket_address(const std::string& text, std::uint16_t port) {
  SocketAddress result;
  if (text.find(':') == std::string::npos) {
    auto* address = reinterpret_cast<sockaddr_in*>(&result.storage);
    address->sin_family = AF_INET;
    address->sin_port = htons(port);
    inet_pton(AF_INET, text.c_str(), &address->sin_addr);
    result.length = sizeof *address;
  } else {
    auto* address = reinterpret_cast<sockaddr_in6*>(&result.storage);
    address->sin6_family = AF_INET6;
    address->sin6_port = htons(port);
    inet_pton(AF_INET6, text.c_str(), &address->sin6_addr);
    result.length = sizeof *address;
  }
  return result;
}

class HostAgainstLinux : public HostFixture {
 protected:
  /// Runs `body` in a thread with a network namespace of its own, where the TAP device is up.
  void in_namespace(const std::function<void()>& body) {
    std::string reason;
    std::thread([&] {
      reason = set_up_namespace();
      if (reason.empty()) body();
    }).join();
    if (tap_ >= 0) close(tap_);
    tap_ = -1;
    if (!reason.empty()) {
      GTEST_SKIP() << reason;
    }
  }

  /// Carries packets both ways until `done`, or fails. All that waits is carried before `done` is
  /// asked again: that may take longer than Linux waits for an answer.
  void pump_until(const std::function<bool()>& done) {
    const std::uint64_t give_up_ns = clock_ns() + kPatienceNs;
    while (!done()) {
      ASSERT_LT(clock_ns(), give_up_ns) << "nothing came";
      do {
        now_ns_ = clock_ns();
        for (const Bytes& frame : sent()) {
          send_to_linux(frame);
        }
      } while (receive_from_linux());
    }
  }
  /// False: nothing has come for a while.
  bool receive_from_linux() {
    pollfd readable{tap_, POLLIN, 0};
    if (poll(&readable, 1, 1) != 1) return false;
    Bytes frame(kMtu + 18);
    const ssize_t length = read(tap_, frame.data(), frame.size());
    EXPECT_GT(length, 0);
    if (length <= 0) return false;
    frame.resize(static_cast<std::size_t>(length));
    now_ns_ = clock_ns();
    receive(frame);
    return true;
  }
  void send_to_linux(const Bytes& frame) {
    EXPECT_EQ(write(tap_, frame.data(), frame.size()), static_cast<ssize_t>(frame.size()));
  }
  /// Resolves the flow, with Linux answering, and sends a payload through it.
  void send_through(Flow& flow, const Bytes& payload) {
    pump_until([&] { return host_->resolve(flow, now_ns_) == Resolution::ready; });
    send_to_linux(encapsulated(flow, payload));
  }
  /// Real time that goes on from the fixture's.
  [[nodiscard]] std::uint64_t clock_ns() const {
    const auto passed = std::chrono::steady_clock::now() - start_;
    return start_ns_ + static_cast<std::uint64_t>(std::chrono::nanoseconds(passed).count());
  }
  [[nodiscard]] static bool run(const std::string& command) {
    return std::system((command + " 2>/dev/null").c_str()) == 0;
  }

  int tap_ = -1;
  std::uint64_t start_ns_ = 0;
  std::chrono::steady_clock::time_point start_{};

 private:
  /// Returns why there is none, if so.
  std::string set_up_namespace() {
    if (unshare(CLONE_NEWNET) != 0) return "needs root for a network namespace";
    tap_ = open("/dev/net/tun", O_RDWR | O_NONBLOCK);
    if (tap_ < 0) return "no /dev/net/tun";
    ifreq request{};
    std::strcpy(request.ifr_name, "tap0");
    request.ifr_flags = IFF_TAP | IFF_NO_PI;
    if (ioctl(tap_, TUNSETIFF, &request) != 0) return "no TAP device";
    const bool up =
        run(fmt::format("ip link set tap0 mtu {} && ip addr add {}/24 dev tap0 && "
                        "ip -6 addr add {}/64 dev tap0 nodad && ip link set tap0 up",
                        kMtu, kLinux4, kLinux6));
    if (!up) return "the ip command does not configure a TAP device";
    start_ns_ = now_ns_;
    start_ = std::chrono::steady_clock::now();
    return {};
  }
};

TEST_F(HostAgainstLinux, LinuxResolvesUsAndItsDatagramsArrive) {
  in_namespace([&] {
    Random random(test::seed());
    for (const char* us : {kUs4, kUs6}) {
      SocketAddress to = socket_address(us, kPort);
      const Descriptor sender(socket(to.storage.ss_family, SOCK_DGRAM, 0));
      for (const std::size_t size : {0u, 1u, 500u, 8000u}) {
        const Bytes payload = test::random_bytes(random, size);
        datagrams_.clear();
        // Linux fills in the UDP checksum: ours must agree.
        ASSERT_EQ(sendto(sender.get(), payload.data(), size, 0, to.get(), to.length),
                  static_cast<ssize_t>(size));
        pump_until([&] { return !datagrams_.empty(); });
        ASSERT_EQ(datagrams_.size(), 1u);
        EXPECT_EQ(datagrams_[0].payload, payload);
      }
    }
    EXPECT_GE(counter("arp_replies_sent"), 1u);
    EXPECT_GE(counter("neighbour_advertisements_sent"), 1u);
    EXPECT_EQ(counter("udp_bad_checksum"), 0u);
  });
}

TEST_F(HostAgainstLinux, WeResolveLinuxAndOurDatagramsArrive) {
  in_namespace([&] {
    Random random(test::seed());
    for (const char* linux_address : {kLinux4, kLinux6}) {
      SocketAddress at = socket_address(linux_address, kLinuxPort);
      const Descriptor receiver(socket(at.storage.ss_family, SOCK_DGRAM | SOCK_NONBLOCK, 0));
      // RFC 6936: over IPv6 Linux takes a datagram without checksum only where asked to.
      const int on = 1;
      if (at.storage.ss_family == AF_INET6) {
        ASSERT_EQ(setsockopt(receiver.get(), IPPROTO_UDP, UDP_NO_CHECK6_RX, &on, sizeof on), 0);
      }
      ASSERT_EQ(bind(receiver.get(), at.get(), at.length), 0);
      Flow flow = flow_to(linux_address);
      flow.config.destination_port = kLinuxPort;
      for (const std::size_t size : {1u, 1000u, 8900u}) {
        const Bytes payload = test::random_bytes(random, size);
        send_through(flow, payload);
        Bytes received(kMtu);
        ssize_t length = -1;
        pump_until([&] {
          length = recv(receiver.get(), received.data(), received.size(), 0);
          return length >= 0;
        });
        received.resize(static_cast<std::size_t>(length));
        EXPECT_EQ(received, payload);
      }
    }
    EXPECT_EQ(counter("neighbours_resolved"), 2u);
  });
}

TEST_F(HostAgainstLinux, LinuxPingsUs) {
  in_namespace([&] {
    Random random(test::seed());
    for (const char* us : {kUs4, kUs6}) {
      SocketAddress to = socket_address(us, 0);
      const bool ipv4 = to.storage.ss_family == AF_INET;
      const int protocol = ipv4 ? int{IPPROTO_ICMP} : int{IPPROTO_ICMPV6};
      const Descriptor ping(socket(to.storage.ss_family, SOCK_RAW | SOCK_NONBLOCK, protocol));
      for (const std::size_t size : {0u, 56u, 8900u}) {
        const Bytes data = test::random_bytes(random, size);
        Bytes request = frames::icmp(ipv4 ? 8 : 128, 0, frames::join({{1, 2, 3, 4}, data}));
        ASSERT_GE(sendto(ping.get(), request.data(), request.size(), 0, to.get(), to.length), 0);
        // A raw socket sees more than the reply: the IP header over IPv4, other ICMPv6 messages.
        const std::size_t skip = ipv4 ? 20 : 0;
        const std::uint8_t reply_type = ipv4 ? 0 : 129;
        Bytes reply(kMtu);
        pump_until([&] {
          const ssize_t length = recv(ping.get(), reply.data(), reply.size(), 0);
          if (length < static_cast<ssize_t>(skip + 8) || reply[skip] != reply_type) return false;
          reply.resize(static_cast<std::size_t>(length));
          return true;
        });
        EXPECT_EQ(Bytes(reply.begin() + static_cast<std::ptrdiff_t>(skip) + 4, reply.end()),
                  frames::join({{1, 2, 3, 4}, data}));
      }
    }
  });
}

TEST_F(HostAgainstLinux, LinuxGivesUpAnAddressThatIsOurs) {
  in_namespace([&] {
    // Linux asks so often, a second apart: this process may be without a processor for that long.
    EXPECT_TRUE(run("echo 10 >/proc/sys/net/ipv6/conf/tap0/dad_transmits"));
    // Duplicate address detection (RFC 4862, section 5.4) meets our advertisement.
    ASSERT_TRUE(run(fmt::format("ip -6 addr add {}/64 dev tap0", kUs6)));
    pump_until([&] { return run("ip -6 addr show dev tap0 | grep -q dadfailed"); });
  });
}

TEST_F(HostAgainstLinux, LinuxFollowsOurAnnouncementToAnotherMac) {
  in_namespace([&] {
    SocketAddress to = socket_address(kUs4, kPort);
    const Descriptor sender(socket(AF_INET, SOCK_DGRAM, 0));
    ASSERT_EQ(sendto(sender.get(), "a", 1, 0, to.get(), to.length), 1);
    pump_until([&] { return !datagrams_.empty(); });
    datagrams_.clear();
    // The same address appears on another station, as after the restart of a process.
    HostConfig config = default_config();
    config.mac = mac(frames::kOtherMac);
    auto host = Host::create(config);
    ASSERT_TRUE(host.has_value());
    host_ = std::move(*host);
    ASSERT_TRUE(host_->add_address(address(kUs4), 24));
    host_->bind_udp(kPort, this);
    pump_until(
        [&] { return run(fmt::format("ip neigh show {} | grep -q 02:aa:bb:cc:dd:01", kUs4)); });
    ASSERT_EQ(sendto(sender.get(), "b", 1, 0, to.get(), to.length), 1);
    pump_until([&] { return !datagrams_.empty(); });
    EXPECT_EQ(counter("arp_replies_sent"), 0u);
  });
}

}  // namespace
}  // namespace rockhopper::stack::host_against_linux_test
