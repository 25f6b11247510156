// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/conformance/device_server.h"

#include <array>
#include <cstdio>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>
#include <poll.h>
#include <unistd.h>

namespace rockhopper::conformance {
namespace {

using nlohmann::json;

RegionSpec region_of(const json& from) {
  return {.name = from.at("name"),
          .access = from.at("access"),
          .other_pd = from.at("other_pd"),
          .content = from_hex(from.at("content"))};
}

WindowSpec window_of(const json& from) {
  return {.name = from.at("name"), .type = from.at("type")};
}

QueuePairSpec queue_pair_of(const json& from) {
  return {.type = from.at("type"),
          .initiator = from.at("initiator") != 0,
          .state = from.at("state"),
          .srq = from.at("srq") != 0,
          .srq_limit = from.at("srq_limit"),
          .access = from.at("access"),
          .path_mtu = from.at("path_mtu"),
          .qkey = from.at("qkey"),
          .sq_psn = from.at("sq_psn"),
          .rq_psn = from.at("rq_psn"),
          .timeout = from.at("timeout"),
          .retry_cnt = from.at("retry_cnt"),
          .rnr_retry = from.at("rnr_retry"),
          .min_rnr_timer = from.at("min_rnr_timer"),
          .max_rd_atomic = from.at("max_rd_atomic"),
          .max_dest_rd_atomic = from.at("max_dest_rd_atomic"),
          .group = from.at("group"),
          .peer_address = from.at("peer_address"),
          .peer_mac = from.at("peer_mac"),
          .peer_qpn = from.at("peer_qpn")};
}

std::vector<Element> elements_of(const json& from) {
  std::vector<Element> elements;
  for (const json& one : from) {
    elements.push_back({.region = one.at("region"),
                        .offset = one.at("offset"),
                        .length = one.at("length"),
                        .bad_lkey = one.at("bad_lkey")});
  }
  return elements;
}

BindSpec bind_of(const json& from) {
  return {.window = from.at("window"),
          .region = from.at("region"),
          .offset = from.at("offset"),
          .length = from.at("length"),
          .access = from.at("access")};
}

SendSpec send_of(const json& from) {
  return {.wr_id = from.at("wr_id"),
          .opcode = static_cast<Opcode>(from.at("opcode").get<unsigned>()),
          .elements = elements_of(from.at("elements")),
          .fence = from.at("fence"),
          .signaled = from.at("signaled"),
          .solicited = from.at("solicited"),
          .is_inline = from.at("inline"),
          .imm_data = from.at("imm"),
          .invalidate_rkey = from.at("inv"),
          .remote_addr = from.at("va"),
          .rkey = from.at("rkey"),
          .compare_add = from.at("compare_add"),
          .swap = from.at("swap"),
          .remote_qkey = from.at("qkey"),
          .to_group = from.at("to_group"),
          .remote_qpn = from.at("dqpn").is_null() ? std::nullopt
                                                  : std::optional<std::uint32_t>(from.at("dqpn")),
          .remote_srqn = from.at("srq"),
          .bind = from.contains("bind") ? bind_of(from.at("bind")) : BindSpec{},
          .other_qp = from.at("other_qp")};
}

json to_json(const Completed& completed) {
  json object{{"receive", completed.receive},
              {"wr_id", completed.wr_id},
              {"status", completed.status},
              {"opcode", completed.opcode},
              {"length", completed.byte_len}};
  if (completed.imm_data) object["imm"] = *completed.imm_data;
  if (completed.invalidated_rkey) object["inv"] = *completed.invalidated_rkey;
  if (completed.src_qp) object["sqpn"] = *completed.src_qp;
  return object;
}

json open(Device& device, const json& command) {
  std::vector<RegionSpec> regions;
  for (const json& one : command.at("regions")) {
    regions.push_back(region_of(one));
  }
  std::vector<WindowSpec> windows;
  for (const json& one : command.at("windows")) {
    windows.push_back(window_of(one));
  }
  const Opened opened = device.open(queue_pair_of(command.at("qp")), regions, windows);
  json reply{{"qpn", opened.qpn}, {"regions", json::object()}, {"srqs", json::object()}};
  for (const OpenedSrq& srq : opened.srqs) {
    reply["srqs"][srq.name] = srq.number;
  }
  for (const OpenedRegion& region : opened.regions) {
    reply["regions"][region.name] = {{"address", region.address}, {"key", region.key}};
  }
  return reply;
}

json poll(Device& device) {
  json completions = json::array();
  for (const Completed& completed : device.poll()) {
    completions.push_back(to_json(completed));
  }
  return {{"completions", completions}, {"events", device.events()}};
}

unsigned digit(char character) {
  const std::string_view digits = "0123456789abcdef";
  const std::size_t place = digits.find(character);
  if (place == std::string_view::npos) throw Failure("not a hexadecimal digit");
  return static_cast<unsigned>(place);
}

}  // namespace

DeviceServer::DeviceServer(Device& device) : device_(device) {
  add("hello", [this](const json&) {
    return json{{"addresses", device_.addresses()}, {"mac", device_.mac()}};
  });
  add("open", [this](const json& command) { return open(device_, command); });
  add("close", [this](const json&) {
    device_.close();
    return json::object();
  });
  add("post_send", [this](const json& command) {
    const Posted posted = device_.post_send(send_of(command));
    return json{{"ok", posted.ok}, {"rkey", posted.rkey}};
  });
  add("post_recv", [this](const json& command) {
    return json{{"ok", device_.post_recv(command.at("wr_id"), elements_of(command.at("elements")),
                                         command.at("srq"))}};
  });
  add("poll", [this](const json&) { return poll(device_); });
  add("modify", [this](const json& command) {
    device_.modify_state(command.at("state"));
    return json::object();
  });
  add("state", [this](const json&) { return json{{"state", device_.state()}}; });
  add("deregister", [this](const json& command) {
    device_.deregister(command.at("region"));
    return json::object();
  });
  add("memory", [this](const json& command) {
    return json{{"content", to_hex(device_.memory(command.at("region")))}};
  });
  add("counters", [this](const json&) {
    json counters = json::object();
    for (const auto& [name, value] : device_.counters()) {
      counters[name] = value;
    }
    return json{{"counters", counters}};
  });
}

void DeviceServer::add(const std::string& name, Command command) {
  commands_[name] = std::move(command);
}

std::string DeviceServer::answer(const std::string& line) {
  try {
    const json command = json::parse(line);
    const auto found = commands_.find(command.at("do"));
    if (found == commands_.end()) throw Failure("no such command");
    return found->second(command).dump();
  } catch (const Failure& failure) {
    return json{{"error", failure.what()}}.dump();
  } catch (const json::exception& error) {
    return json{{"error", error.what()}}.dump();
  }
}

std::optional<std::string> LineReader::next(int timeout_ms) {
  for (;;) {
    if (const std::size_t end = buffer_.find('\n'); end != std::string::npos) {
      std::string line = buffer_.substr(0, end);
      buffer_.erase(0, end + 1);
      return line;
    }
    pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    if (ended_ || ::poll(&input, 1, timeout_ms) <= 0) return std::nullopt;
    std::array<char, 65536> chunk;
    const ssize_t count = ::read(STDIN_FILENO, chunk.data(), chunk.size());
    if (count <= 0) {
      ended_ = true;
      buffer_.clear();
      return std::nullopt;
    }
    buffer_.append(chunk.data(), static_cast<std::size_t>(count));
  }
}

void serve(DeviceServer& server, const std::function<void()>& turn) {
  LineReader reader;
  while (!reader.ended()) {
    if (turn) turn();
    if (const auto line = reader.next(turn ? 0 : -1)) {
      if (turn) {
        turn();  // what was sent before the line was written comes before it
      }
      std::printf("%s\n", server.answer(*line).c_str());
      std::fflush(stdout);
    }
  }
}

std::string to_hex(const std::vector<std::uint8_t>& bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::uint8_t byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::vector<std::uint8_t> from_hex(const std::string& text) {
  if (text.size() % 2 != 0) throw Failure("half a byte");
  std::vector<std::uint8_t> bytes(text.size() / 2);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::uint8_t>(digit(text[2 * i]) << 4 | digit(text[2 * i + 1]));
  }
  return bytes;
}

}  // namespace rockhopper::conformance
