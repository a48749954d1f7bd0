-- Wireshark/tshark dissector for MRC over UDP port 4791 (agents/wire/headers.py says what the bytes mean).
-- It takes the packets whose BTH opcode is one of MRC's (0xC0 | ...), and hands plain RoCE on to Wireshark's own.
--
--     tshark -X lua_script:testbed/lab/mrc.lua -r capture.pcapng -V

local mrc = Proto("mrc", "Multipath Reliable Connection")

local opcodes = {
  [0xC6] = "WRITE first", [0xC7] = "WRITE middle", [0xC8] = "WRITE last", [0xC9] = "WRITE last with immediate",
  [0xCA] = "WRITE only", [0xCB] = "WRITE only with immediate", [0xD1] = "Transport ACK",
  [0xD8] = "Endpoint request", [0xD9] = "Endpoint response", [0xDC] = "SACK", [0xDD] = "NACK",
  [0xDE] = "Reliability probe",
}
local echoes = { [0] = "none", [1] = "skip once", [2] = "always skip" }
local reasons = {
  [0x01] = "TRIMMED", [0x02] = "TRIMMED_LASTHOP", [0x06] = "NO_BITMAP", [0x07] = "NO_PKT_BUFFER",
  [0x0A] = "NO_RESOURCE", [0x0B] = "PSN_OOR_WINDOW", [0x19] = "UNEXP_EVENT",
}
local operations = { [1] = "Port Status Update", [2] = "EV probe", [3] = "Self-probe" }

local f = {
  opcode = ProtoField.uint8("mrc.opcode", "Opcode", base.HEX, opcodes),
  destqp = ProtoField.uint24("mrc.destqp", "Destination QP", base.DEC),
  ack = ProtoField.bool("mrc.ack_request", "Acknowledge request", 8, nil, 0x80),
  retransmission = ProtoField.bool("mrc.retransmission", "Retransmission", 8, nil, 0x20),
  timestamped = ProtoField.bool("mrc.timestamped", "Timestamp follows", 8, nil, 0x10),
  psn = ProtoField.uint24("mrc.psn", "PSN", base.DEC),
  rqmsn = ProtoField.uint16("mrc.rqmsn", "RQMSN", base.DEC),
  msn = ProtoField.uint16("mrc.msn", "MSN", base.DEC),
  timestamp = ProtoField.uint16("mrc.timestamp", "Sent at (ticks)", base.DEC),
  address = ProtoField.uint64("mrc.address", "Virtual address", base.HEX),
  rkey = ProtoField.uint32("mrc.rkey", "Remote key", base.HEX),
  length = ProtoField.uint32("mrc.length", "Bytes of the message", base.DEC),
  immediate = ProtoField.uint32("mrc.immediate", "Immediate", base.DEC),
  payload = ProtoField.bytes("mrc.payload", "Payload, pad and ICRC"),
  ev = ProtoField.uint32("mrc.ev", "EV", base.HEX),
  plane = ProtoField.uint8("mrc.ev.plane", "Plane", base.DEC),
  uplink = ProtoField.uint8("mrc.ev.uplink", "T0 uplink", base.DEC),
  echo = ProtoField.uint16("mrc.sack.ecn_echo", "ECN echo", base.DEC, echoes, 0x0060),
  reply = ProtoField.bool("mrc.sack.probe_reply", "Answers a probe", 16, nil, 0x0002),
  psn_offset = ProtoField.int16("mrc.sack.ack_psn_offset", "PSN that caused it, from cack", base.DEC),
  probe_id = ProtoField.uint16("mrc.probe_id", "Probe", base.DEC),
  ports_down = ProtoField.uint8("mrc.sack.ports_down", "Ports down", base.HEX),
  cack = ProtoField.uint24("mrc.sack.cack", "Cumulative ack", base.DEC),
  mpr = ProtoField.uint8("mrc.sack.mpr", "MPR (x128)", base.DEC),
  offset = ProtoField.int16("mrc.sack.offset", "Bitmap starts at cack +", base.DEC),
  bitmap = ProtoField.uint64("mrc.sack.bitmap", "Bitmap", base.HEX),
  ooo = ProtoField.uint16("mrc.sack.ooo_count", "Arrived beyond cack", base.DEC, nil, 0x7FFF),
  penalty = ProtoField.uint8("mrc.sack.rcv_cwnd_pen", "Receiver's penalty", base.DEC, nil, 0x7F),
  received = ProtoField.uint24("mrc.sack.rcvd", "Received (x256 bytes)", base.DEC),
  reason = ProtoField.uint8("mrc.nack.reason", "Reason", base.HEX, reasons),
  nack_psn = ProtoField.uint24("mrc.nack.psn", "Refused PSN", base.DEC),
  operation = ProtoField.uint8("mrc.endpoint.operation", "Operation", base.DEC, operations),
  endpoint_echo = ProtoField.uint8("mrc.endpoint.ecn_echo", "ECN echo", base.DEC, echoes, 0xC0),
  request = ProtoField.uint16("mrc.endpoint.request", "Request", base.DEC),
  mask = ProtoField.uint32("mrc.endpoint.ports_down", "Ports down", base.HEX),
}
mrc.fields = f

