// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_publish/policy_file.h"

#include <gmock/gmock.h>

#include "tests/unit/publish/temporary_folder.h"

namespace rockhopper::apps::publish {
namespace {

using ::testing::HasSubstr;

constexpr const char* kNews = R"({"everyone": ["news"]})";
constexpr const char* kNobody = R"({"everyone": []        })";

class PolicyFileTest : public ::testing::Test {
 protected:
  void open(const char* content) {
    auto file = PolicyFile::open(folder_.write("policy", content), {"news"});
    ASSERT_TRUE(file) << file.error().message;
    file_.emplace(std::move(*file));
  }
  /// The next look at the file.
  Expected<bool> look(bool at_once = false) {
    return file_->poll(now_ns_ += PolicyFile::kLookNs, at_once);
  }
  [[nodiscard]] bool readable() const { return file_->policy().may_read("", "news"); }
  /// As an editor does it.
  void replace(const char* content) {
    folder_.write("new", content);
    std::filesystem::rename(folder_.path("new"), folder_.path("policy"));
  }

  const TemporaryFolder folder_;
  std::optional<PolicyFile> file_;
  std::uint64_t now_ns_ = 1;
};

// PB-25: what the program revokes follows from.
TEST_F(PolicyFileTest, AChangeIsNoticed) {
  open(kNews);
  EXPECT_TRUE(readable());
  EXPECT_FALSE(look().value());
  replace(kNobody);
  EXPECT_TRUE(look().value());
  EXPECT_FALSE(readable());
  EXPECT_FALSE(look().value());
}

TEST_F(PolicyFileTest, TheFileIsLookedAtNowAndThenOnly) {
  open(kNews);
  EXPECT_FALSE(look().value());
  replace(kNobody);
  EXPECT_FALSE(file_->poll(now_ns_ + PolicyFile::kLookNs - 1, false).value());
  EXPECT_TRUE(file_->poll(now_ns_ + PolicyFile::kLookNs, false).value());
}

TEST_F(PolicyFileTest, AtOnceItIsReadInAnyCase) {
  open(kNews);
  EXPECT_TRUE(file_->poll(now_ns_, true).value());
  EXPECT_TRUE(file_->poll(now_ns_, true).value());
}

TEST_F(PolicyFileTest, AMistakeIsToldOnceAndChangesNothing) {
  open(kNews);
  replace(R"({"everyone": ["nws"]})");
  const auto mistake = look();
  ASSERT_FALSE(mistake);
  EXPECT_THAT(mistake.error().message, HasSubstr(folder_.path("policy") + ": everyone[0]: "));
  EXPECT_TRUE(readable());
  EXPECT_FALSE(look().value());
  std::filesystem::remove(folder_.path("policy"));
  ASSERT_FALSE(look());
  EXPECT_FALSE(look().value());
  EXPECT_TRUE(readable());
  replace(kNobody);
  EXPECT_TRUE(look().value());
  EXPECT_FALSE(readable());
}

TEST_F(PolicyFileTest, ThereHasToBeOneAtFirst) {
  EXPECT_THAT(PolicyFile::open(folder_.path("none"), {"news"}).error().message,
              HasSubstr(folder_.path("none")));
  EXPECT_THAT(PolicyFile::open(folder_.write("bad", "{"), {"news"}).error().message,
              HasSubstr("no JSON"));
}

TEST_F(PolicyFileTest, SecretsThatOthersCanReadAreNoticed) {
  using std::filesystem::perms;
  open(kNews);
  for (const auto& [mode, exposed] :
       {std::pair{perms::owner_read, false}, std::pair{perms::owner_read | perms::group_read, true},
        std::pair{perms::owner_read | perms::others_read, true}}) {
    std::filesystem::permissions(folder_.path("policy"), mode);
    EXPECT_TRUE(look(true).value());
    EXPECT_EQ(file_->is_exposed(), exposed);
  }
}

}  // namespace
}  // namespace rockhopper::apps::publish
