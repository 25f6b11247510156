// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/dag_graph/sequential_evaluator.h"

#include <algorithm>
#include <map>
#include <vector>

#include <openssl/evp.h>
#include <openssl/sha.h>

namespace rockhopper::dag::test {
namespace {

void append_number(std::string& text, std::uint64_t number) {
  for (int i = 0; i < 8; ++i) {
    text += static_cast<char>(number >> (8 * i) & 0xff);
  }
}

void append_text(std::string& text, const std::string& other) {
  append_number(text, other.size());
  text += other;
}

std::string sha256(const std::string& text) {
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  return {reinterpret_cast<const char*>(digest), sizeof digest};
}

/// Counter mode by hand: the cipher of one block after another.
std::string expanded(const std::string& digest, std::uint64_t bytes) {
  std::string output = digest;
  EVP_CIPHER_CTX* context = EVP_CIPHER_CTX_new();
  EVP_EncryptInit_ex(context, EVP_aes_256_ecb(), nullptr,
                     reinterpret_cast<const unsigned char*>(digest.data()), nullptr);
  for (std::uint64_t block = 0; output.size() < bytes; ++block) {
    unsigned char counter[16] = {};
    for (int i = 0; i < 8; ++i) {
      counter[15 - i] = static_cast<unsigned char>(block >> (8 * i));
    }
    unsigned char stream[32];
    int length = 0;
    EVP_EncryptUpdate(context, stream, &length, counter, sizeof counter);
    output.append(reinterpret_cast<const char*>(stream), sizeof counter);
  }
  EVP_CIPHER_CTX_free(context);
  output.resize(std::max<std::uint64_t>(bytes, digest.size()));
  return output;
}

/// Outputs by key, each made when it is first asked for.
class Evaluator {
 public:
  explicit Evaluator(const GraphPlan& plan) : plan_(plan) {}

  const std::string& output_of(const std::string& wanted) {
    // A stack of its own: a path may be as long as the graph.
    std::vector<std::string> stack{wanted};
    while (!stack.empty()) {
      const std::string key = stack.back();
      const NodePlan& node = plan_.nodes.at(key);
      const std::size_t before = stack.size();
      for (const auto& [from, constraints] : node.predecessors) {
        if (!outputs_.contains(from)) stack.push_back(from);
      }
      if (stack.size() != before) continue;
      stack.pop_back();
      if (!outputs_.contains(key)) outputs_.emplace(key, run(key, node));
    }
    return outputs_.at(wanted);
  }

 private:
  [[nodiscard]] std::string run(const std::string& key, const NodePlan& node) const {
    std::string output;
    for (const std::uint64_t bytes : node.output_bytes) {
      std::string text;
      append_text(text, key);
      append_number(text, plan_.seed);
      append_text(text, output);
      std::uint64_t inputs = 0;
      std::string read;
      for (const auto& [from, constraints] : node.predecessors) {
        if ((constraints.set & kData) == 0) continue;
        ++inputs;
        append_text(read, outputs_.at(from));
      }
      append_number(text, inputs);
      output = expanded(sha256(text + read), bytes);
    }
    return output;
  }

  const GraphPlan& plan_;
  std::map<std::string, std::string> outputs_;
};

}  // namespace

std::string evaluate(const GraphPlan& plan) {
  Evaluator evaluator(plan);
  std::string all;
  for (const auto& [key, node] : plan.nodes) {
    append_text(all, key);
    all += sha256(evaluator.output_of(key));
  }
  std::string hex;
  for (const char c : sha256(all)) {
    constexpr char kDigits[] = "0123456789abcdef";
    hex += kDigits[static_cast<unsigned char>(c) >> 4];
    hex += kDigits[static_cast<unsigned char>(c) & 15];
  }
  return hex;
}

std::string evaluate_node(const GraphPlan& plan, const std::string& key) {
  return Evaluator(plan).output_of(key);
}

}  // namespace rockhopper::dag::test
