// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/memif_offer.h"

#include <array>
#include <string>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace rockhopper::stack::memif {
namespace {

constexpr std::uint64_t kRegionBytesMax = 1ull << 36;

bool is_event_fd(int fd) {
  std::array<char, 64> kind{};
  const std::string link = fmt::format("/proc/self/fd/{}", fd);
  const ssize_t size = readlink(link.c_str(), kind.data(), kind.size());
  return size > 0 &&
         std::string_view(kind.data(), static_cast<std::size_t>(size)) == "anon_inode:[eventfd]";
}

/// The driver gives up amid its regions when one cannot be mapped, and loses the descriptors of
/// those that follow.
bool can_be_mapped(int fd, std::uint64_t size) {
  void* address = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (address == MAP_FAILED) return false;
  munmap(address, size);
  return true;
}

}  // namespace

const char* Offer::take(const Message& message, Descriptor attached) {
  const char* refused = nullptr;
  switch (message.type) {
    case MessageType::init:
      if (!parts_.empty()) return "Unexpected message";
      break;
    case MessageType::add_region:
      refused = add_region(message.body.add_region, attached.fd());
      break;
    case MessageType::add_ring:
      refused = add_ring(message.body.add_ring, attached.fd());
      break;
    case MessageType::connect:
      refused = connect();
      complete_ = refused == nullptr;
      break;
    default:
      return "Unexpected message";
  }
  if (refused != nullptr) return refused;
  const bool wants_descriptor =
      message.type == MessageType::add_region || message.type == MessageType::add_ring;
  parts_.push_back({message, wants_descriptor ? std::move(attached) : Descriptor()});
  return nullptr;
}

const char* Offer::add_region(const AddRegion& region, int fd) {
  if (fd < 0) return "Missing region fd";
  if (region.index != regions_.size() || regions_.size() >= kRegionsMax) {
    return "Invalid region index";
  }
  // A mapping may be longer than its file; the first access behind the file's end is a SIGBUS.
  struct stat status = {};
  if (region.size == 0 || region.size > kRegionBytesMax || fstat(fd, &status) != 0 ||
      !S_ISREG(status.st_mode) || static_cast<std::uint64_t>(status.st_size) < region.size) {
    return "Invalid region size";
  }
  regions_.push_back({fd, region.size});
  return nullptr;
}

const char* Offer::add_ring(const AddRing& ring, int fd) {
  if (fd < 0) return "Missing interrupt fd";
  // The driver reads and writes it between packets: it may neither wait nor raise SIGPIPE.
  if (!is_event_fd(fd) || fcntl(fd, F_SETFL, O_NONBLOCK) != 0) return "Invalid interrupt fd";
  std::uint16_t& count = rings_to_[(ring.flags & AddRing::kClientToServer) != 0 ? 1 : 0];
  if (ring.index != count || count >= queues_) return "Invalid ring index";
  if (ring.log2_ring_size > kRingSizeLog2Max) return "Invalid ring size";
  ++count;
  rings_.push_back(ring);
  return nullptr;
}

const char* Offer::connect() const {
  if (rings_to_[0] != queues_ || rings_to_[1] != queues_) return "Another number of rings";
  for (const Region& region : regions_) {
    if (!can_be_mapped(region.fd, region.size)) return "Invalid region";
  }
  for (const AddRing& ring : rings_) {
    if (ring.region >= regions_.size()) return "Invalid ring region";
    const Region& region = regions_[ring.region];
    const std::uint64_t bytes =
        kRingHeaderBytes + (std::uint64_t{kDescriptorBytes} << ring.log2_ring_size);
    if (ring.offset % alignof(std::uint32_t) != 0 || ring.offset + bytes > region.size) {
      return "Invalid ring offset";
    }
    std::uint32_t cookie = 0;
    if (pread(region.fd, &cookie, sizeof(cookie), ring.offset) != sizeof(cookie) ||
        cookie != kCookie) {
      return "Wrong ring";
    }
  }
  return nullptr;
}

}  // namespace rockhopper::stack::memif
