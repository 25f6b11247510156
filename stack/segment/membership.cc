// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/segment/membership.h"

#include <atomic>
#include <cerrno>
#include <charconv>
#include <ctime>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "stack/futex.h"

namespace rockhopper::stack::segment {
namespace {

/// A segment whose free slots are all held by those who clean them up is not full: they are looked
/// at for two seconds.
constexpr int kAttempts = 2000;
/// Attempts to make the table where there is no memory for it.
constexpr int kMakings = 50;
constexpr long kPauseNs = 1'000'000;
/// These begin the names of a slot's files: "lanes-SLOT-GENERATION".
constexpr std::string_view kLanesPrefix = "lanes-";
constexpr std::string_view kResourcesPrefix = "resources-";

std::string text_of(int error) { return std::generic_category().message(error); }

/// Gives a part of a file memory. Returns 0 or an errno.
int allocate(int fd, std::size_t offset, std::size_t length) {
  int error = 0;
  do {
    error = posix_fallocate(fd, static_cast<off_t>(offset), static_cast<off_t>(length));
  } while (error == EINTR);
  return error;
}

void wait_a_little() {
  const timespec time{0, kPauseNs};
  (void)nanosleep(&time, nullptr);
}

Error no_memory(const std::string& path, int error) {
  return {error == ENOSPC ? ErrorCode::exhausted : ErrorCode::io,
          fmt::format("no memory for {}: {}; see df -h /dev/shm, or set ROCKHOPPER_SEGMENT", path,
                      text_of(error))};
}

}  // namespace

Membership::Membership(std::string directory)
    : directory_(std::move(directory)), process_(getpid()) {}

Expected<std::unique_ptr<Membership>> Membership::join(std::string directory) {
  std::unique_ptr<Membership> membership(new Membership(std::move(directory)));
  ROCKHOPPER_TRY(membership->open_table());
  ROCKHOPPER_TRY(membership->take_slot());
  ROCKHOPPER_TRY(membership->make_lanes());
  return membership;
}

Membership::~Membership() {
  if (slot_ == kSlotsMax || getpid() != process_) return;
  clean(Slots().set(slot_));
  unlock(slot_);
}

void Membership::let_go() noexcept {
  locks_.reset();
  lanes_file_.reset();
}

Expected<void> Membership::open_table() {
  auto opened = open_table_once();
  if (opened || opened.error().code != ErrorCode::invalid_state) return opened;
  return remove_unused_table() ? open_table_once() : opened;
}

/// A table of another version that no process uses is what an older release has left. Returns
/// false if it is used, or is there no more.
bool Membership::remove_unused_table() const {
  const std::string path = directory_ + "/table";
  struct flock all = {};
  all.l_type = F_WRLCK;
  all.l_whence = SEEK_SET;
  struct stat ours = {};
  struct stat named = {};
  return fcntl(locks_.fd(), F_OFD_SETLK, &all) == 0 && fstat(locks_.fd(), &ours) == 0 &&
         stat(path.c_str(), &named) == 0 && ours.st_ino == named.st_ino &&
         ours.st_dev == named.st_dev && ::unlink(path.c_str()) == 0;
}

Expected<void> Membership::open_table_once() {
  const std::string path = directory_ + "/table";
  const auto open = [&path] {
    return Descriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  };
  Expected<void> made;
  Descriptor table = open();
  for (int attempt = 0; !table && errno == ENOENT && attempt < kMakings; ++attempt) {
    // The memory may be gone because another process makes the table just now.
    if (!made) wait_a_little();
    made = make_table();
    table = open();
    if (!made && made.error().code != ErrorCode::exhausted) break;
  }
  if (!table && !made) return made;
  if (table) locks_ = open();
  if (!locks_) return fail(ErrorCode::io, "cannot open {}: {}", path, text_of(errno));
  struct stat status = {};
  if (fstat(table.fd(), &status) == 0 && status.st_size == sizeof(Table)) {
    ROCKHOPPER_TRY(table_mapping_, Mapping::create(table.fd(), 0, sizeof(Table)));
    mac_ = this->table().mac;
    if (this->table().magic == kMagic && rte_is_valid_assigned_ether_addr(&mac_) != 0) return {};
  }
  return fail(ErrorCode::invalid_state,
              "{} is not a table of this version: end the programs that use it", path);
}

/// Makes the table under a name of its own first, so that nobody sees half of one. Another process
/// may be faster.
Expected<void> Membership::make_table() const {
  const std::string path = directory_ + "/table";
  const std::string own = fmt::format("{}/new-{}-{}", directory_, getpid(), gettid());
  const Descriptor file(::open(own.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) return fail(ErrorCode::io, "cannot make {}: {}", own, text_of(errno));
  const auto make = [&]() -> Expected<void> {
    if (const int error = allocate(file.fd(), 0, sizeof(Table)); error != 0) {
      return tl::make_unexpected(no_memory(path, error));
    }
    ROCKHOPPER_TRY(const Mapping mapping, Mapping::create(file.fd(), 0, sizeof(Table)));
    auto& table = mapping.at<Table>(0);
    table.magic = kMagic;
    if (getrandom(&table.mac, sizeof table.mac, 0) != sizeof table.mac) {
      return fail(ErrorCode::io, "no random numbers: {}", text_of(errno));
    }
    table.mac.addr_bytes[0] &= static_cast<std::uint8_t>(~RTE_ETHER_GROUP_ADDR);
    table.mac.addr_bytes[0] |= RTE_ETHER_LOCAL_ADMIN_ADDR;
    if (::link(own.c_str(), path.c_str()) != 0 && errno != EEXIST) {
      return fail(ErrorCode::io, "cannot make {}: {}", path, text_of(errno));
    }
    return {};
  };
  auto made = make();
  (void)::unlink(own.c_str());
  return made;
}

Expected<void> Membership::take_slot() {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    for (std::uint16_t slot = 0; slot < kSlotsMax; ++slot) {
      if (!lock(slot)) continue;
      slot_ = slot;
      clean(Slots().set(slot));
      reap();
      return {};
    }
    wait_a_little();
  }
  return fail(ErrorCode::exhausted, "all {} places of the segment in {} are in use", kSlotsMax,
              directory_);
}

Expected<void> Membership::make_lanes() {
  const std::uint32_t generation = own_slot().generation.load(std::memory_order_relaxed) + 1;
  const std::string path = lanes_path(slot_, generation);
  lanes_file_ = Descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!lanes_file_ || ftruncate(lanes_file_.fd(), static_cast<off_t>(kLanesBytes)) != 0) {
    return fail(ErrorCode::io, "cannot make {}: {}", path, text_of(errno));
  }
  ROCKHOPPER_TRY(lanes_, Mapping::create(lanes_file_.fd(), 0, kLanesBytes));
  own_slot().process.store(static_cast<std::uint32_t>(process_), std::memory_order_relaxed);
  own_slot().generation.store(generation, std::memory_order_release);
  return {};
}

