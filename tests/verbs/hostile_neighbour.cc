// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// A process of the same user that does not keep to the rules of a segment.
//
//   hostile_neighbour DIRECTORY frames|damage COUNT SEED
//
// `frames`: joins, and puts so many frames into the lanes of all others: random bytes, and frames
// that are right up to some header. `damage`: writes random bytes so often into the table, into the
// lanes that have memory and into the lists of resources, which it cuts, too.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <rte_byteorder.h>
#include <rte_ether.h>
#include <rte_ip.h>
#include <rte_udp.h>
#include <sched.h>
#include <unistd.h>

#include "stack/descriptor.h"
#include "stack/plain_pool.h"
#include "stack/random.h"
#include "stack/segment/lane.h"
#include "stack/segment/membership.h"

namespace {

using namespace rockhopper;
using stack::Random;

using Bytes = std::vector<std::uint8_t>;

constexpr std::size_t kLongest = 4400;
constexpr std::uint16_t kRocePort = 4791;
constexpr std::size_t kBthAt = sizeof(rte_ether_hdr) + sizeof(rte_ipv4_hdr) + sizeof(rte_udp_hdr);

[[noreturn]] void give_up(const std::string& what) {
  std::fprintf(stderr, "hostile_neighbour: %s\n", what.c_str());
  std::exit(1);
}

Bytes random_bytes(Random& random, std::size_t size) {
  Bytes bytes(size);
  std::generate(bytes.begin(), bytes.end(),
                [&random] { return static_cast<std::uint8_t>(random.next()); });
  return bytes;
}

/// Gives a frame of random bytes headers that its receivers look behind.
void dress(Bytes& frame, const rte_ether_addr& mac, std::uint32_t qpn) {
  if (frame.size() < kBthAt + 12) return;
  auto& ethernet = *reinterpret_cast<rte_ether_hdr*>(frame.data());
  ethernet.dst_addr = ethernet.src_addr = mac;
  ethernet.ether_type = rte_cpu_to_be_16(RTE_ETHER_TYPE_IPV4);
  auto& ip = *reinterpret_cast<rte_ipv4_hdr*>(&ethernet + 1);
  ip = {};
  ip.version_ihl = RTE_IPV4_VHL_DEF;
  ip.total_length = rte_cpu_to_be_16(static_cast<std::uint16_t>(frame.size() - sizeof ethernet));
  ip.time_to_live = 64;
  ip.next_proto_id = IPPROTO_UDP;
  ip.src_addr = ip.dst_addr = rte_cpu_to_be_32(RTE_IPV4(192, 0, 2, 1));
  ip.hdr_checksum = rte_ipv4_cksum(&ip);
  auto& udp = *reinterpret_cast<rte_udp_hdr*>(&ip + 1);
  udp.dst_port = rte_cpu_to_be_16(kRocePort);
  udp.dgram_len =
      rte_cpu_to_be_16(static_cast<std::uint16_t>(frame.size() - sizeof ethernet - sizeof ip));
  udp.dgram_cksum = 0;
  frame[kBthAt + 5] = static_cast<std::uint8_t>(qpn >> 16);
  frame[kBthAt + 6] = static_cast<std::uint8_t>(qpn >> 8);
  frame[kBthAt + 7] = static_cast<std::uint8_t>(qpn);
}

/// The number of a queue pair that somebody has; 1 if nobody has any.
std::uint32_t a_number(const stack::segment::Membership& membership, Random& random) {
  const auto first = static_cast<std::uint32_t>(random.next());
  for (std::uint32_t i = 0; i < stack::segment::kNumbers; ++i) {
    const auto number = static_cast<std::uint16_t>(first + i);
    if (membership.owner_of(number)) return number | (first & 0xff0000);
  }
  return 1;
}

void send_frames(const std::string& directory, std::uint64_t count, Random& random) {
  auto pool = stack::PlainPool::create({.size = 16, .data_room = kLongest});
  auto membership = stack::segment::Membership::join(directory);
  if (!pool || !membership) give_up("cannot join");
  struct Way {
    stack::segment::Mapping mapping;
    std::unique_ptr<stack::segment::LaneWriter> writer;
  };
  std::vector<Way> ways;
  for (std::uint16_t slot = 0; slot < stack::segment::kSlotsMax; ++slot) {
    const std::uint32_t generation = (*membership)->slot(slot).generation.load();
    if (generation % 2 == 0 || slot == (*membership)->slot()) continue;
    auto lane = (*membership)->open_lane_to(slot, generation);
    if (!lane) continue;
    Way& way = ways.emplace_back();
    way.mapping = std::move(*lane);
    way.writer =
        std::make_unique<stack::segment::LaneWriter>(way.mapping.at<stack::segment::Lane>(0));
  }
  if (ways.empty()) give_up("there is nobody");
  std::uint32_t number = a_number(**membership, random);
  rte_mbuf* packet = rte_pktmbuf_alloc((*pool)->get());
  std::uint64_t put = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    if (i % 1000 == 0) number = a_number(**membership, random);
    const std::size_t most = random.below(8) == 0 ? kLongest : 200;
    Bytes frame = random_bytes(random, sizeof(rte_ether_hdr) + random.below(most - 14));
    if (random.below(4) != 0) dress(frame, (*membership)->mac(), number);
    rte_pktmbuf_reset(packet);
    char* data = rte_pktmbuf_append(packet, static_cast<std::uint16_t>(frame.size()));
    std::copy(frame.begin(), frame.end(), data);
    Way& way = ways[random.below(ways.size())];
    if (way.writer->put(*packet)) {
      ++put;
    } else {
      sched_yield();
    }
    if (i % 16 == 0) (void)way.writer->publish();
  }
  for (Way& way : ways) {
    (void)way.writer->publish();
  }
  rte_pktmbuf_free(packet);
  std::printf("%llu frames\n", static_cast<unsigned long long>(put));
}

