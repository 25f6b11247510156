// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "apps/services/dag/client_area.h"

namespace rockhopper::dag {

/// The request words of a client at a server (client_area.h): which of them have a request under
/// way, and whose it is. There are never more requests than words: so none overruns the server's
/// receives, however long it stands still, and READs behind them go on.
class RequestWords {
 public:
  /// No request is under way.
  void reset() { *this = {}; }
  /// Takes a word for a request of that operation. Returns the request's id, above 0, and higher
  /// than that of any before with the same word; nothing if all words are taken.
  [[nodiscard]] std::optional<std::uint64_t> take(std::uint32_t operation) {
    const auto free =
        std::find_if(words_.begin(), words_.end(), [](const Word& word) { return !word.is_taken; });
    if (free == words_.end()) return std::nullopt;
    free->is_taken = free->is_awaited = true;
    free->id = next_++ * kRequestWords + static_cast<std::uint64_t>(free - words_.begin());
    free->operation = operation;
    return free->id;
  }
  /// Returns what the word of that request has, as long as neither side has changed it for it.
  [[nodiscard]] std::uint64_t known(std::uint64_t id) const { return words_[word_of(id)].known; }

  /// What an answer is.
  struct Answer {
    bool is_expected = false;                ///< there is such a request
    std::optional<std::uint32_t> operation;  ///< that waits for it
  };
  /// The server has answered a request, or told that it was `canceled`: the word is free.
  Answer on_answer(std::uint64_t id, bool canceled) {
    Word& word = words_[word_of(id)];
    if (!word.is_taken || word.id != id) return {};
    word.is_taken = false;
    word.known = RequestWord{.id = id, .canceled = canceled}.bits();
    Answer answer{.is_expected = true, .operation = {}};
    if (word.is_awaited) answer.operation = word.operation;
    word.is_awaited = false;
    return answer;
  }
  /// The request was not sent at all: the word is free.
  void withdraw(std::uint64_t id) {
    Word& word = of(id);
    word.is_taken = word.is_awaited = false;
  }
  /// Nobody waits for the answer any more. The word is free when it comes.
  void forsake(std::uint64_t id) { of(id).is_awaited = false; }
  /// The client has canceled the request. If it was `sent`, its receipt makes the word free.
  void on_canceled(std::uint64_t id, bool sent) {
    Word& word = of(id);
    word.known = RequestWord{.id = id, .canceled = true}.bits();
    word.is_awaited = false;
    if (!sent) word.is_taken = false;
  }

 private:
  struct Word {
    bool is_taken = false;    ///< until the server has answered, even if nobody waits any more
    bool is_awaited = false;  ///< by the operation; only if it is taken
    std::uint64_t id = 0;     ///< of the request
    std::uint64_t known = 0;  ///< RequestWord, while the word is free or nobody has changed it
    std::uint32_t operation = 0;
  };
  [[nodiscard]] Word& of(std::uint64_t id) {
    Word& word = words_[word_of(id)];
    assert(word.id == id);
    return word;
  }

  std::array<Word, kRequestWords> words_{};
  std::uint64_t next_ = 1;  ///< ids are multiples of kRequestWords of it, and the word
};

}  // namespace rockhopper::dag