bool Membership::take_entry(std::atomic<std::uint8_t>& entry) const {
  std::uint8_t nobody = 0;
  return entry.compare_exchange_strong(nobody, static_cast<std::uint8_t>(slot_ + 1),
                                       std::memory_order_relaxed);
}

void Membership::free_entry(std::atomic<std::uint8_t>& entry) const {
  auto own = static_cast<std::uint8_t>(slot_ + 1);
  // Whatever else stands there is not ours to change.
  (void)entry.compare_exchange_strong(own, 0, std::memory_order_relaxed);
}

bool Membership::claim(std::uint16_t number) { return take_entry(table().owners[number]); }

void Membership::release(std::uint16_t number) { free_entry(table().owners[number]); }

bool Membership::claim_service(std::uint32_t name) { return take_entry(table().claims[name]); }

void Membership::release_service(std::uint32_t name) { free_entry(table().claims[name]); }

bool Membership::serve(std::uint32_t name) { return take_entry(table().servers[name]); }

void Membership::stop_serving(std::uint32_t name) { free_entry(table().servers[name]); }

/// What members that have died had is free already: whoever joins cleans up.
Expected<void> Membership::become_gateway(std::uint16_t mtu, std::uint64_t addresses) {
  Gateway& gateway = table().gateway;
  if (!take_entry(gateway.slot)) {
    reap();
    if (!take_entry(gateway.slot)) {
      const auto other = slot_in(gateway.slot).value_or(slot_);
      return fail(ErrorCode::busy, "process {} is the way out of the segment in {} already",
                  slot(other).process.load(std::memory_order_relaxed), directory_);
    }
  }
  if (gateway_mtu() != 0 && gateway_addresses() != addresses && !is_alone()) {
    free_entry(gateway.slot);
    return fail(ErrorCode::invalid_state,
                "the segment in {} had other addresses: end the programs there that have them",
                directory_);
  }
  gateway.addresses.store(addresses, std::memory_order_relaxed);
  gateway.mtu.store(mtu, std::memory_order_release);
  return {};
}

bool Membership::is_alone() const {
  for (std::uint16_t other = 0; other < kSlotsMax; ++other) {
    if (other != slot_ && slot(other).generation.load(std::memory_order_relaxed) % 2 != 0) {
      return false;
    }
  }
  return true;
}

Expected<void> Membership::back_lane_from(std::uint16_t sender) const {
  const int error = allocate(lanes_file_.fd(), sender * kLaneStride, kLaneStride);
  if (error == 0) return {};
  return tl::make_unexpected(no_memory(directory_, error));
}

