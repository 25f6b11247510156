// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "apps/rh_publish/proof.h"

#include <set>

#include <gtest/gtest.h>

namespace rockhopper::apps::publish {
namespace {

// PB-9: who knows the secret can prove it, for these texts only.
TEST(Proof, HoldsForTheSecretAndTheTextsItWasMadeOf) {
  const std::string proof = make_proof("secret", {"one", "two"});
  EXPECT_TRUE(is_proof(proof, "secret", {"one", "two"}));
  EXPECT_FALSE(is_proof(proof, "Secret", {"one", "two"}));
  EXPECT_FALSE(is_proof(proof, "secret", {"two", "one"}));
  EXPECT_FALSE(is_proof(proof, "secret", {"onet", "wo"}));
  EXPECT_FALSE(is_proof(proof, "secret", {"onetwo"}));
  EXPECT_FALSE(is_proof(proof, "secret", {"one", "two", ""}));
  EXPECT_FALSE(is_proof("", "secret", {"one", "two"}));
  EXPECT_FALSE(is_proof(proof.substr(1), "secret", {"one", "two"}));
  for (std::size_t i = 0; i < proof.size(); ++i) {
    std::string other = proof;
    other[i] = other[i] == '0' ? '1' : '0';
    EXPECT_FALSE(is_proof(other, "secret", {"one", "two"}));
  }
}

TEST(Proof, IsHmacSha256) {
  // Python: hmac.new(b"Jefe", b"28:what do ya want for nothing?", "sha256").hexdigest()
  EXPECT_EQ(make_proof("Jefe", {"what do ya want for nothing?"}),
            "f9a7f5b9c4118c0f397a50b3a495f455c6666f75f95db0d20b32f7e7c995ee77");
}

TEST(Nonce, IsNeverTheSame) {
  std::set<std::string> seen;
  for (int i = 0; i < 1000; ++i) {
    const auto nonce = make_nonce();
    ASSERT_TRUE(nonce);
    EXPECT_EQ(nonce->size(), kNonceDigits);
    EXPECT_EQ(nonce->find_first_not_of("0123456789abcdef"), std::string::npos);
    EXPECT_TRUE(seen.insert(*nonce).second);
  }
}

}  // namespace
}  // namespace rockhopper::apps::publish
