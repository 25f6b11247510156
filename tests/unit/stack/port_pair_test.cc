// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
//
// stack::Port between two processes on each kind of device: frames of all sizes up to the MTU, as
// one buffer and as chains, come back unchanged in order (port_peer.cc).

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/child_process.h"
#include "tests/support/seed.h"

namespace rockhopper::test {
namespace {

using ::testing::HasSubstr;
using Arguments = std::vector<std::string>;

/// tests/mutations puts one of its own in the place of that of the build folder.
const char* peer_program() {
  const char* other = std::getenv("ROCKHOPPER_PORT_PEER");
  return other != nullptr ? other : ROCKHOPPER_PORT_PEER;
}

const char* const kPeer = peer_program();

Arguments operator+(Arguments first, const Arguments& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

Arguments mirror(const std::string& devargs, int mtu) {
  return {kPeer, "mirror", devargs, std::to_string(mtu)};
}

Arguments probe(const std::string& devargs, int mtu) {
  return {kPeer, "probe", devargs, std::to_string(mtu), std::to_string(seed())};
}

/// Lets two ready peers run; the probe's last line.
std::string exchange(ChildProcess& mirror, ChildProcess& probe) {
  probe.write("go\n");
  std::string result = probe.read_line();
  EXPECT_EQ(probe.wait(), 0);
  mirror.close_input();
  EXPECT_EQ(mirror.wait(), 0);
  return result;
}

/// `first` is ready before the other starts.
std::string run_pair(const Arguments& mirror_arguments, const Arguments& probe_arguments) {
  ChildProcess mirror_process(mirror_arguments);
  EXPECT_EQ(mirror_process.read_line(), "ready");
  ChildProcess probe_process(probe_arguments);
  EXPECT_EQ(probe_process.read_line(), "ready");
  return exchange(mirror_process, probe_process);
}

std::string memif(const std::string& role, const std::string& directory) {
  return fmt::format("net_memif0,role={},socket={}/memif.sock,socket-abstract=no", role, directory);
}

TEST(PortPair, MemifCarriesMtu9000) {
  const TemporaryDirectory directory;
  EXPECT_THAT(run_pair(mirror(memif("server", directory.path()), 9000),
                       probe(memif("client", directory.path()), 9000)),
              HasSubstr("frames=2014 driver=net_memif linearised=0"));
}

TEST(PortPair, MemifCarriesEachMtuInBothRoles) {
  for (const int mtu : {1500, 4200}) {
    const TemporaryDirectory directory;
    EXPECT_THAT(run_pair(mirror(memif("server", directory.path()), mtu),
                         probe(memif("client", directory.path()), mtu)),
                HasSubstr("frames="));
    EXPECT_THAT(run_pair(mirror(memif("client", directory.path()), mtu),
                         probe(memif("server", directory.path()), mtu)),
                HasSubstr("frames="));
  }
}

TEST(PortPair, MemifServerReplacesAKilledOne) {
  const TemporaryDirectory directory;
  {
    ChildProcess killed(mirror(memif("server", directory.path()), 1500));
    ASSERT_EQ(killed.read_line(), "ready");
    killed.kill();
    ASSERT_EQ(killed.wait(), 128 + SIGKILL);
  }
  EXPECT_EQ(access((directory.path() + "/memif.sock").c_str(), F_OK), 0) << "left behind";
  EXPECT_THAT(run_pair(mirror(memif("server", directory.path()), 1500),
                       probe(memif("client", directory.path()), 1500)),
              HasSubstr("frames="));
}

/// Peers that are killed under traffic, one after the other. A memif port's rings go in DPDK's
/// interrupt thread while its owner polls them.
void survive_killed_peers(const std::string& role, const std::string& peer_role, int peers) {
  const TemporaryDirectory directory;
  ChildProcess survivor({kPeer, "survivor", memif(role, directory.path()), "9000"});
  ASSERT_EQ(survivor.read_line(), "ready");
  const Arguments victim = {kPeer, "victim", memif(peer_role, directory.path()), "9000"};
  auto next = std::make_unique<ChildProcess>(victim);
  for (int i = 0; i < peers; ++i) {
    const auto peer = std::move(next);
    next = std::make_unique<ChildProcess>(victim);  // starts meanwhile
    ASSERT_EQ(peer->read_line(), "ready");
    peer->write("go\n");
    ASSERT_EQ(peer->read_line(), "traffic")
        << "with peer " << i << "; the survivor's status is " << survivor.wait(0);
    peer->kill();
    ASSERT_EQ(peer->wait(), 128 + SIGKILL);
  }
  survivor.close_input();
  EXPECT_EQ(survivor.wait(), 0);
}

TEST(PortPair, MemifServerSurvivesKilledClients) { survive_killed_peers("server", "client", 30); }

TEST(PortPair, MemifClientSurvivesKilledServers) { survive_killed_peers("client", "server", 6); }

TEST(PortPair, VhostAndVirtioUserCarryMtu9000) {
  const TemporaryDirectory directory;
  const std::string socket = directory.path() + "/vhost.sock";
  EXPECT_THAT(run_pair(mirror("eth_vhost0,iface=" + socket, 9000),
                       probe("net_virtio_user0,path=" + socket, 9000)),
              HasSubstr("driver=net_virtio_user"));
}

TEST(PortPair, SmallReceiveBuffersAreChained) {
  const TemporaryDirectory directory;
  const std::string socket = directory.path() + "/vhost.sock";
  EXPECT_THAT(run_pair({kPeer, "mirror", "eth_vhost0,iface=" + socket, "9000:2048"},
                       {kPeer, "probe", "net_virtio_user0,path=" + socket, "9000:2048",
                        std::to_string(seed())}),
              HasSubstr("driver=net_virtio_user"));
}

class PortPairAsRoot : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) {
      GTEST_SKIP() << "needs root";
    }
  }