Expected<Mapping> Membership::open_lane_to(std::uint16_t slot, std::uint32_t generation) const {
  const std::string path = lanes_path(slot, generation);
  const Descriptor file(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  struct stat status = {};
  if (!file || fstat(file.fd(), &status) != 0) {
    return fail(errno == ENOENT ? ErrorCode::not_found : ErrorCode::io, "cannot open {}: {}", path,
                text_of(errno));
  }
  if (status.st_size != static_cast<off_t>(kLanesBytes)) {
    return fail(ErrorCode::io, "{} has another size than it should have", path);
  }
  const std::size_t offset = slot_ * kLaneStride;
  if (const int error = allocate(file.fd(), offset, kLaneStride); error != 0) {
    return tl::make_unexpected(no_memory(path, error));
  }
  ROCKHOPPER_TRY(Mapping lane, Mapping::create(file.fd(), offset, kLaneStride));
  this->slot(slot).senders[slot_ / 64u].fetch_or(std::uint64_t{1} << slot_ % 64u,
                                                 std::memory_order_release);
  return lane;
}

bool Membership::wake(std::uint16_t slot) const {
  Slot& record = this->slot(slot);
  std::uint32_t expected = kSleeps;
  if (record.sleep.load(std::memory_order_relaxed) != expected ||
      !record.sleep.compare_exchange_strong(expected, kMaySleep, std::memory_order_relaxed)) {
    return false;
  }
  record.doorbell.fetch_add(1, std::memory_order_release);
  wake_futex(record.doorbell, INT32_MAX, FutexScope::shared);
  return true;
}

void Membership::reap() {
  Slots dead;
  for (std::uint16_t slot = 0; slot < kSlotsMax; ++slot) {
    dead[slot] = slot != slot_ && lock(slot);
  }
  clean(dead);
  for (std::uint16_t slot = 0; slot < kSlotsMax; ++slot) {
    if (dead[slot]) unlock(slot);
  }
}

std::string Membership::lanes_path(std::uint16_t slot, std::uint32_t generation) const {
  return fmt::format("{}/{}{}-{}", directory_, kLanesPrefix, slot, generation);
}

std::string Membership::resources_path() const {
  return fmt::format("{}/{}{}-{}", directory_, kResourcesPrefix, slot_,
                     own_slot().generation.load(std::memory_order_relaxed));
}

// The lock is one of an open file: another thread or object of this process does not have it, and
// what this process closes elsewhere does not lose it.
bool Membership::set_lock(std::uint16_t slot, short type) const {
  struct flock request = {};
  request.l_type = type;
  request.l_whence = SEEK_SET;
  request.l_start = slot;
  request.l_len = 1;
  return fcntl(locks_.fd(), F_OFD_SETLK, &request) == 0;
}

bool Membership::lock(std::uint16_t slot) const { return set_lock(slot, F_WRLCK); }

void Membership::unlock(std::uint16_t slot) const { (void)set_lock(slot, F_UNLCK); }

/// Makes the slots, whose locks this process holds, as if they had never been used.
void Membership::clean(const Slots& slots) const {
  for (std::uint16_t number = 0; number < kSlotsMax; ++number) {
    if (!slots[number]) continue;
    Slot& record = slot(number);
    const std::uint32_t generation = record.generation.load(std::memory_order_relaxed);
    // Nobody begins to send to it from now on.
    record.generation.store((generation + 1) & ~1u, std::memory_order_release);
    record.sleep.store(kPolls, std::memory_order_relaxed);
    record.process.store(0, std::memory_order_relaxed);
    for (auto& senders : record.senders) {
      senders.store(0, std::memory_order_relaxed);
    }
  }
  const auto take_back = [&slots](std::span<std::atomic<std::uint8_t>> entries) {
    for (std::atomic<std::uint8_t>& entry : entries) {
      std::uint8_t found = entry.load(std::memory_order_relaxed);
      if (found == 0 || found > kSlotsMax || !slots[found - 1u]) continue;
      (void)entry.compare_exchange_strong(found, 0, std::memory_order_relaxed);
    }
  };
  take_back(table().owners);
  take_back(table().claims);
  take_back(table().servers);
  take_back(std::span(&table().gateway.slot, 1));
  remove_files(slots);
}

/// Removes the files that are called like those of the slots, as the generations in the table may
/// be anything.
void Membership::remove_files(const Slots& slots) const {
  std::error_code error;
  for (std::filesystem::directory_iterator file(directory_, error), end; !error && file != end;
       file.increment(error)) {
    const std::string name = file->path().filename();
    std::uint16_t slot = kSlotsMax;
    for (const std::string_view prefix : {kLanesPrefix, kResourcesPrefix}) {
      if (!name.starts_with(prefix)) continue;
      (void)std::from_chars(&name[prefix.size()], name.data() + name.size(), slot);
    }
    if (slot < kSlotsMax && slots[slot]) (void)::unlink(file->path().c_str());
  }
}

}  // namespace rockhopper::stack::segment
