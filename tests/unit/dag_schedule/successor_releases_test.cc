// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Which successors are told of a node's end, and when (DG-34).
#include "apps/services/dag/schedule/successor_releases.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace rockhopper::dag::successor_releases_test {
namespace {

using Nodes = std::vector<NodeIndex>;

class SuccessorReleasesTest : public ::testing::Test {
 protected:
  void add(NodeIndex node, std::uint64_t not_before_ns = 0, bool directed = false) {
    links_.push_back(
        {.node = node, .constraints = {.not_before_ns = not_before_ns}, .directed = directed});
  }
  void begin() { releases_.begin(links_); }
  /// Whom the next batch tells.
  [[nodiscard]] Nodes next() const {
    Nodes nodes;
    for (const std::uint32_t successor : releases_.next()) {
      nodes.push_back(releases_.link(successor).node);
    }
    return nodes;
  }
  /// The next batch is posted and has found these dependencies; what is ready by that.
  Nodes tell(const std::vector<std::uint64_t>& found) {
    Nodes ready;
    releases_.on_posted();
    EXPECT_EQ(releases_.under_way(), found.size());
    EXPECT_TRUE(releases_.next().empty()) << "one batch at a time";
    releases_.on_found(found, [&](const NodeLink& link) { ready.push_back(link.node); });
    return ready;
  }

  std::vector<NodeLink> links_;
  SuccessorReleases releases_;
};

TEST_F(SuccessorReleasesTest, NobodyHasToBeTold) {
  begin();
  EXPECT_TRUE(releases_.next().empty());
  EXPECT_TRUE(releases_.is_idle());
  EXPECT_EQ(releases_.directed(), nullptr);
  EXPECT_FALSE(releases_.next_delay_ns());
}

// The last predecessor finds 1.
TEST_F(SuccessorReleasesTest, WhoFindsOneDependencyLeftHasMadeItReady) {
  for (const NodeIndex node : {4, 5, 6}) {
    add(node);
  }
  begin();
  EXPECT_FALSE(releases_.is_idle());
  EXPECT_EQ(next(), (Nodes{4, 5, 6}));
  EXPECT_EQ(tell({2, 1, 0}), Nodes{5});
  EXPECT_TRUE(releases_.is_idle());
}

TEST_F(SuccessorReleasesTest, ManyAreToldInBatches) {
  constexpr NodeIndex kCount = SuccessorReleases::kBatch + 10;
  for (NodeIndex node = 0; node < kCount; ++node) {
    add(node);
  }
  begin();
  EXPECT_EQ(next().size(), SuccessorReleases::kBatch);
  EXPECT_EQ(tell(std::vector<std::uint64_t>(SuccessorReleases::kBatch, 1)).size(),
            SuccessorReleases::kBatch);
  EXPECT_FALSE(releases_.is_idle());
  EXPECT_EQ(next().front(), SuccessorReleases::kBatch);
  EXPECT_EQ(tell(std::vector<std::uint64_t>(10, 1)).back(), kCount - 1);
  EXPECT_TRUE(releases_.is_idle());
}

TEST_F(SuccessorReleasesTest, ReadyOnesWithAnAffinityAreLookedAt) {
  add(4, 0, true);
  add(5);
  add(6, 0, true);
  add(7, 0, true);
  begin();
  EXPECT_EQ(tell({1, 1, 2, 1}), Nodes{5});
  Nodes looked_at;
  while (const NodeLink* link = releases_.directed()) {
    looked_at.push_back(link->node);
    releases_.drop_directed();
  }
  std::sort(looked_at.begin(), looked_at.end());
  EXPECT_EQ(looked_at, (Nodes{4, 7})) << "6 is not ready";
}

TEST_F(SuccessorReleasesTest, EdgesWithATimeWaitForIt) {
  add(4, 300);
  add(5);
  add(6, 100);
  add(7, 300);
  begin();
  EXPECT_EQ(next(), Nodes{5});
  EXPECT_EQ(tell({1}), Nodes{5});
  EXPECT_EQ(releases_.next_delay_ns(), 100u);
  releases_.on_time(150);
  EXPECT_EQ(next(), Nodes{6});
  EXPECT_EQ(tell({1}), Nodes{6});
  EXPECT_EQ(releases_.next_delay_ns(), 300u);
  releases_.on_time(300);
  EXPECT_EQ(next().size(), 2u);
  EXPECT_EQ(tell({1, 1}).size(), 2u);
  EXPECT_FALSE(releases_.next_delay_ns());
}

TEST_F(SuccessorReleasesTest, TheNextNodeBeginsAnew) {
  add(4, 100);
  add(5, 0, true);
  begin();
  (void)tell({1});
  links_ = {{.node = 8}};
  begin();
  EXPECT_EQ(next(), Nodes{8});
  EXPECT_EQ(releases_.directed(), nullptr);
  EXPECT_FALSE(releases_.next_delay_ns());
}

}  // namespace
}  // namespace rockhopper::dag::successor_releases_test
