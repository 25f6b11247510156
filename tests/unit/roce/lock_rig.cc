// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#include "tests/unit/roce/lock_rig.h"

#include <cstring>

namespace rockhopper::test {

using roce::lock::LockWord;
using wire::Opcode;

ConnectionOptions LockRig::with_locks(ConnectionOptions options) {
  options.lock_execution = true;
  options.max_rd_atomic = options.max_dest_rd_atomic = 16;
  return options;
}

LockRig::LockRig(const ConnectionOptions& options, const roce::lock::Region::Config& config)
    : LockMemory(config),
      Rig(options),
      options_(options),
      mr_(engine()
              .register_memory(pd(), cells.data(), cells.size() * sizeof cells[0], roce::kAccessAll)
              .value()) {
  engine().attach_locks(region);
}

roce::QueuePair& LockRig::connect(std::uint32_t rq_psn) {
  ConnectionOptions options = options_;
  options.rq_psn = rq_psn;
  roce::QueuePair& made = make_qp(options);
  bring_up(made, options);
  return made;
}

void LockRig::to(roce::QueuePair& qp, Packet packet) {
  packet.headers.bth.destination = qp.number();
  inject(packet);
}

void LockRig::inject_all(const std::vector<Packet>& packets) {
  for (const Packet& packet : packets) {
    inject(packet);
  }
}

std::uint64_t LockRig::lock_va(std::size_t offset) const {
  return reinterpret_cast<std::uintptr_t>(cells.data()) + offset;
}

LockWord LockRig::word(std::size_t offset) const { return LockWord::from(cell(offset)); }

Payload LockRig::data(std::size_t offset, std::size_t length) const {
  Payload result(length);
  std::memcpy(result.data(), reinterpret_cast<const std::uint8_t*>(cells.data()) + offset, length);
  return result;
}

void LockRig::poke(std::size_t offset, const Payload& bytes) {
  std::memcpy(reinterpret_cast<std::uint8_t*>(cells.data()) + offset, bytes.data(), bytes.size());
}

void LockRig::hold_elsewhere(std::size_t offset) {
  poke(offset, LockWord{.generation = 3,
                        .state = LockWord::State::exclusive,
                        .flags = 0,
                        .owner = 0xbeef,
                        .readers = 0}
                   .value());
}

Packet LockRig::acquire(std::uint32_t psn, const Ask& ask) const {
  Packet result = packet(Opcode::lock_request, psn);
  result.headers.lketh = {.subtype = ask.subtype,
                          .flags = ask.flags,
                          .scope_id = ask.id,
                          .rkey = lock_rkey(),
                          .va = lock_va(ask.word),
                          .max_tries = ask.tries,
                          .timeout = ask.timeout,
                          .wait_us = ask.wait_us,
                          .owner = ask.owner,
                          .lease_us = ask.lease_us,
                          .scope_psns = ask.psns};
  return result;
}

Packet LockRig::release(std::uint32_t psn, std::uint16_t id) const {
  return acquire(psn, {.id = id, .subtype = wire::Lketh::kRelease});
}

Packet LockRig::cancel(std::uint32_t psn, std::uint16_t id) const {
  return acquire(psn, {.id = id, .subtype = wire::Lketh::kCancel});
}

wire::Reth LockRig::reth_of(std::size_t offset, std::uint32_t length) const {
  return {.va = lock_va(offset), .rkey = lock_rkey(), .length = length};
}

Packet LockRig::write(std::uint32_t psn, std::size_t offset, Payload bytes) const {
  const auto length = static_cast<std::uint32_t>(bytes.size());
  return write_packet(Opcode::rc_rdma_write_only, psn, reth_of(offset, length), std::move(bytes));
}

Packet LockRig::read(std::uint32_t psn, std::size_t offset, std::uint32_t length) const {
  return read_request(psn, reth_of(offset, length));
}

Packet LockRig::add(std::uint32_t psn, std::size_t offset, std::uint64_t value) const {
  return fetch_add(psn, lock_va(offset), lock_rkey(), value);
}

Packet lock_answer(std::uint32_t psn, wire::LockStatus status, wire::LockCause cause,
                   std::uint64_t value, std::uint64_t previous) {
  Packet result = packet(Opcode::lock_response, psn, {}, false);
  result.headers.lkaeth = {
      .status = status, .cause = cause, .previous_word = previous, .value = value};
  return result;
}

}  // namespace rockhopper::test
