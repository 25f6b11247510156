-- SPDX-License-Identifier: BSD-3-Clause
-- Copyright (c) The Rockhopper authors
--
-- What Rockhopper adds to RoCEv2, for Wireshark and tshark: dynamic connections, selective
-- acknowledges, masked atomics, locks. docs/wireshark.md says how to use it, docs/wire.md has the
-- layouts.
--
-- A post-dissector: Wireshark dissects every packet as ever, and packets with an opcode of ours get
-- one more tree and a better Info column.

-- It may be loaded twice, from a plugin folder and by -X lua_script: the first one stays.
local is_new, rockhopper = pcall(Proto, "rockhopper", "Rockhopper")
if not is_new then return end

local BTH_SIZE, ICRC_SIZE = 12, 4
local MAGIC, VERSION = 0x44435631, 1
local FIRST_NUMBER, LAST_NUMBER = 0xD00000, 0xDFFFFF
local SELECTIVE_ACK, CONTROL, MASKED_ATOMIC, CONNECT_DATA = 0xD5, 0xD8, 0xDB, 0xDE
local LOCK_REQUEST, LOCK_RESPONSE = 0xD9, 0xDA

-- Names ------------------------------------------------------------------------------------------

-- Opcodes: name; name in the Info column, as Wireshark has it for RC; headers behind the BTH in
-- order; payload: true, or the bytes that there have to be.
local OPERATIONS = {
  [SELECTIVE_ACK] = {
    "Reliable Connection (RC) - Selective Acknowledge", "RC Selective Acknowledge",
    { "aeth", "saeth" }, 0,
  },
  [CONTROL] = { "Dynamic Connection (DC) - Control", "DC Control", { "dc" }, 0 },
  [MASKED_ATOMIC] = {
    "Reliable Connection (RC) - Masked Atomic", "RC Masked Atomic", { "xaeth" }, 0,
  },
  [CONNECT_DATA] = {
    "Dynamic Connection (DC) - Connect with Data", "DC Connect Data", { "dc" }, true,
  },
  -- To a number of DCIs and DCTs a DCSH comes first.
  [LOCK_REQUEST] = { "Lock Request", "Lock Request", { "lketh" }, 0 },
  [LOCK_RESPONSE] = { "Lock Response", "Lock Response", { "lkaeth" }, 0 },
}

-- Of dynamic connections by the low five bits, behind the DCSH.
local RC_OPERATIONS = {
  [0x00] = { "SEND First", "Send First", {}, true },
  [0x01] = { "SEND Middle", "Send Middle", {}, true },
  [0x02] = { "SEND Last", "Send Last", {}, true },
  [0x03] = { "SEND Last with Immediate", "Send Last Immediate", { "immdt" }, true },
  [0x04] = { "SEND Only", "Send Only", {}, true },
  [0x05] = { "SEND Only with Immediate", "Send Only Immediate", { "immdt" }, true },
  [0x06] = { "RDMA WRITE First", "RDMA Write First", { "reth" }, true },
  [0x07] = { "RDMA WRITE Middle", "RDMA Write Middle", {}, true },
  [0x08] = { "RDMA WRITE Last", "RDMA Write Last", {}, true },
  [0x09] = { "RDMA WRITE Last with Immediate", "RDMA Write Last Immediate", { "immdt" }, true },
  [0x0A] = { "RDMA WRITE Only", "RDMA Write Only", { "reth" }, true },
  [0x0B] = {
    "RDMA WRITE Only with Immediate", "RDMA Write Only Immediate", { "reth", "immdt" }, true,
  },
  [0x0C] = { "RDMA READ Request", "RDMA Read Request", { "reth" }, 0 },
  [0x0D] = { "RDMA READ response First", "RDMA Read Response First", { "aeth" }, true },
  [0x0E] = { "RDMA READ response Middle", "RDMA Read Response Middle", {}, true },
  [0x0F] = { "RDMA READ response Last", "RDMA Read Response Last", { "aeth" }, true },
  [0x10] = { "RDMA READ response Only", "RDMA Read Response Only", { "aeth" }, true },
  [0x11] = { "Acknowledge", "Acknowledge", { "aeth" }, 0 },
  [0x12] = { "ATOMIC Acknowledge", "Atomic Acknowledge", { "aeth", "atomicacketh" }, 0 },
  [0x13] = { "CmpSwap", "Compare Swap", { "atomiceth" }, 0 },
  [0x14] = { "FetchAdd", "Fetch Add", { "atomiceth" }, 0 },
  [0x16] = { "SEND Last with Invalidate", "Send Last Invalidate", { "ieth" }, true },
  [0x17] = { "SEND Only with Invalidate", "Send Only Invalidate", { "ieth" }, true },
  [0x1C] = { "FLUSH", "Flush", { "feth", "reth" }, 0 },
  [0x1D] = { "ATOMIC WRITE", "Atomic Write", { "reth" }, 8 },
}
local FIRST_RESPONSE, LAST_RESPONSE = 0xCD, 0xD2
-- What a connect may carry, and how much longer it is than the session header in its place.
local CARRIED = { [0xC4] = true, [0xC5] = true, [0xCA] = true, [0xCB] = true, [0xD7] = true }
local CONNECT_LONGER = 36

