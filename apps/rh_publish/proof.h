// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>

#include "stack/error.h"

namespace rockhopper::apps::publish {

/// What shows that one knows a secret without telling it: HMAC-SHA-256 over texts that both sides
/// know, as hexadecimal digits.
[[nodiscard]] std::string make_proof(std::string_view secret,
                                     std::initializer_list<std::string_view> texts);
/// In a time that does not depend on where they differ.
[[nodiscard]] bool is_proof(std::string_view proof, std::string_view secret,
                            std::initializer_list<std::string_view> texts);

/// 256 random bits as hexadecimal digits: what is proved with it has not been proved before.
[[nodiscard]] Expected<std::string> make_nonce();
inline constexpr std::size_t kNonceDigits = 64;

}  // namespace rockhopper::apps::publish