  /// A probe's or mirror's arguments in a new network namespace in which `setup` has run.
  static Arguments in_new_namespace(const std::string& setup, const Arguments& command) {
    return Arguments{"unshare", "-n", "sh", "-c", setup + " && exec \"$@\"", "sh"} + command;
  }
  static Arguments in_namespace_of(const ChildProcess& process, const Arguments& command) {
    return Arguments{"nsenter", "-t", std::to_string(process.pid()), "-n"} + command;
  }
  static std::string veth(int mtu) {
    return fmt::format(
        "ip link add rh0 type veth peer name rh1 && ip link set rh0 mtu {0} up && "
        "ip link set rh1 mtu {0} up",
        mtu);
  }

  std::string run_veth(const std::string& mirror_devargs, const std::string& probe_devargs,
                       int mtu) {
    ChildProcess mirror_process(in_new_namespace(veth(mtu), mirror(mirror_devargs, mtu)));
    EXPECT_EQ(mirror_process.read_line(), "ready");
    ChildProcess probe_process(in_namespace_of(mirror_process, probe(probe_devargs, mtu)));
    EXPECT_EQ(probe_process.read_line(), "ready");
    return exchange(mirror_process, probe_process);
  }
};

class PortPairOnVeth : public PortPairAsRoot {
 protected:
  void SetUp() override {
    PortPairAsRoot::SetUp();
    if (IsSkipped()) return;
    if (run(in_new_namespace(veth(1500), {"true"})) != 0) {
      GTEST_SKIP() << "no network namespace with a veth pair here";
    }
  }
};

TEST_F(PortPairOnVeth, AfPacketCarriesMtu9000) {
  EXPECT_THAT(run_veth("net_af_packet0,iface=rh0", "net_af_packet0,iface=rh1", 9000),
              HasSubstr("driver=net_af_packet linearised=0"));
}

TEST_F(PortPairOnVeth, AfPacketCarriesMtu1500) {
  EXPECT_THAT(run_veth("net_af_packet0,iface=rh0", "net_af_packet0,iface=rh1", 1500),
              HasSubstr("frames="));
}

TEST_F(PortPairOnVeth, AfPacketSaysThatTheInterfaceHasASmallerMtu) {
  ChildProcess process(
      in_new_namespace(veth(1500) + " && exec 2>&1", mirror("net_af_packet0,iface=rh0", 4200)));
  EXPECT_EQ(process.read_line(),
            "port-peer: interface rh0 has an MTU of 1500: run \"ip link set rh0 mtu 4200\" or ask "
            "for less");
  EXPECT_EQ(process.wait(), 1);
}

TEST_F(PortPairOnVeth, AfXdpGetsChainsAsOneBuffer) {
  // 3498 is the most that the kernel lets XDP have on a veth with 4 KiB pages.
  const std::string result = run_veth("net_af_packet0,iface=rh0", "net_af_xdp0,iface=rh1", 2200);
  EXPECT_THAT(result, HasSubstr("driver=net_af_xdp"));
  EXPECT_THAT(result, ::testing::Not(HasSubstr("linearised=0")));
}

TEST_F(PortPairOnVeth, TapFillsInIpv4Checksums) {
  if (access("/dev/net/tun", R_OK | W_OK) != 0) {
    GTEST_SKIP() << "no /dev/net/tun";
  }
  ChildProcess probe_process(in_new_namespace("true", probe("net_tap0,iface=rhtap", 1500)));
  ASSERT_EQ(probe_process.read_line(), "ready");
  ChildProcess mirror_process(
      in_namespace_of(probe_process, mirror("net_af_packet0,iface=rhtap", 1500)));
  ASSERT_EQ(mirror_process.read_line(), "ready");
  EXPECT_THAT(exchange(mirror_process, probe_process),
              HasSubstr("driver=net_tap linearised=0 offload=true"));
}

TEST_F(PortPairAsRoot, MemifNeedsNoRights) {
  const TemporaryDirectory directory;
  ASSERT_EQ(chmod(directory.path().c_str(), 0777), 0);
  const Arguments nobody = {"env",
                            "-u",
                            "XDG_RUNTIME_DIR",
                            "setpriv",
                            "--reuid=65534",
                            "--regid=65534",
                            "--clear-groups",
                            "--bounding-set=-all",
                            "--"};
  if (run(nobody + Arguments{kPeer, "eal", "--help"}) != 0) {
    GTEST_SKIP() << "cannot run programs of this build folder as another user";
  }
  EXPECT_THAT(run_pair(nobody + mirror(memif("server", directory.path()), 9000),
                       nobody + probe(memif("client", directory.path()), 9000)),
              HasSubstr("driver=net_memif"));
}

TEST(EalStart, FailureEndsWithOneLineThatSaysWhy) {
  ChildProcess process({"sh", "-c", "exec \"$@\" 2>&1 >/dev/null", "sh", kPeer, "eal", "--no-huge",
                        "-m", "16", "--no-pci", "--no-shconf", "--no-telemetry",
                        "--file-prefix=rockhopper-test-eal", "-l", "1000"});
  std::string last;
  for (std::string line; !(line = process.read_line()).empty();) {
    last = line;
  }
  EXPECT_THAT(last, HasSubstr("port-peer: DPDK does not start: lcore 1000 >= "));
  EXPECT_EQ(process.wait(), 1);
}

}  // namespace
}  // namespace rockhopper::test