for operation, row in pairs(RC_OPERATIONS) do
  local headers = { "dcsh" }
  for _, header in ipairs(row[3]) do
    headers[#headers + 1] = header
  end
  OPERATIONS[0xC0 + operation] = {
    "Dynamic Connection (DC) - " .. row[1], "DC " .. row[2], headers, row[4],
  }
end
local OPCODES = {}
for opcode, row in pairs(OPERATIONS) do
  OPCODES[opcode] = row[1]
end

local FORMS = { [0] = "Nonce", [1] = "Session" }
local CONNECT, ACCEPT, CNAK, DISCONNECT, KEEPALIVE = 1, 2, 3, 4, 5
local SUBTYPES = {
  [CONNECT] = "CONNECT", [ACCEPT] = "ACCEPT", [CNAK] = "CNAK",
  [DISCONNECT] = "DISCONNECT", [KEEPALIVE] = "KEEPALIVE",
}
local LAST_STREAM = 127
local MTUS = { [1] = "256", [2] = "512", [3] = "1024", [4] = "2048", [5] = "4096" }
local REASONS = {
  [1] = "No context free", [2] = "No such DCT", [3] = "Draining",
  [4] = "Stale session", [5] = "Incompatible", [6] = "Quota",
}
local MASKED_COMPARE_SWAP, MASKED_FETCH_ADD = 1, 2
local ATOMICS = {
  [MASKED_COMPARE_SWAP] = "Masked CmpSwap", [MASKED_FETCH_ADD] = "Masked FetchAdd",
}
local SEVERAL, FOREIGN_ACQUIRE, FOREIGN_RELEASE = 6, 7, 8
local LOCK_SUBTYPES = {
  [1] = "Acquire Exclusive", [2] = "Acquire Shared", [3] = "Release", [5] = "Cancel",
  [SEVERAL] = "Acquire Several", [FOREIGN_ACQUIRE] = "Acquire Foreign",
  [FOREIGN_RELEASE] = "Release Foreign",
}
local GRANTED, WAITING, FAILED, RELEASED = 1, 2, 3, 4
local LOCK_STATUSES = {
  [GRANTED] = "Granted", [WAITING] = "Waiting", [FAILED] = "Failed", [RELEASED] = "Released",
  [5] = "Flushed", [6] = "Canceled",
}
local LOCK_CAUSES = {
  [0] = "None", [1] = "Tries", [2] = "Wait", [3] = "Canceled", [4] = "Too big",
  [5] = "Not the owner", [6] = "Lease expired", [7] = "Too late to cancel",
}
-- What LKAETH's value is, by status.
local LOCK_VALUES = {
  [GRANTED] = "lock.token", [RELEASED] = "lock.token",
  [WAITING] = "lock.looked", [FAILED] = "lock.looked",
}
local ACK, RNR_NAK, NAK = 0, 1, 3
local SYNDROMES = { [ACK] = "Ack", [RNR_NAK] = "RNR Nak", [2] = "Reserved", [NAK] = "Nak" }
local NAK_CODES = {
  [0] = "PSN Sequence Error", [1] = "Invalid Request", [2] = "Remote Access Error",
  [3] = "Remote Operational Error", [4] = "Invalid RD Request",
}
local SELECTIVITIES = { [0] = "Memory Region Range", [1] = "Memory Region" }
local PLACEMENTS = {
  [1] = "Global Visibility", [2] = "Persistence", [3] = "Global Visibility and Persistence",
}

-- IBTA vol. 1, 9.7.5.2.8: 0.01 ms, then a doubling every two codes with a step of one half between;
-- 0 is the longest.
local RNR_TIMERS = { [0] = "655.36 ms", [1] = "0.01 ms" }
for code = 2, 31 do
  local hundredths = 2 ^ math.floor(code / 2) * (code % 2 == 0 and 1 or 1.5)
  RNR_TIMERS[code] = string.format("%.2f ms", hundredths / 100)
end

-- IBTA vol. 1, 9.7.6.1.3.
local ACK_TIMEOUTS = { [0] = "none" }
for code = 1, 31 do
  ACK_TIMEOUTS[code] = string.format("%.6g ms", 0.004096 * 2 ^ code)
end

-- Fields -----------------------------------------------------------------------------------------

local fields = {}

-- ProtoField rockhopper.NAME; `kind` is the name of its constructor.
local function field(kind, name, title, ...)
  fields[name] = ProtoField[kind]("rockhopper." .. name, title, ...)
end

field("uint8", "opcode", "Opcode", base.HEX, OPCODES)
field("bytes", "reserved", "Reserved")
field("bytes", "payload", "Payload")
field("bytes", "pad", "Padding")
field("bytes", "unknown", "Not understood")
field("uint32", "icrc", "Invariant CRC", base.HEX)

field("none", "dcsh", "DCSH - Dynamic Connection Session Header")
field("uint8", "dc.form", "Form", base.DEC, FORMS, 0x80)
field("uint8", "dc.stream", "Stream", base.DEC)
field("uint24", "dc.source", "Source (DCI or DCT)", base.HEX)
field("uint32", "dc.nonce", "Nonce", base.HEX)
field("uint64", "dc.session", "Session", base.HEX)
field("uint8", "dc.session.shard", "Shard", base.DEC)
field("uint24", "dc.session.index", "Index", base.DEC)
field("uint32", "dc.session.generation", "Generation", base.DEC)

field("none", "dc", "Dynamic Connection Control")
field("uint32", "dc.magic", "Magic Number", base.HEX)
field("uint8", "dc.version", "Version", base.DEC)
field("uint8", "dc.subtype", "Subtype", base.DEC, SUBTYPES)
field("uint8", "dc.mtu", "Path MTU", base.DEC, MTUS)
field("uint8", "dc.reason", "Reason", base.DEC, REASONS)
field("uint8", "dc.value", "Value", base.DEC)
field("uint8", "dc.flags", "Flags", base.HEX)
field("bool", "dc.flags.full", "Full handshake", 8, nil, 0x01)
field("bool", "dc.flags.data", "Data follows", 8, nil, 0x02)
field("bool", "dc.flags.executed", "Executed is known", 8, nil, 0x01)
field("bool", "dc.flags.answer", "Answer", 8, nil, 0x01)
field("uint24", "dc.dci", "DCI", base.HEX)
field("uint24", "dc.first_psn", "First PSN", base.DEC)
field("uint24", "dc.expected_psn", "Expected PSN", base.DEC)
field("uint24", "dc.next_psn", "Next PSN", base.DEC)
field("uint32", "dc.lease", "Lease (us)", base.DEC)
field("uint32", "dc.backoff", "Back-off (us)", base.DEC)
field("uint64", "dc.access_key", "Access Key", base.HEX)
field("uint64", "dc.incarnation", "Incarnation", base.HEX)
field("uint8", "dc.responder_resources", "Responder Resources", base.DEC)
field("uint8", "dc.operation", "Operation", base.HEX, OPCODES)

-- Headers of RC: what Wireshark calls infiniband.NAME is rockhopper.NAME here, so the address and
-- key of an AtomicETH are those of the RETH.
field("none", "reth", "RETH - RDMA Extended Transport Header")
field("uint64", "reth.va", "Virtual Address", base.HEX)
field("uint32", "reth.r_key", "Remote Key", base.HEX)
field("uint32", "reth.dmalen", "DMA Length", base.DEC)
field("none", "aeth", "AETH - ACK Extended Transport Header")
field("uint8", "aeth.syndrome", "Syndrome", base.DEC)
field("uint8", "aeth.syndrome.reserved", "Reserved", base.DEC, nil, 0x80)
field("uint8", "aeth.syndrome.opcode", "OpCode", base.DEC, SYNDROMES, 0x60)
field("uint8", "aeth.syndrome.credit_count", "Credit Count", base.DEC, nil, 0x1F)
field("uint8", "aeth.syndrome.timer", "Timer", base.DEC, RNR_TIMERS, 0x1F)
field("uint8", "aeth.syndrome.error_code", "Error Code", base.DEC, NAK_CODES, 0x1F)
field("uint24", "aeth.msn", "Message Sequence Number", base.DEC)
field("none", "atomiceth", "AtomicETH - Atomic Extended Transport Header")
field("uint64", "atomiceth.swapdt", "Swap (Or Add) Data", base.HEX)
field("uint64", "atomiceth.cmpdt", "Compare Data", base.HEX)
field("none", "atomicacketh", "AtomicAckETH - Atomic ACK Extended Transport Header")
field("uint64", "atomicacketh.origremdt", "Original Remote Data", base.HEX)
field("uint32", "immdt", "ImmDt - Immediate Data", base.HEX)
field("uint32", "ieth", "IETH - Remote Key", base.HEX)
field("none", "feth", "FETH - FLUSH Extended Transport Header")
field("uint32", "feth.reserved", "Reserved", base.DEC, nil, 0xFFFFFFC0)
field("uint32", "feth.selectivity", "Selectivity Level", base.DEC, SELECTIVITIES, 0x30)
field("uint32", "feth.placement", "Placement Type", base.DEC, PLACEMENTS, 0x0F)

field("none", "saeth", "SAETH - Selective ACK Extended Transport Header")
field("bytes", "saeth.bitmap", "Bitmap")
field("uint24", "saeth.missing", "Missing PSN", base.DEC)
field("uint16", "saeth.count", "Packets held", base.DEC)
field("string", "saeth.held", "PSNs held")
field("uint24", "saeth.psn", "PSN", base.DEC)
field("none", "xaeth", "XAETH - Masked Atomic Extended Transport Header")
field("uint8", "xaeth.subtype", "Subtype", base.DEC, ATOMICS)
field("uint32", "xaeth.r_key", "Remote Key", base.HEX)
field("uint64", "xaeth.va", "Virtual Address", base.HEX)
field("uint64", "xaeth.compare", "Compare Data", base.HEX)
field("uint64", "xaeth.compare_mask", "Compare Mask", base.HEX)
field("uint64", "xaeth.swap_add", "Swap (Or Add) Data", base.HEX)
field("uint64", "xaeth.mask", "Mask", base.HEX)

field("none", "lketh", "LKETH - Lock Extended Transport Header")
field("none", "lkaeth", "LKAETH - Lock ACK Extended Transport Header")
field("uint8", "lock.subtype", "Subtype", base.DEC, LOCK_SUBTYPES)
field("uint8", "lock.flags", "Flags", base.HEX)
field("bool", "lock.flags.store_forward", "Store and forward", 8, nil, 0x01)
field("bool", "lock.flags.fifo", "Wait behind others", 8, nil, 0x02)
field("bool", "lock.flags.resend", "Do not wait at the target", 8, nil, 0x04)
field("bool", "lock.flags.add", "Add", 8, nil, 0x08)
field("uint16", "lock.scope", "Scope", base.DEC)
field("uint32", "lock.r_key", "Remote Key", base.HEX)
field("uint64", "lock.va", "Lock Word", base.HEX)
field("uint16", "lock.tries", "Tries", base.DEC)
field("uint8", "lock.timeout", "Local ACK Timeout", base.DEC, ACK_TIMEOUTS)
field("uint32", "lock.wait", "Wait (us)", base.DEC)
field("uint32", "lock.owner", "Owner", base.DEC)
field("uint32", "lock.lease", "Lease (us)", base.DEC)
field("uint16", "lock.scope_psns", "Scope PSNs", base.DEC)
field("none", "lock.word", "Another Lock Word")
field("uint8", "lock.shared", "Shared", base.DEC)
field("none", "lock.operation", "Operation")
field("uint64", "lock.compare", "Compare Data", base.HEX)
field("uint64", "lock.compare_mask", "Compare Mask", base.HEX)
field("uint64", "lock.swap_add", "Swap (Or Add) Data", base.HEX)
field("uint64", "lock.mask", "Mask", base.HEX)
field("uint8", "lock.status", "Status", base.DEC, LOCK_STATUSES)
field("uint8", "lock.cause", "Cause", base.DEC, LOCK_CAUSES)
field("uint24", "lock.msn", "Message Sequence Number", base.DEC)
field("uint64", "lock.previous", "Previous Word", base.HEX)
field("uint64", "lock.token", "Fencing Token", base.DEC)
field("uint64", "lock.looked", "Times Looked At", base.DEC)
field("uint64", "lock.value", "Value", base.DEC)

rockhopper.fields = fields

local function complaint(name, text, group, severity)
  group, severity = expert.group[group], expert.severity[severity]
  return ProtoExpert.new("rockhopper." .. name, text, group, severity)
end

local experts = {
  short = complaint("short", "Packet too short", "MALFORMED", "ERROR"),
  cut = complaint("cut", "Not in the capture", "UNDECODED", "NOTE"),
  magic = complaint("bad_magic", "Wrong magic number", "PROTOCOL", "ERROR"),
  version = complaint("bad_version", "Unknown version", "PROTOCOL", "ERROR"),
  value = complaint("bad_value", "Unknown value", "PROTOCOL", "WARN"),
  number = complaint("bad_number", "Not a number of DCIs and DCTs", "PROTOCOL", "WARN"),
  size = complaint("bad_size", "More bytes than the opcode has", "PROTOCOL", "WARN"),
  rule = complaint("bad_use", "Breaks a rule", "PROTOCOL", "WARN"),
  reserved = complaint("reserved_set", "Reserved bits are not 0", "PROTOCOL", "NOTE"),
}
rockhopper.experts = experts

-- Layouts ----------------------------------------------------------------------------------------

-- Rows of { field, bytes }, in order.
local HEADERS = {
  dcsh = { { "dc.form", 1 }, { "dc.source", 3 } },
  reth = { { "reth.va", 8 }, { "reth.r_key", 4 }, { "reth.dmalen", 4 } },
  aeth = { { "aeth.syndrome", 1 }, { "aeth.msn", 3 } },
  atomiceth = {
    { "reth.va", 8 }, { "reth.r_key", 4 }, { "atomiceth.swapdt", 8 }, { "atomiceth.cmpdt", 8 },
  },
  atomicacketh = { { "atomicacketh.origremdt", 8 } },
  immdt = { { "immdt", 4 } },
  ieth = { { "ieth", 4 } },
  feth = { { "feth", 4 } },
  saeth = { { "saeth.bitmap", 32 } },
  xaeth = {
    { "xaeth.subtype", 1 }, { "reserved", 3 }, { "xaeth.r_key", 4 }, { "xaeth.va", 8 },
    { "xaeth.compare", 8 }, { "xaeth.compare_mask", 8 },
    { "xaeth.swap_add", 8 }, { "xaeth.mask", 8 },
  },
  lketh = {
    { "lock.subtype", 1 }, { "lock.flags", 1 }, { "lock.scope", 2 }, { "lock.r_key", 4 },
    { "lock.va", 8 }, { "lock.tries", 2 }, { "lock.timeout", 1 }, { "reserved", 1 },
    { "lock.wait", 4 }, { "lock.owner", 4 }, { "lock.lease", 4 }, { "lock.scope_psns", 2 },
    { "reserved", 6 },
  },
  ["lock.word"] = {
    { "lock.r_key", 4 }, { "lock.shared", 1 }, { "reserved", 3 }, { "lock.va", 8 },
  },
  ["lock.operation"] = {
    { "lock.compare", 8 }, { "lock.compare_mask", 8 }, { "lock.swap_add", 8 }, { "lock.mask", 8 },
  },
  lkaeth = {
    { "lock.status", 1 }, { "lock.cause", 1 }, { "lock.scope", 2 }, { "lock.msn", 3 },
    { "reserved", 1 }, { "lock.previous", 8 }, { "lock.value", 8 },
  },
  dc = {
    { "dc.magic", 4 }, { "dc.version", 1 }, { "dc.subtype", 1 }, { "dc.value", 1 },
    { "dc.flags", 1 },
  },
}

-- The payload of lock requests, by subtype: what it consists of, and how many at most. Others have
-- none.
local LOCK_PAYLOADS = {
  [SEVERAL] = { "lock.word", 7 },
  [FOREIGN_ACQUIRE] = { "lock.operation", 1 }, [FOREIGN_RELEASE] = { "lock.operation", 1 },
}

-- How a DCSH goes on, by form.
local SESSIONS = {
  [0] = { { "dc.nonce", 4 }, { "reserved", 4 } },
  [1] = { { "dc.session", 8 } },
}

-- How a control message goes on, by subtype.
local CLOSING = { { "dc.session", 8 }, { "reserved", 1 }, { "dc.next_psn", 3 }, { "reserved", 4 } }
local MESSAGES = {
  [CONNECT] = {
    { "reserved", 1 }, { "dc.dci", 3 }, { "reserved", 1 }, { "dc.first_psn", 3 },
    { "dc.nonce", 4 }, { "dc.lease", 4 }, { "dc.access_key", 8 }, { "dc.incarnation", 8 },
    { "dc.stream", 1 }, { "dc.responder_resources", 1 }, { "reserved", 6 },
  },
  [ACCEPT] = {
    { "dc.nonce", 4 }, { "dc.session", 8 }, { "reserved", 1 }, { "dc.expected_psn", 3 },
    { "dc.lease", 4 }, { "dc.responder_resources", 1 }, { "reserved", 11 },
  },
  [CNAK] = {
    { "dc.nonce", 4 }, { "dc.session", 8 }, { "reserved", 1 }, { "dc.expected_psn", 3 },
    { "dc.backoff", 4 }, { "reserved", 4 },
  },
  [DISCONNECT] = CLOSING, [KEEPALIVE] = CLOSING,
}

-- A CONNECT that carries a request.
local CONNECT_WITH_DATA = { table.unpack(MESSAGES[CONNECT]) }
CONNECT_WITH_DATA[#CONNECT_WITH_DATA] = nil
for _, row in ipairs({ { "reserved", 2 }, { "dc.operation", 1 }, { "reserved", 3 } }) do
  CONNECT_WITH_DATA[#CONNECT_WITH_DATA + 1] = row
end

-- What a message's value is, and its flags from bit 0 on. Others have 0.
local VALUES = {
  [CONNECT] = { "dc.mtu", MTUS }, [ACCEPT] = { "dc.mtu", MTUS }, [CNAK] = { "dc.reason", REASONS },
}
local FLAGS = {
  [CONNECT] = { "dc.flags.full", "dc.flags.data" },
  [CNAK] = { "dc.flags.executed" },
  [KEEPALIVE] = { "dc.flags.answer" },
}

-- Reading ----------------------------------------------------------------------------------------

-- A packet that is being read is a table:
--   data      TvbRange from the BTH on, as much as was captured
--   position  of the next byte in it
--   stop      where the ICRC begins, captured or not
--   opcode, qpn, psn  of the BTH
--   headers   as in OPERATIONS
--   title, notes (list)  for the Info column
--   is_understood  false: a message with another magic number, version, subtype or operation
-- and what a field leaves for later ones: form, subtype, has_flag, mtu, operation, status.

local function complain(item, name, ...)
  item:add_proto_expert_info(experts[name], ...)
end

local function note(packet, format, ...)
  packet.notes[#packet.notes + 1] = string.format(format, ...)
end

local function captured(packet)
  return math.min(packet.stop, packet.data:len()) - packet.position
end

-- The next `size` bytes. Unless all are there: nil, and `tree` gets the complaint.
local function take(packet, tree, size)
  if packet.position + size > packet.stop then
    complain(tree, "short")
    note(packet, "[Too short]")
  elseif captured(packet) < size then
    complain(tree, "cut")
    note(packet, "[Not in the capture]")
  else
    packet.position = packet.position + size
    return packet.data(packet.position - size, size)
  end
end

-- Functions (packet, tree, range) of fields that need more than to be shown.
local SHOW = {}

-- Adds the fields of `rows`; false if the packet ended among them.
local function read(packet, tree, rows)
  for _, row in ipairs(rows) do
    local name, size = row[1], row[2]
    local range = take(packet, tree, size)
    if not range then return false end
    if SHOW[name] then
      SHOW[name](packet, tree, range)
    else
      tree:add(fields[name], range)
    end
  end
  return true
end

-- Functions (packet, subtree) that read what follows the rows of HEADERS; false as of read().
local MORE = {}

-- Adds header `name`, in a tree of its own if it has one; false if the packet ended in it.
local function read_header(packet, tree, name)
  local start, rows, more = packet.position, HEADERS[name], MORE[name]
  if rows[1][1] == name or captured(packet) == 0 then return read(packet, tree, rows) end
  local subtree = tree:add(fields[name], packet.data(start, captured(packet)))
  local is_whole = read(packet, subtree, rows) and (not more or more(packet, subtree))
  if packet.position > start then subtree:set_len(packet.position - start) end
  return is_whole
end

-- Adds what was captured of the bytes up to `stop` as `name`. Returns the item; nil: nothing was.
local function read_bytes(packet, tree, name, stop)
  local size = math.min(captured(packet), stop - packet.position)
  if size <= 0 then return nil end
  packet.position = packet.position + size
  return tree:add(fields[name], packet.data(packet.position - size, size))
end

local function is_zero(range)
  return not range:bytes():tohex():find("[^0]")
end

-- Fields that need more --------------------------------------------------------------------------

function SHOW.reserved(_, tree, range)
  local item = tree:add(fields["reserved"], range)
  if not is_zero(range) then complain(item, "reserved") end
end

local function is_dc_number(number)
  return FIRST_NUMBER <= number and number <= LAST_NUMBER
end

local function show_number(name, label)
  SHOW[name] = function(packet, tree, range)
    local item = tree:add(fields[name], range)
    if not is_dc_number(range:uint()) then complain(item, "number") end
    note(packet, "%s=0x%06x", label, range:uint())
  end
end
show_number("dc.source", "Source")
show_number("dc.dci", "DCI")

SHOW["dc.form"] = function(packet, tree, range)
  packet.form = range:bitfield(0, 1)
  local form = tree:add(fields["dc.form"], range)
  local is_response = FIRST_RESPONSE <= packet.opcode and packet.opcode <= LAST_RESPONSE
    or packet.opcode == LOCK_RESPONSE
  if packet.form == 0 and is_response then
    complain(form, "rule", "A response names its session")
  end
  -- The field has no mask: in a CONNECT it is the whole byte.
  tree:add(fields["dc.stream"], range, range:bitfield(1, 7))
end

-- That of a CONNECT.
SHOW["dc.stream"] = function(_, tree, range)
  local item = tree:add(fields["dc.stream"], range)
  if range:uint() > LAST_STREAM then complain(item, "value", "Not a stream") end
end

SHOW["dc.nonce"] = function(packet, tree, range)
  tree:add(fields["dc.nonce"], range)
  note(packet, "Nonce=0x%08x", range:uint())
end

SHOW["dc.session"] = function(packet, tree, range)
  local item = tree:add(fields["dc.session"], range)
  item:add(fields["dc.session.shard"], range(0, 1))
  item:add(fields["dc.session.index"], range(1, 3))
  item:add(fields["dc.session.generation"], range(4, 4))
  note(packet, "Session=0x%s", range:bytes():tohex(true))
end

SHOW["dc.magic"] = function(packet, tree, range)
  local item = tree:add(fields["dc.magic"], range)
  if range:uint() ~= MAGIC then
    packet.is_understood = false
    complain(item, "magic")
  end
end

SHOW["dc.version"] = function(packet, tree, range)
  local item = tree:add(fields["dc.version"], range)
  if range:uint() ~= VERSION then
    packet.is_understood = false
    complain(item, "version")
  end
end

SHOW["dc.subtype"] = function(packet, tree, range)
  local item = tree:add(fields["dc.subtype"], range)
  if not packet.is_understood then return end
  packet.subtype = range:uint()
  if not SUBTYPES[packet.subtype] then
    packet.is_understood = false
    complain(item, "value", "Unknown subtype")
  elseif packet.opcode == CONNECT_DATA and packet.subtype ~= CONNECT then
    packet.is_understood = false
    complain(item, "value", "Data comes with a CONNECT only")
  end
end

SHOW["dc.value"] = function(packet, tree, range)
  local row = VALUES[packet.subtype]
  local item = tree:add(fields[row and row[1] or "dc.value"], range)
  local name = row and row[2][range:uint()]
  if row and not name then complain(item, "value") end
  if row and row[2] == MTUS then packet.mtu = tonumber(name) end
  if not row and packet.is_understood and range:uint() ~= 0 then complain(item, "reserved") end
  if packet.subtype == CNAK then note(packet, "[%s]", name or "Unknown reason") end
end

SHOW["dc.flags"] = function(packet, tree, range)
  local item = tree:add(fields["dc.flags"], range)
  local names = FLAGS[packet.subtype] or {}
  for _, name in ipairs(names) do
    item:add(fields[name], range)
  end
  local is_defined = range:bitfield(0, 8 - #names) == 0
  if packet.is_understood and not is_defined then complain(item, "reserved") end
  packet.has_flag = range:bitfield(7, 1) == 1
  if packet.opcode == CONNECT_DATA and packet.has_flag then
    complain(item, "rule", "With the full handshake data waits")
  end
  if packet.subtype == KEEPALIVE and packet.has_flag then note(packet, "[Answer]") end
end

SHOW["dc.first_psn"] = function(packet, tree, range)
  local item = tree:add(fields["dc.first_psn"], range)
  if packet.opcode == CONNECT_DATA and range:uint() ~= packet.psn then
    complain(item, "rule", "The data has the first PSN")
  end
end

SHOW["dc.operation"] = function(packet, tree, range)
  local item = tree:add(fields["dc.operation"], range)
  packet.operation = range:uint()
  if CARRIED[packet.operation] then
    packet.title = packet.title .. ", " .. OPERATIONS[packet.operation][2]:sub(#"DC " + 1)
  else
    packet.is_understood = false
    complain(item, "value", "Not what a connect carries")
  end
end

SHOW["dc.expected_psn"] = function(packet, tree, range)
  local item = tree:add(fields["dc.expected_psn"], range)
  if packet.subtype == CNAK and not packet.has_flag then item:append_text(" (not known)") end
end

SHOW["aeth.syndrome"] = function(packet, tree, range)
  local kind, code = range:bitfield(1, 2), range:bitfield(3, 5)
  local item = tree:add(fields["aeth.syndrome"], range)
  item:append_text(", " .. SYNDROMES[kind])
  local reserved = item:add(fields["aeth.syndrome.reserved"], range)
  if range:bitfield(0, 1) ~= 0 then complain(reserved, "reserved") end
  item:add(fields["aeth.syndrome.opcode"], range)
  if kind == ACK then
    item:add(fields["aeth.syndrome.credit_count"], range)
  elseif kind == RNR_NAK then
    item:add(fields["aeth.syndrome.timer"], range)
  elseif kind == NAK then
    local error_code = item:add(fields["aeth.syndrome.error_code"], range)
    if not NAK_CODES[code] then complain(error_code, "value", "Unknown NAK code") end
    note(packet, "[%s]", NAK_CODES[code] or "Unknown NAK code")
  else
    complain(item, "value", "Unknown kind of syndrome")
  end
  if packet.opcode == SELECTIVE_ACK and kind ~= ACK then
    complain(item, "rule", "A selective acknowledge has the syndrome of an ACK")
  end
end

function SHOW.feth(_, parent, range)
  local tree = parent:add(fields["feth"], range)
  local reserved = tree:add(fields["feth.reserved"], range)
  if range:bitfield(0, 26) ~= 0 then complain(reserved, "reserved") end
  local selectivity = tree:add(fields["feth.selectivity"], range)
  if not SELECTIVITIES[range:bitfield(26, 2)] then complain(selectivity, "value") end
  local placement = tree:add(fields["feth.placement"], range)
  if not PLACEMENTS[range:bitfield(28, 4)] then complain(placement, "value") end
end

local function next_psn(psn, count)
  return (psn + count) % 0x1000000
end

-- "8, 10-12" for 8, 10, 11, 12.
local function runs_of(psns)
  local runs, first = {}, 1
  for i, psn in ipairs(psns) do
    if psns[i + 1] ~= next_psn(psn, 1) then
      runs[#runs + 1] = first == i and psn or psns[first] .. "-" .. psn
      first = i + 1
    end
  end
  return table.concat(runs, ", ")
end

SHOW["saeth.bitmap"] = function(packet, tree, range)
  local bitmap = tree:add(fields["saeth.bitmap"], range)
  local psns, bytes = {}, {}
  for bit = 0, 8 * range:len() - 1 do
    local byte = range(math.floor(bit / 8), 1)
    if byte:bitfield(7 - bit % 8, 1) == 1 then
      psns[#psns + 1] = next_psn(packet.psn, 1 + bit)
      bytes[#bytes + 1] = byte
    end
  end
  if #psns == 0 then complain(bitmap, "rule", "No packet is held") end
  tree:add(fields["saeth.missing"], packet.data(9, 3)):set_generated()
  tree:add(fields["saeth.count"], range, #psns):set_generated()
  local held = tree:add(fields["saeth.held"], range, runs_of(psns))
  held:set_generated()
  for i, psn in ipairs(psns) do
    held:add(fields["saeth.psn"], bytes[i], psn):set_generated()
  end
  note(packet, "Missing=%d Held=%d", packet.psn, #psns)
end

SHOW["xaeth.subtype"] = function(packet, tree, range)
  local item = tree:add(fields["xaeth.subtype"], range)
  packet.subtype = range:uint()
  if packet.subtype == MASKED_COMPARE_SWAP then
    packet.title = "RC Masked Compare Swap"
  elseif packet.subtype == MASKED_FETCH_ADD then
    packet.title = "RC Masked Fetch Add"
  else
    complain(item, "value", "Unknown subtype")
  end
end

for _, name in ipairs({ "xaeth.compare", "xaeth.compare_mask" }) do
  SHOW[name] = function(packet, tree, range)
    local item = tree:add(fields[name], range)
    if packet.subtype == MASKED_FETCH_ADD and not is_zero(range) then
      complain(item, "rule", "A masked FetchAdd compares nothing")
    end
  end
end

-- Instead of "Lock Request" or "Lock Response".
local function lock_title(packet, name)
  packet.title = packet.title:gsub("Lock %a+$", "Lock " .. name)
end

SHOW["lock.subtype"] = function(packet, tree, range)
  local item = tree:add(fields["lock.subtype"], range)
  packet.subtype = range:uint()
  local name = LOCK_SUBTYPES[packet.subtype]
  if name then
    lock_title(packet, name)
  else
    packet.is_understood = false
    complain(item, "value", "Unknown subtype")
  end
end

SHOW["lock.flags"] = function(packet, tree, range)
  local item = tree:add(fields["lock.flags"], range)
  for _, name in ipairs({ "store_forward", "fifo", "resend", "add" }) do
    item:add(fields["lock.flags." .. name], range)
  end
  if range:bitfield(0, 4) ~= 0 then complain(item, "reserved") end
  local is_foreign = packet.subtype == FOREIGN_ACQUIRE or packet.subtype == FOREIGN_RELEASE
  if range:bitfield(4, 1) == 1 and not is_foreign then
    complain(item, "rule", "Only foreign operations add")
  end
end

SHOW["lock.scope"] = function(packet, tree, range)
  tree:add(fields["lock.scope"], range)
  note(packet, "Scope=%d", range:uint())
end

SHOW["lock.va"] = function(packet, tree, range)
  tree:add(fields["lock.va"], range)
  note(packet, "Word=0x%s", range:bytes():tohex(true))
end

-- Fields with a value that says something else than a number.
for name, row in pairs({
  ["lock.tries"] = { 0xFFFF, "no limit" }, ["lock.wait"] = { 0xFFFFFFFF, "no limit" },
  ["lock.lease"] = { 0, "the target's" }, ["lock.scope_psns"] = { 0, "no scope follows" },
}) do
  SHOW[name] = function(_, tree, range)
    local item = tree:add(fields[name], range)
    if range:uint() == row[1] then item:append_text(", " .. row[2]) end
  end
end

SHOW["lock.timeout"] = function(_, tree, range)
  local item = tree:add(fields["lock.timeout"], range)
  if not ACK_TIMEOUTS[range:uint()] then complain(item, "value") end
end

SHOW["lock.shared"] = function(_, tree, range)
  local item = tree:add(fields["lock.shared"], range)
  if range:uint() > 1 then complain(item, "value", "Neither 0 nor 1") end
end

SHOW["lock.status"] = function(packet, tree, range)
  local item = tree:add(fields["lock.status"], range)
  packet.status = range:uint()
  local name = LOCK_STATUSES[packet.status]
  if name then
    lock_title(packet, name)
  else
    complain(item, "value", "Unknown status")
  end
end

SHOW["lock.cause"] = function(packet, tree, range)
  local item = tree:add(fields["lock.cause"], range)
  local cause = range:uint()
  if not LOCK_CAUSES[cause] then complain(item, "value", "Unknown cause") end
  if (packet.status == FAILED) ~= (cause ~= 0) then
    complain(item, "rule", "A failure has a cause, and nothing else has")
  end
  if cause ~= 0 then note(packet, "[%s]", LOCK_CAUSES[cause] or "Unknown cause") end
end

SHOW["lock.value"] = function(packet, tree, range)
  local name = LOCK_VALUES[packet.status] or "lock.value"
  tree:add(fields[name], range)
  if name == "lock.token" then note(packet, "Token=%s", tostring(range:uint64())) end
end

-- Packets ----------------------------------------------------------------------------------------

function MORE.dcsh(packet, tree)
  return read(packet, tree, SESSIONS[packet.form])
end

function MORE.dc(packet, tree)
  if not packet.is_understood then return true end
  local name = SUBTYPES[packet.subtype]
  packet.title = "DC " .. name
  tree:append_text(", " .. name)
  local carries = packet.opcode == CONNECT_DATA
  return read(packet, tree, carries and CONNECT_WITH_DATA or MESSAGES[packet.subtype])
end

-- Everything behind the BTH but payload and ICRC; false if the packet ended there.
local function read_headers(packet, tree)
  for _, name in ipairs(packet.headers) do
    if not read_header(packet, tree, name) then return false end
  end
  if not (packet.operation and packet.is_understood) then return true end
  for _, name in ipairs(OPERATIONS[packet.operation][3]) do
    if name ~= "dcsh" and not read_header(packet, tree, name) then return false end
  end
  return true
end

-- A payload of `most` parts with the rows of HEADERS[name], at least one; false if the packet ended
-- in it.
local function read_parts(packet, tree, name, most)
  for part = 1, most do
    if part > 1 and packet.position >= packet.stop then return true end
    if not read_header(packet, tree, name) then return false end
  end
  return true
end

-- Payload and padding. `expected` as in OPERATIONS.
local function read_payload(packet, tree, expected)
  local parts = packet.opcode == LOCK_REQUEST and LOCK_PAYLOADS[packet.subtype]
  if parts and not read_parts(packet, tree, parts[1], parts[2]) then
    read_bytes(packet, tree, "unknown", packet.stop)
    return
  end
  local size = packet.stop - packet.position - packet.data(1, 1):bitfield(2, 2)
  if size < 0 then
    complain(tree, "short", "Shorter than its padding")
    note(packet, "[Too short]")
    return
  end
  local is_cut = packet.stop > packet.data:len()
  local item = read_bytes(packet, tree, "payload", packet.position + size) or tree
  read_bytes(packet, tree, "pad", packet.stop)
  if is_cut then complain(item, "cut") end
  if packet.opcode == CONNECT_DATA and packet.mtu and size > packet.mtu - CONNECT_LONGER then
    complain(item, "size", "More than the path MTU allows beside a connect")
  end
  if expected == true then return end
  if size > expected then complain(item, "size") end
  if size < expected then complain(item, "short") end
end

-- What BTH and opcode say together.
local function check_bth(packet, item)
  local is_dc = packet.opcode ~= SELECTIVE_ACK and packet.opcode ~= MASKED_ATOMIC
    and packet.opcode ~= LOCK_REQUEST and packet.opcode ~= LOCK_RESPONSE
  if is_dc and not is_dc_number(packet.qpn) then
    complain(item, "number", "Destination QP is not a number of DCIs and DCTs")
  end
  local data = packet.data
  local has_more = data(1, 1):bitfield(2, 2) + data(8, 1):bitfield(0, 1) + packet.psn > 0
  if packet.opcode == CONTROL and has_more then
    complain(item, "rule", "Pad count, AckReq and PSN of a control message are 0")
  end
end

local function read_packet(packet, tree)
  local item = tree:add(fields["opcode"], packet.data(0, 1))
  check_bth(packet, item)
  if packet.stop < BTH_SIZE then
    complain(item, "short", "No room for the ICRC")
    note(packet, "[Too short]")
    return
  end
  if read_headers(packet, tree) and packet.is_understood then
    read_payload(packet, tree, OPERATIONS[packet.opcode][4])
  else
    read_bytes(packet, tree, "unknown", packet.stop)
  end
  if packet.stop + ICRC_SIZE <= packet.data:len() then
    tree:add_le(fields["icrc"], packet.data(packet.stop, ICRC_SIZE))
  end
end

-- `size`: bytes from the BTH through the ICRC, captured or not.
local function packet_of(data, size)
  local opcode, qpn = data(0, 1):uint(), data(5, 3):uint()
  local packet = {
    data = data, position = BTH_SIZE, stop = size - ICRC_SIZE,
    opcode = opcode, qpn = qpn, psn = data(9, 3):uint(), headers = OPERATIONS[opcode][3],
    title = OPERATIONS[opcode][2], notes = {}, is_understood = true,
  }
  if opcode == LOCK_REQUEST or opcode == LOCK_RESPONSE then
    local has_session = is_dc_number(qpn)
    packet.title = (has_session and "DC " or "RC ") .. packet.title
    if has_session then packet.headers = { "dcsh", packet.headers[1] } end
  end
  return packet
end

-- The dissector ----------------------------------------------------------------------------------

local bth_opcodes = Field.new("infiniband.bth.opcode")
local udp_lengths, udp_payloads = Field.new("udp.length"), Field.new("udp.payload")
local icmp_types, icmpv6_types = Field.new("icmp.type"), Field.new("icmpv6.type")

local UDP_LENGTH_OFFSET, UDP_SIZE = 4, 8

-- The UDP payload that begins at `offset`: what was captured of it, and its size. Or nothing.
local function udp_payload_at(offset)
  local data
  for _, payload in ipairs({ udp_payloads() }) do
    if payload.offset == offset then data = payload.range end
  end
  for _, length in ipairs({ udp_lengths() }) do
    if data and length.offset == offset - UDP_SIZE + UDP_LENGTH_OFFSET then
      return data, math.max(length.value - UDP_SIZE, data:len())
    end
  end
end

function rockhopper.dissector(_, pinfo, tree)
  for _, opcode in ipairs({ bth_opcodes() }) do
    local data, size = udp_payload_at(opcode.offset)
    if data and data:len() >= BTH_SIZE and OPERATIONS[opcode.value] then
      local packet = packet_of(data, size)
      local item = tree:add(rockhopper, data)
      read_packet(packet, item)
      item:append_text(", " .. packet.title)
      -- The packet that an ICMP error quotes is not what the frame is about.
      if not icmp_types() and not icmpv6_types() then
        local notes = table.concat(packet.notes, " ")
        pinfo.cols.info = string.format("%s QP=0x%06x %s", packet.title, packet.qpn, notes)
      end
    end
  end
end

register_postdissector(rockhopper)
