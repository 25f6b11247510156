// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
// Which transitions a queue pair of each service makes, and with which attributes.
#include <map>
#include <utility>

#include "tests/unit/roce/rig.h"

namespace rockhopper::test {
namespace {

using roce::QpState;
using roce::QpType;

constexpr std::uint32_t kAllMasks = (1u << 21) - 1;

/// The tables of transitions as IBTA gives them (vol. 1, 11.2.5.2, modify queue pair), written down
/// here from the specification. RESET and ERR can be entered from every state.
struct Row {
  std::uint32_t required;
  std::uint32_t optional;  ///< without what this implementation does not have (alternate paths)
};
using Table = std::map<std::pair<QpState, QpState>, Row>;

const Table& rc_table() {
  using namespace roce;
  static const Table rows = {
      {{QpState::reset, QpState::init}, {kQpPkeyIndex | kQpPort | kQpAccessFlags, 0}},
      {{QpState::init, QpState::init}, {0, kQpPkeyIndex | kQpPort | kQpAccessFlags}},
      {{QpState::init, QpState::rtr},
       {kQpAv | kQpPathMtu | kQpDestQpn | kQpRqPsn | kQpMaxDestRdAtomic | kQpMinRnrTimer,
        kQpAccessFlags | kQpPkeyIndex}},
      {{QpState::rtr, QpState::rts},
       {kQpSqPsn | kQpTimeout | kQpRetryCnt | kQpRnrRetry | kQpMaxQpRdAtomic,
        kQpCurState | kQpAccessFlags | kQpMinRnrTimer}},
      {{QpState::rts, QpState::rts}, {0, kQpCurState | kQpAccessFlags | kQpMinRnrTimer}},
      {{QpState::rts, QpState::sqd}, {0, kQpEnSqdAsyncNotify}},
      {{QpState::sqd, QpState::rts}, {0, kQpCurState | kQpAccessFlags | kQpMinRnrTimer}},
      {{QpState::sqd, QpState::sqd},
       {0, kQpPort | kQpAv | kQpTimeout | kQpRetryCnt | kQpRnrRetry | kQpMaxQpRdAtomic |
               kQpMaxDestRdAtomic | kQpAccessFlags | kQpPkeyIndex | kQpMinRnrTimer}},
  };
  return rows;
}

const Table& uc_table() {
  using namespace roce;
  static const Table rows = {
      {{QpState::reset, QpState::init}, {kQpPkeyIndex | kQpPort | kQpAccessFlags, 0}},
      {{QpState::init, QpState::init}, {0, kQpPkeyIndex | kQpPort | kQpAccessFlags}},
      {{QpState::init, QpState::rtr},
       {kQpAv | kQpPathMtu | kQpDestQpn | kQpRqPsn, kQpAccessFlags | kQpPkeyIndex}},
      {{QpState::rtr, QpState::rts}, {kQpSqPsn, kQpCurState | kQpAccessFlags}},
      {{QpState::rts, QpState::rts}, {0, kQpCurState | kQpAccessFlags}},
      {{QpState::rts, QpState::sqd}, {0, kQpEnSqdAsyncNotify}},
      {{QpState::sqd, QpState::rts}, {0, kQpCurState | kQpAccessFlags}},
      {{QpState::sqd, QpState::sqd}, {0, kQpAv | kQpAccessFlags | kQpPkeyIndex}},
      {{QpState::sqe, QpState::rts}, {0, kQpCurState | kQpAccessFlags}},
  };
  return rows;
}

const Table& ud_table() {
  using namespace roce;
  static const Table rows = {
      {{QpState::reset, QpState::init}, {kQpPkeyIndex | kQpPort | kQpQkey, 0}},
      {{QpState::init, QpState::init}, {0, kQpPkeyIndex | kQpPort | kQpQkey}},
      {{QpState::init, QpState::rtr}, {0, kQpPkeyIndex | kQpQkey}},
      {{QpState::rtr, QpState::rts}, {kQpSqPsn, kQpCurState | kQpQkey}},
      {{QpState::rts, QpState::rts}, {0, kQpCurState | kQpQkey}},
      {{QpState::rts, QpState::sqd}, {0, kQpEnSqdAsyncNotify}},
      {{QpState::sqd, QpState::rts}, {0, kQpCurState | kQpQkey}},
      {{QpState::sqd, QpState::sqd}, {0, kQpPkeyIndex | kQpQkey}},
      {{QpState::sqe, QpState::rts}, {0, kQpCurState | kQpQkey}},
  };
  return rows;
}

class QpTransitionTable : public ::testing::TestWithParam<QpType> {
 protected:
  [[nodiscard]] static const Table& table() {
    switch (GetParam()) {
      case QpType::rc:
      case QpType::xrc_send:  // xrc_test.cc
      case QpType::xrc_recv:
      case QpType::extension_initiator:  // no transitions that an application makes
      case QpType::extension_responder:
        break;
      case QpType::uc:
        return uc_table();
      case QpType::ud:
        return ud_table();
    }
    return rc_table();
  }
  [[nodiscard]] static ConnectionOptions in_state(QpState state) {
    return {.qp_type = GetParam(), .state = state};
  }
  /// No attribute leads to SQE, and RC never gets there.
  [[nodiscard]] static std::vector<QpState> states() {
    std::vector<QpState> all = {QpState::reset, QpState::init, QpState::rtr,
                                QpState::rts,   QpState::sqd,  QpState::err};
    if (GetParam() != QpType::rc) all.push_back(QpState::sqe);
    return all;
  }
};

TEST_P(QpTransitionTable, Clause10_3_1_OnlyTheTablesTransitionsArePossible) {
  for (const QpState from : states()) {
    for (const QpState to : states()) {
      Rig rig(in_state(from));
      ASSERT_EQ(rig.qp().state(), from);
      roce::QpAttributes a = rig.attributes({});
      a.qp_state = to;
      const auto row = table().find({from, to});
      const bool always = to == QpState::reset || to == QpState::err;
      const std::uint32_t mask =
          roce::kQpState | (row == table().end() ? 0u : row->second.required);
      const bool allowed = always || row != table().end();
      const auto result = rig.qp().modify(a, mask);
      EXPECT_EQ(result.has_value(), allowed)
          << to_string(from) << " to " << to_string(to) << ": "
          << (result ? std::string("accepted") : result.error().message);
      EXPECT_EQ(rig.qp().state(), allowed ? to : from);
    }
  }
}

TEST_P(QpTransitionTable, Clause11_2_5_EachRequiredAttributeIsRequired) {
  for (const auto& [key, row] : table()) {
    for (std::uint32_t bit = 1; bit < kAllMasks; bit <<= 1) {
      if ((row.required & bit) == 0) continue;
      Rig rig(in_state(key.first));
      roce::QpAttributes a = rig.attributes({});
      a.qp_state = key.second;
      EXPECT_FALSE(rig.qp().modify(a, roce::kQpState | (row.required & ~bit)).has_value())
          << to_string(key.first) << " to " << to_string(key.second) << " without " << bit;
      EXPECT_EQ(rig.qp().state(), key.first);
    }
  }
}

TEST_P(QpTransitionTable, Clause11_2_5_OnlyListedAttributesAreAccepted) {
  for (const auto& [key, row] : table()) {
    for (std::uint32_t bit = 1; bit < kAllMasks; bit <<= 1) {
      if (bit == roce::kQpState || (row.required & bit) != 0) continue;
      Rig rig(in_state(key.first));
      roce::QpAttributes a = rig.attributes({});
      a.qp_state = key.second;
      a.cur_qp_state = key.first;
      const bool may_be_refused = (bit == roce::kQpCurState);  // SQD to SQD: left to the provider
      const auto result = rig.qp().modify(a, roce::kQpState | row.required | bit);
      if (!may_be_refused || (row.optional & bit) != 0) {
        EXPECT_EQ(result.has_value(), (row.optional & bit) != 0)
            << to_string(key.first) << " to " << to_string(key.second) << " with " << bit;
      }
      EXPECT_EQ(rig.qp().state(), result.has_value() ? key.second : key.first);
    }
  }
}

TEST_P(QpTransitionTable, BringingUpTakesEachStepWithWhatItRequires) {
  for (const QpState from : {QpState::reset, QpState::init, QpState::rtr, QpState::rts}) {
    for (const QpState target : {QpState::init, QpState::rtr, QpState::rts}) {
      Rig rig(in_state(from));
      const auto result = rig.qp().bring_up(rig.attributes({}), target);
      EXPECT_EQ(result.has_value(), from <= target) << to_string(from) << to_string(target);
      EXPECT_EQ(rig.qp().state(), from <= target ? target : from);
    }
  }
  Rig failed(in_state(QpState::err));
  EXPECT_FALSE(failed.qp().bring_up(failed.attributes({}), QpState::rts).has_value());
  EXPECT_EQ(failed.qp().state(), QpState::err);
}

INSTANTIATE_TEST_SUITE_P(Services, QpTransitionTable,
                         ::testing::Values(QpType::rc, QpType::uc, QpType::ud),
                         [](const auto& row) { return std::string(to_string(row.param)); });

}  // namespace
}  // namespace rockhopper::test
