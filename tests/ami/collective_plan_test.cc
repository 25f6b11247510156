// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// The plans of collectives for any number of ranks: whatever one rank sends another one awaits, and
// each result has every rank's part once (AM-27).
#include "apps/services/ami/collective_plan.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

namespace rockhopper::ami {
namespace {

/// Executes the plans of all ranks with words for data: what each rank has in the end.
class Words {
 public:
  Words(const CollectiveCall& call, Rank ranks) : call_(call), words_(ranks), next_(ranks) {
    for (Rank rank = 0; rank < ranks; ++rank) {
      plans_.push_back(Plan::make(call, rank, ranks));
      words_[rank] = std::to_string(rank);
      heard_.push_back({rank});
    }
    for (bool moved = true; moved;) {
      moved = false;
      for (Rank rank = 0; rank < ranks; ++rank) {
        moved = turn(rank) || moved;
      }
    }
  }

  [[nodiscard]] bool finished() const {
    for (std::size_t rank = 0; rank < plans_.size(); ++rank) {
      if (next_[rank] != 2 * plans_[rank].steps().size()) return false;
    }
    return messages_.empty();
  }
  [[nodiscard]] const std::string& word(Rank rank) const { return words_[rank]; }
  [[nodiscard]] const std::set<Rank>& heard(Rank rank) const { return heard_[rank]; }
  [[nodiscard]] std::size_t sent() const { return sent_; }

 private:
  struct Content {
    std::string word;
    std::set<Rank> heard;
  };

  /// Does half a step: exchanges send and then wait, services wait and then send.
  bool turn(Rank rank) {
    const auto steps = plans_[rank].steps();
    const std::size_t at = next_[rank];
    if (at == 2 * steps.size()) return false;
    const Step& step = steps[at / 2];
    const bool exchange = at / 2 < plans_[rank].exchanges();
    if ((at % 2 == 0) == exchange) {
      if (step.to != Step::kNobody) {
        const bool added =
            messages_
                .emplace(std::tuple{rank, step.to, step.round}, Content{words_[rank], heard_[rank]})
                .second;
        EXPECT_TRUE(added);
        EXPECT_NE(plans_[step.to].awaiting(step.round, rank), nullptr);
        ++sent_;
      }
    } else if (step.from != Step::kNobody) {
      const auto found = messages_.find({step.from, rank, step.round});
      if (found == messages_.end()) return false;
      const Content& content = found->second;
      if (step.take == Take::replace) words_[rank] = content.word;
      if (step.take == Take::lower) words_[rank] = "(" + content.word + " " + words_[rank] + ")";
      if (step.take == Take::upper) words_[rank] = "(" + words_[rank] + " " + content.word + ")";
      heard_[rank].insert(content.heard.begin(), content.heard.end());
      messages_.erase(found);
    }
    ++next_[rank];
    return true;
  }

  CollectiveCall call_;
  std::vector<Plan> plans_;
  std::vector<std::string> words_;
  std::vector<std::set<Rank>> heard_;
  std::vector<std::size_t> next_;
  std::map<std::tuple<Rank, Rank, std::uint8_t>, Content> messages_;
  std::size_t sent_ = 0;
};

constexpr Rank kMostRanks = 70;

TEST(CollectivePlans, AfterABarrierEachRankHasHeardOfAll) {
  for (Rank ranks = 1; ranks <= kMostRanks; ++ranks) {
    const Words words({.type = CollectiveType::barrier}, ranks);
    EXPECT_TRUE(words.finished()) << ranks;
    for (Rank rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(words.heard(rank).size(), ranks);
    }
  }
}

TEST(CollectivePlans, ABroadcastReachesEachRankOnceFromAnyRoot) {
  for (const auto type : {CollectiveType::broadcast, CollectiveType::long_broadcast}) {
    for (Rank ranks = 1; ranks <= 20; ++ranks) {
      for (Rank root = 0; root < ranks; ++root) {
        const Words words({.type = type, .root = root}, ranks);
        EXPECT_TRUE(words.finished()) << ranks << ", " << root;
        const std::size_t each = type == CollectiveType::broadcast ? 1 : 2;
        EXPECT_EQ(words.sent(), each * (ranks - 1u));
        for (Rank rank = 0; rank < ranks; ++rank) {
          EXPECT_EQ(words.word(rank), std::to_string(root));
        }
      }
    }
  }
}

/// "0 1 ... n-1" in their order, and brackets that do not depend on the rank.
TEST(CollectivePlans, AnAllReduceIsTheSameExpressionAtEachRank) {
  for (Rank ranks = 1; ranks <= kMostRanks; ++ranks) {
    const Words words({.type = CollectiveType::all_reduce}, ranks);
    EXPECT_TRUE(words.finished()) << ranks;
    std::string in_order;
    for (Rank rank = 0; rank < ranks; ++rank) {
      in_order += (rank == 0 ? "" : " ") + std::to_string(rank);
      EXPECT_EQ(words.word(rank), words.word(0));
    }
    std::string without;
    for (const char letter : words.word(0)) {
      if (letter != '(' && letter != ')') without += letter;
    }
    EXPECT_EQ(without, in_order);
  }
}

/// Who may wait for a rank that has given up is told so.
TEST(CollectivePlans, WhoeverWaitsIsANeighbour) {
  for (Rank ranks = 1; ranks <= kMostRanks; ++ranks) {
    std::vector<std::vector<Rank>> neighbours;
    for (Rank rank = 0; rank < ranks; ++rank) {
      neighbours.push_back(neighbours_of(rank, ranks));
    }
    for (const auto type :
         {CollectiveType::barrier, CollectiveType::long_broadcast, CollectiveType::all_reduce}) {
      for (Rank rank = 0; rank < ranks; ++rank) {
        const Rank root = static_cast<Rank>(rank * 7u % ranks);
        const Plan plan = Plan::make({.type = type, .root = root}, rank, ranks);
        for (const Step& step : plan.steps()) {
          if (step.from == Step::kNobody) continue;
          const auto& told = neighbours[step.from];
          EXPECT_NE(std::find(told.begin(), told.end(), rank), told.end())
              << int(rank) << " of " << ranks;
        }
      }
    }
    EXPECT_LE(neighbours[0].size(), 3u * std::bit_width(ranks) + 1);
  }
}

TEST(CollectivePlans, TheMostRanksFitAPlan) {
  constexpr Rank kMost = 0xfffe;
  for (const auto type :
       {CollectiveType::barrier, CollectiveType::long_broadcast, CollectiveType::all_reduce}) {
    for (const Rank rank : {Rank{0}, Rank{1}, Rank{2}, Rank{0x7fff}, Rank{kMost - 1}}) {
      const Plan plan = Plan::make({.type = type}, rank, kMost);
      EXPECT_LE(plan.steps().size(), Plan::kMaxSteps);
      for (const Step& step : plan.steps()) {
        EXPECT_LT(step.round, rounds_of(kMost));
      }
    }
  }
}

}  // namespace
}  // namespace rockhopper::ami