/// Bytes of the lane's head and first frames, where damage does most.
constexpr std::uint64_t kHead = 1024;

/// The files whose names begin so.
std::vector<stack::Descriptor> open_files(const std::string& directory, std::string_view prefix) {
  std::vector<stack::Descriptor> files;
  for (const auto& file : std::filesystem::directory_iterator(directory)) {
    const std::string path = file.path();
    if (file.path().filename().string().starts_with(prefix)) {
      files.emplace_back(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    }
  }
  return files;
}

/// Nothing of a list of resources is mapped, so it may be cut, too.
void damage_list(int fd, const Bytes& garbage, Random& random) {
  constexpr std::uint64_t kListed = 1024;
  (void)!::pwrite(fd, garbage.data(), garbage.size(), static_cast<off_t>(random.below(kListed)));
  if (random.below(64) == 0) (void)!::ftruncate(fd, static_cast<off_t>(random.below(kListed)));
}

void damage(const std::string& directory, std::uint64_t count, Random& random) {
  const auto lanes = open_files(directory, "lanes-");
  const auto lists = open_files(directory, "resources-");
  const stack::Descriptor table(::open((directory + "/table").c_str(), O_RDWR | O_CLOEXEC));
  if (!table || lanes.empty()) give_up("there is nobody");
  for (std::uint64_t i = 0; i < count; ++i) {
    const Bytes garbage = random_bytes(random, 1 + random.below(8));
    if (!lists.empty() && random.below(8) == 0) {
      damage_list(lists[random.below(lists.size())].fd(), garbage, random);
      continue;
    }
    int fd = table.fd();
    std::uint64_t at = random.below(sizeof(stack::segment::Table) - 8);
    if (random.below(2) == 0) {
      fd = lanes[random.below(lanes.size())].fd();
      const std::uint64_t sender = random.below(8);  // the lowest slots are those in use
      const std::uint64_t within =
          random.below(2) == 0 ? random.below(kHead) : random.below(stack::segment::Lane::kBytes);
      at = sender * stack::segment::kLaneStride + within;
      // Memory that was not there is not to be made.
      if (::lseek(fd, static_cast<off_t>(at), SEEK_DATA) != static_cast<off_t>(at)) continue;
    }
    (void)!::pwrite(fd, garbage.data(), garbage.size(), static_cast<off_t>(at));
    if (i % 100 == 0) sched_yield();
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  Random random(std::strtoull(argv[4], nullptr, 10));
  const std::uint64_t count = std::strtoull(argv[3], nullptr, 10);
  if (std::string_view(argv[2]) == "frames") {
    send_frames(argv[1], count, random);
  } else {
    damage(argv[1], count, random);
  }
  return 0;
}