local function ev(tree, range)
  local value = range:uint()
  local branch = tree:add(f.ev, range)
  branch:add(f.plane, range(0, 1), bit.rshift(value, 29))
  branch:add(f.uplink, range(0, 2), bit.band(bit.rshift(value, 21), 0xFF))
end

local function write(tree, data, opcode, timestamped)
  tree:add(f.rqmsn, data(0, 2))
  tree:add(f.msn, data(2, 2))
  local at = 4
  if timestamped then
    tree:add(f.timestamp, data(at, 2))
    at = at + 4
  end
  tree:add(f.address, data(at, 8))
  tree:add(f.rkey, data(at + 8, 4))
  tree:add(f.length, data(at + 12, 4))
  at = at + 16
  if opcode == 0xC9 or opcode == 0xCB then
    tree:add(f.immediate, data(at, 4))
    at = at + 4
  end
  if data:len() > at then
    tree:add(f.payload, data(at))
  end
end

local function sack(tree, data)
  local is_reply = bit.band(data(0, 2):uint(), 0x0002) ~= 0
  tree:add(f.echo, data(0, 2))
  tree:add(f.reply, data(0, 2))
  tree:add(is_reply and f.probe_id or f.psn_offset, data(2, 2))
  ev(tree, data(4, 4))
  tree:add(f.ports_down, data(12, 1))
  tree:add(f.cack, data(13, 3))
  tree:add(f.mpr, data(17, 1))
  tree:add(f.offset, data(18, 2))
  tree:add(f.bitmap, data(20, 8))
  tree:add(f.timestamp, data(28, 2))
  tree:add(f.ooo, data(30, 2))
  tree:add(f.penalty, data(32, 1))
  tree:add(f.received, data(33, 3))
end

local function nack(tree, data)
  tree:add(f.reason, data(2, 1))
  ev(tree, data(4, 4))
  tree:add(f.nack_psn, data(13, 3))
  tree:add(f.timestamp, data(18, 2))
end

local function endpoint(tree, data)
  tree:add(f.operation, data(0, 1))
  tree:add(f.endpoint_echo, data(1, 1))
  tree:add(f.request, data(2, 2))
  ev(tree, data(4, 4))
  tree:add(f.mask, data(8, 4))
end

local function probe(tree, data)
  tree:add(f.probe_id, data(0, 2))
  tree:add(f.timestamp, data(2, 2))
end

local bodies = { [0xD8] = { endpoint, 12 }, [0xD9] = { endpoint, 12 }, [0xDC] = { sack, 36 }, [0xDD] = { nack, 20 },
                 [0xDE] = { probe, 4 } }
local roce = DissectorTable.get("udp.port"):get_dissector(4791)  -- whose port it was until now

function mrc.dissector(buffer, pinfo, tree)
  if buffer:len() < 12 then
    return 0
  end
  local opcode = buffer(0, 1):uint()
  local name = opcodes[opcode]
  if name == nil then
    return roce:call(buffer, pinfo, tree)
  end
  local psn = buffer(9, 3):uint()
  pinfo.cols.protocol = "MRC"
  pinfo.cols.info = string.format("%s PSN %d QP %d", name, psn, buffer(5, 3):uint())
  local branch = tree:add(mrc, buffer(), "Multipath Reliable Connection, " .. name)
  branch:add(f.opcode, buffer(0, 1))
  branch:add(f.destqp, buffer(5, 3))
  branch:add(f.ack, buffer(8, 1))
  branch:add(f.retransmission, buffer(8, 1))
  branch:add(f.timestamped, buffer(8, 1))
  branch:add(f.psn, buffer(9, 3))
  local data = buffer(12)
  local body = bodies[opcode]
  if body ~= nil then
    if data:len() >= body[2] then
      body[1](branch, data)
    end
  elseif opcode >= 0xC6 and opcode <= 0xCB and data:len() >= 20 then
    write(branch, data, opcode, bit.band(buffer(8, 1):uint(), 0x10) ~= 0)
  end
  return buffer:len()
end

DissectorTable.get("udp.port"):add(4791, mrc)
