// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "stack/segment/membership.h"

#include <array>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "stack/segment/directory.h"
#include "stack/segment/own_tallies.h"
#include "stack/segment/reader/public_part.h"
#include "tests/support/child_process.h"

namespace rockhopper::stack::segment {
namespace {

using ::testing::HasSubstr;

class MembershipTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::unique_ptr<Membership> join() const {
    auto joined = Membership::join(directory_.path());
    EXPECT_TRUE(joined.has_value()) << (joined ? "" : joined.error().message);
    return joined ? std::move(*joined) : nullptr;
  }
  [[nodiscard]] std::size_t files() const {
    using std::filesystem::directory_iterator;
    const auto all = directory_iterator(directory_.path());
    return static_cast<std::size_t>(std::distance(begin(all), end(all)));
  }
  /// Lets a process join and do that, and kills it when it has.
  void die_after(const std::function<void(Membership&)>& act) const {
    const test::ForkedProcess process([&] {
      auto member = Membership::join(directory_.path());
      if (!member) _exit(1);
      act(**member);
      std::ignore = member->release();  // It must not leave before it is killed.
    });
  }

  test::TemporaryDirectory directory_;
};

TEST_F(MembershipTest, MembersHaveSlotsOfTheirOwnAndOneAddress) {
  const auto first = join();
  const auto second = join();
  EXPECT_NE(first->slot(), second->slot());
  EXPECT_EQ(rte_is_same_ether_addr(&first->mac(), &second->mac()), 1);
  EXPECT_EQ(rte_is_local_admin_ether_addr(&first->mac()), 1);
  EXPECT_EQ(rte_is_unicast_ether_addr(&first->mac()), 1);
}

TEST_F(MembershipTest, NumbersHaveOneOwner) {
  const auto first = join();
  const auto second = join();
  EXPECT_EQ(first->owner_of(7), std::nullopt);
  EXPECT_TRUE(first->claim(7));
  EXPECT_FALSE(second->claim(7));
  EXPECT_FALSE(first->claim(7)) << "it has it already";
  EXPECT_EQ(second->owner_of(7), first->slot());
  second->release(7);  // which is not its own
  EXPECT_EQ(second->owner_of(7), first->slot());
  first->release(7);
  EXPECT_TRUE(second->claim(7));
  EXPECT_EQ(first->owner_of(7), second->slot());
}

TEST_F(MembershipTest, ServicesHaveOneServer) {
  const auto first = join();
  const auto second = join();
  constexpr std::uint32_t kLast = kServices - 1;
  EXPECT_TRUE(first->claim_service(kLast));
  EXPECT_FALSE(second->claim_service(kLast));
  EXPECT_EQ(second->server_of(kLast), std::nullopt) << "it does not serve it yet";
  EXPECT_TRUE(first->serve(kLast));
  EXPECT_EQ(second->server_of(kLast), first->slot());
  second->release_service(kLast);  // which is not its own
  second->stop_serving(kLast);
  EXPECT_FALSE(second->claim_service(kLast));
  EXPECT_EQ(second->server_of(kLast), first->slot());
  first->stop_serving(kLast);
  EXPECT_EQ(second->server_of(kLast), std::nullopt);
  EXPECT_FALSE(second->claim_service(kLast));
  first->release_service(kLast);
  EXPECT_TRUE(second->claim_service(kLast));
  EXPECT_TRUE(second->claim(7)) << "numbers of queue pairs are others";
}

TEST_F(MembershipTest, TheServicesOfTheDeadAreFree) {
  const auto survivor = join();
  die_after([](Membership& member) {
    if (!member.claim_service(70'000) || !member.serve(70'000)) _exit(1);
  });
  EXPECT_FALSE(survivor->claim_service(70'000)) << "nobody has noticed yet";
  survivor->reap();
  EXPECT_TRUE(survivor->claim_service(70'000));
  EXPECT_TRUE(survivor->serve(70'000));
}

TEST_F(MembershipTest, WhoLeavesLeavesNothing) {
  auto first = join();
  const std::size_t before = files();
  auto second = join();
  const std::uint16_t slot = second->slot();
  const std::uint32_t generation = first->slot(slot).generation.load();
  EXPECT_EQ(generation % 2, 1u);
  ASSERT_TRUE(second->claim(9));
  second.reset();
  EXPECT_EQ(files(), before);
  EXPECT_EQ(first->owner_of(9), std::nullopt);
  EXPECT_EQ(first->slot(slot).generation.load(), generation + 1);
  second = join();
  EXPECT_EQ(second->slot(), slot);
  EXPECT_EQ(first->slot(slot).generation.load(), generation + 2);
}

TEST_F(MembershipTest, WhoComesCleansUpAfterTheDead) {
  const auto survivor = join();
  const std::size_t before = files();
  std::uint16_t slot = kSlotsMax;
  die_after([](Membership& member) {
    if (!member.claim(1000) || !member.claim(65535)) _exit(1);
  });
  ASSERT_TRUE(survivor->owner_of(1000).has_value()) << "nobody has noticed yet";
  slot = *survivor->owner_of(1000);
  EXPECT_EQ(files(), before + 1);
  auto newcomer = join();
  EXPECT_EQ(newcomer->slot(), slot) << "the lowest free one";
  EXPECT_EQ(survivor->owner_of(1000), std::nullopt);
  EXPECT_EQ(survivor->owner_of(65535), std::nullopt);
  newcomer.reset();
  EXPECT_EQ(files(), before);
}

TEST_F(MembershipTest, ReapingTakesBackWhatTheDeadHad) {
  const auto survivor = join();
  const std::size_t before = files();
  for (int i = 0; i < 3; ++i) {
    die_after([](Membership& member) {
      if (!member.claim(1000)) _exit(1);
    });
    EXPECT_FALSE(survivor->claim(1000));
    survivor->reap();
    EXPECT_EQ(files(), before);
    EXPECT_TRUE(survivor->claim(1000));
    survivor->release(1000);
  }
}

TEST_F(MembershipTest, TalliesGoOnFromThoseOfTheDead) {
  std::uint16_t slot = kSlotsMax;
  {
    const auto before = join();
    slot = before->slot();
    OwnTallies tallies(before->own_tallies());
    tallies.set(kTallies - 1, 3);
    tallies.set(kTallies - 1, 7);
  }
  die_after([](Membership& member) { OwnTallies(member.own_tallies()).set(kTallies - 1, 5); });
  const auto after = join();
  EXPECT_EQ(after->slot(), slot);
  EXPECT_EQ(after->own_tallies()[kTallies - 1].load(std::memory_order_relaxed), 12u);
  EXPECT_EQ(after->own_tallies()[0].load(std::memory_order_relaxed), 0u);

  // As one reads them who is no member.
  std::ifstream table(directory_.path() + "/table", std::ios::binary);
  table.seekg(static_cast<std::streamoff>(kTalliesAt + (slot * kTallies + kTallies - 1) * 8));
  std::uint64_t found = 0;
  table.read(reinterpret_cast<char*>(&found), sizeof found);
  EXPECT_EQ(found, 12u);
}

TEST_F(MembershipTest, TheListsOfTheDeadAreRemoved) {
  die_after([](Membership& member) { std::ofstream(member.resources_path()) << "list"; });
  const auto first = join();
  std::ofstream(first->resources_path()) << "list";
  die_after([](Membership& member) { std::ofstream(member.resources_path()) << "list"; });
  EXPECT_EQ(files(), 5u);
  first->reap();
  EXPECT_EQ(files(), 3u) << "the table, and this one's lanes and list";
  EXPECT_TRUE(std::filesystem::exists(first->resources_path()));
}

TEST_F(MembershipTest, ReapingSparesTheLiving) {
  const auto first = join();
  const auto second = join();
  ASSERT_TRUE(second->claim(5));
  const std::uint32_t generation = second->own_slot().generation.load();
  first->reap();
  EXPECT_EQ(first->owner_of(5), second->slot());
  EXPECT_EQ(second->own_slot().generation.load(), generation);
  EXPECT_TRUE(first->open_lane_to(second->slot(), generation).has_value());
}

TEST_F(MembershipTest, ChildOfAMemberIsNone) {
  auto member = join();
  ASSERT_TRUE(member->claim(3));
  const pid_t child = fork();
  if (child == 0) {
    member.reset();  // as exit() would
    _exit(0);
  }
  int status = 1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  const auto other = join();
  EXPECT_NE(other->slot(), member->slot());
  EXPECT_EQ(other->owner_of(3), member->slot());
}

TEST_F(MembershipTest, ChildThatLetsGoDoesNotKeepTheSlot) {
  std::array<int, 2> done{};
  ASSERT_EQ(pipe2(done.data(), O_CLOEXEC), 0);
  pid_t grandchild = 0;
  std::array<int, 2> number{};
  ASSERT_EQ(pipe2(number.data(), O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    auto member = Membership::join(directory_.path());
    if (!member || !(*member)->claim(11)) _exit(1);
    const pid_t own = fork();
    if (own == 0) {
      (*member)->let_go();
      char end = 0;
      close(done[1]);
      (void)!read(done[0], &end, 1);  // until the test is over
      _exit(0);
    }
    (void)!write(number[1], &own, sizeof own);
    (void)!raise(SIGKILL);
  }
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  ASSERT_EQ(read(number[0], &grandchild, sizeof grandchild), ssize_t{sizeof grandchild});
  // The grandchild may not have let go yet.
  std::unique_ptr<Membership> survivor;
  while (survivor == nullptr || survivor->owner_of(11)) {
    survivor.reset();
    survivor = join();
  }
  EXPECT_EQ(kill(grandchild, 0), 0) << "it lives";
  for (const int fd : {done[0], done[1], number[0], number[1]}) {
    close(fd);
  }
}

TEST_F(MembershipTest, AllPlacesInUse) {
  std::vector<std::unique_ptr<Membership>> members;
  for (int i = 0; i < kSlotsMax; ++i) {
    members.push_back(join());
    ASSERT_NE(members.back(), nullptr) << i;
  }
  const auto refused = Membership::join(directory_.path());
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::exhausted);
  EXPECT_THAT(refused.error().message, HasSubstr("128 places"));
  members.erase(members.begin() + 50);
  EXPECT_EQ(join()->slot(), 50);
}

// A member of another version has locked a byte of it.
TEST_F(MembershipTest, RefusesATableOfAnotherVersionThatIsUsed) {
  const std::string path = directory_.path() + "/table";
  std::ofstream(path) << "something else";
  const Descriptor user(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  struct flock slot = {};
  slot.l_type = F_WRLCK;
  slot.l_start = 77;
  slot.l_len = 1;
  ASSERT_EQ(fcntl(user.fd(), F_OFD_SETLK, &slot), 0);
  for (const off_t size : {off_t{14}, static_cast<off_t>(sizeof(Table))}) {
    ASSERT_EQ(truncate(path.c_str(), size), 0);
    const auto refused = Membership::join(directory_.path());
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, ErrorCode::invalid_state);
    EXPECT_THAT(refused.error().message, HasSubstr("/table is not a table of this version"));
  }
}

// What an older release has left does not stop a newer one.
TEST_F(MembershipTest, ReplacesATableOfAnotherVersionThatIsNotUsed) {
  std::ofstream(directory_.path() + "/table") << "something else";
  const auto member = join();
  ASSERT_NE(member, nullptr);
  EXPECT_NE(join(), nullptr) << "the same table";
}

TEST_F(MembershipTest, LaneToOneThatHasLeft) {
  const auto member = join();
  EXPECT_EQ(member->open_lane_to(77, 1).error().code, ErrorCode::not_found);
  std::ofstream(directory_.path() + "/lanes-77-1") << "too short";
  EXPECT_EQ(member->open_lane_to(77, 1).error().code, ErrorCode::io);
}

TEST_F(MembershipTest, WhateverStandsInTheTable) {
  const auto member = join();
  const auto other = join();
  for (auto& senders : other->own_slot().senders) {
    senders.store(UINT64_MAX);
  }
  other->own_slot().generation.store(12345679);
  other->own_slot().sleep.store(UINT32_MAX);
  EXPECT_EQ(member->open_lane_to(other->slot(), 12345679).error().code, ErrorCode::not_found);
  member->reap();
  EXPECT_NE(join(), nullptr);
}

class SegmentDirectory : public ::testing::Test {
 protected:
  SegmentDirectory() {
    if (const char* value = std::getenv("ROCKHOPPER_SEGMENT")) before_ = value;
    setenv("ROCKHOPPER_SEGMENT", (base_.path() + "/segment").c_str(), 1);
  }
  ~SegmentDirectory() override {
    if (before_) {
      setenv("ROCKHOPPER_SEGMENT", before_->c_str(), 1);
    } else {
      unsetenv("ROCKHOPPER_SEGMENT");
    }
  }

  test::TemporaryDirectory base_;
  std::optional<std::string> before_;
};

TEST_F(SegmentDirectory, IsWhereTheVariableSays) {
  const auto path = directory();
  ASSERT_TRUE(path.has_value()) << path.error().message;
  EXPECT_EQ(*path, base_.path() + "/segment");
  struct stat status = {};
  ASSERT_EQ(stat(path->c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700u);
}

TEST_F(SegmentDirectory, RefusesOneThatOthersMayEnter) {
  ASSERT_EQ(mkdir((base_.path() + "/segment").c_str(), 0700), 0);
  ASSERT_EQ(chmod((base_.path() + "/segment").c_str(), 0755), 0);
  EXPECT_THAT(directory().error().message, HasSubstr("this user alone"));
}

TEST_F(SegmentDirectory, IsOfTheNetworkNamespaceWithoutTheVariable) {
  unsetenv("ROCKHOPPER_SEGMENT");
  struct stat network = {};
  ASSERT_EQ(stat("/proc/self/ns/net", &network), 0);
  const auto path = directory();
  ASSERT_TRUE(path.has_value()) << path.error().message;
  EXPECT_THAT(*path, HasSubstr("/segment-" + std::to_string(network.st_ino)));
}

TEST_F(SegmentDirectory, IsWhereAReaderLooks) {
  for (const bool given : {true, false}) {
    if (!given) unsetenv("ROCKHOPPER_SEGMENT");
    char found[PATH_MAX];
    ASSERT_TRUE(write_segment_path(found, sizeof found));
    EXPECT_EQ(directory().value_or("none"), found);
    EXPECT_FALSE(write_segment_path(found, 8)) << "it has no room";
  }
}

}  // namespace
}  // namespace rockhopper::stack::segment
