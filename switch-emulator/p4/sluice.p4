// A switch that keeps Sluice's load table in its data plane.
//
// P4-16 for v1model. It forwards IPv4 by longest prefix and ECMP; a Sluice packet that leaves by a link of the
// fabric is counted once for each flow and period, and gets the link's load of the next ten slots and what is
// left of the link. There is no clock in it, nothing is ever cleared, and nobody has to take anything back: see
// docs/switches.md. `switch-emulator/pipeline` is the same pipeline in Rust, held to the same vectors.
//
// All state is behind the egress port, so that a chip with several pipes needs no merging.

#include <core.p4>
#include <v1model.p4>

#ifndef SLUICE_PORT
#define SLUICE_PORT 9604
#endif

const bit<16> TYPE_IPV4 = 0x0800;
const bit<8> PROTO_TCP = 6;
const bit<8> PROTO_UDP = 17;

const bit<16> MAGIC = 0x534C;
const bit<4> VERSION = 1;
const bit<4> PROBE = 1;
const bit<4> ANNOUNCE = 2;
const bit<8> LANES = 10;
const bit<8> MAX_UNIT = 16;
// Bytes of a datagram that carries a Sluice packet: 8 of UDP, 44 of head, 10 for each lane.
const bit<16> UDP_LENGTH = 152;

const bit<8> DUPLICATE = 0x02;
const bit<8> GUARD = 0x08;
const bit<8> SATURATED = 0x10;

// How many periods ahead of a packet a register may be for the packet to count as late.
const bit<32> LATE_WINDOW = 3;
const int<32> MAX_LOAD = 2147483647;

#define PORTS 512
#define SEEN 65536

error {
    NotPlainIpv4
}

header ethernet_t {
    bit<48> destination;
    bit<48> source;
    bit<16> type;
}

header ipv4_t {
    bit<4>  version;
    bit<4>  ihl;
    bit<8>  tos;
    bit<16> length;
    bit<16> id;
    bit<1>  reserved;
    bit<1>  dont_fragment;
    bit<1>  more_fragments;
    bit<13> fragment_offset;
    bit<8>  ttl;
    bit<8>  protocol;
    bit<16> checksum;
    bit<32> source;
    bit<32> destination;
}

header ports_t {
    bit<16> source;
    bit<16> destination;
}

header udp_t {
    bit<16> length;
    bit<16> checksum;
}

header sluice_t {
    bit<16> magic;
    bit<4>  version;
    bit<4>  kind;
    bit<8>  flags;
    bit<8>  lanes;
    bit<8>  unit;
    bit<8>  hops;
    bit<8>  counted;
    bit<64> flow;
    bit<32> slot;
    bit<16> seq;
    bit<8>  had_previous;
    bit<8>  wrap;
    bit<32> path_sig;
    bit<32> source;
    bit<32> destination;
    bit<16> source_port;
    bit<16> destination_port;
    bit<8>  protocol;
    bit<24> cookie;
}

header lane_t {
    bit<16> new;
    bit<16> previous;
    int<32> load_sum;
    bit<16> headroom;
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t     ipv4;
    ports_t    ports;
    udp_t      udp;
    sluice_t   sluice;
    lane_t[10] lanes;
}

struct metadata_t {
    // The connection by which a path is chosen.
    bit<32> source;
    bit<32> destination;
    bit<16> source_port;
    bit<16> destination_port;
    bit<8>  protocol;
    // A probe or an announcement whose fields are in range.
    bit<1>  sluice;
    // The group of ways, and which of its buckets.
    bit<16> group;
    bit<16> bucket;
    // What `edge` says of the sources behind an ingress port.
    bit<32> edge_network;
    bit<32> edge_mask;
    // The link behind the egress port.
    bit<32> capacity;
    bit<8>  unit;
    // The guard's slot, and whether there is one.
    bit<32> present;
    bit<1>  guarded;
    // What counting an announcement came to: is it added, and does it follow on the period before.
    bit<1>  count;
    bit<1>  follows;
    bit<16> port;
    bit<32> index;
    bit<32> signature;
    // A register that was read, the period in it, how far that is ahead of the packet's, and its sum.
    bit<64> cell;
    bit<32> tag;
    bit<32> ahead;
    int<32> load;
    // What is added to the cell of the packet's period, and to the one before.
    int<32> step;
    int<32> change;
    int<32> room;
}

parser SluiceParser(packet_in packet, out headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr.ethernet);
        transition select(hdr.ethernet.type) {
            TYPE_IPV4: parse_ipv4;
            default: accept;
        }
    }

    state parse_ipv4 {
        packet.extract(hdr.ipv4);
        verify(hdr.ipv4.version == 4 && hdr.ipv4.ihl == 5, error.NotPlainIpv4);
        transition select(hdr.ipv4.more_fragments, hdr.ipv4.fragment_offset, hdr.ipv4.protocol) {
            (0, 0, PROTO_TCP): parse_ports;
            (0, 0, PROTO_UDP): parse_udp;
            default: accept;
        }
    }

    state parse_ports {
        packet.extract(hdr.ports);
        transition accept;
    }

    state parse_udp {
        packet.extract(hdr.ports);
        packet.extract(hdr.udp);
        transition select(hdr.ports.destination, hdr.udp.length) {
            (SLUICE_PORT, UDP_LENGTH): look_ahead;
            default: accept;
        }
    }

    // Magic, version and type, flags, lanes, unit. Whatever else comes on the port is a plain packet.
    state look_ahead {
        bit<48> first = packet.lookahead<bit<48>>();
        transition select(first[47:32], first[31:28], first[27:24], first[15:8]) {
            (MAGIC, VERSION, PROBE, LANES): parse_sluice;
            (MAGIC, VERSION, ANNOUNCE, LANES): parse_sluice;
            default: accept;
        }
    }

    state parse_sluice {
        packet.extract(hdr.sluice);
        packet.extract(hdr.lanes[0]);
        packet.extract(hdr.lanes[1]);
        packet.extract(hdr.lanes[2]);
        packet.extract(hdr.lanes[3]);
        packet.extract(hdr.lanes[4]);
        packet.extract(hdr.lanes[5]);
        packet.extract(hdr.lanes[6]);
        packet.extract(hdr.lanes[7]);
        packet.extract(hdr.lanes[8]);
        packet.extract(hdr.lanes[9]);
        transition accept;
    }
}

control SluiceVerifyChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        verify_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.id, hdr.ipv4.reserved,
              hdr.ipv4.dont_fragment, hdr.ipv4.more_fragments, hdr.ipv4.fragment_offset, hdr.ipv4.ttl,
              hdr.ipv4.protocol, hdr.ipv4.source, hdr.ipv4.destination },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control SluiceIngress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    // Malformed, not IPv4, spoofed, time to live over, no route.
    counter(5, CounterType.packets) drops;

    action refuse(bit<32> reason) {
        drops.count(reason);
        mark_to_drop(standard);
    }

    action bind(bit<32> network, bit<32> mask) {
        meta.edge_network = network;
        meta.edge_mask = mask;
    }

    // Whose Sluice packets come in by a port that leads to a host. A port without an entry leads to another switch.
    table edge {
        key = { standard.ingress_port: exact; }
        actions = { bind; NoAction; }
        size = PORTS;
        default_action = NoAction();
    }

    action no_route() {
        refuse(4);
    }

    action forward(bit<9> port, bit<48> destination, bit<48> source) {
        standard.egress_spec = port;
        hdr.ethernet.destination = destination;
        hdr.ethernet.source = source;
        hdr.ipv4.ttl = hdr.ipv4.ttl - 1;
    }

    // The seed keeps two switches in a row from choosing alike. It is added, since a checksum over it would turn all choices
    // of a switch at once.
    action choose(bit<16> group, bit<16> size, bit<32> seed) {
        bit<32> connection;
        meta.group = group;
        hash(connection, HashAlgorithm.crc32, 32w0,
            { meta.source, meta.destination, meta.source_port, meta.destination_port, meta.protocol },
            64w4294967296);
        hash(meta.bucket, HashAlgorithm.crc32, (bit<16>) 0, { connection + seed }, (bit<32>) size);
    }

    table lpm {
        key = { hdr.ipv4.destination: lpm; }
        actions = { forward; choose; no_route; }
        size = 16384;
        default_action = no_route();
    }

    table ecmp {
        key = { meta.group: exact; meta.bucket: exact; }
        actions = { forward; no_route; }
        size = 16384;
        default_action = no_route();
    }

    apply {
        if (standard.parser_error != error.NoError || standard.checksum_error == 1) {
            refuse(0);
        } else if (!hdr.ipv4.isValid()) {
            refuse(1);
        } else {
            meta.source = hdr.ipv4.source;
            meta.destination = hdr.ipv4.destination;
            meta.protocol = hdr.ipv4.protocol;
            if (hdr.ports.isValid()) {
                meta.source_port = hdr.ports.source;
                meta.destination_port = hdr.ports.destination;
            }
            if (hdr.sluice.isValid() && hdr.sluice.wrap < LANES && hdr.sluice.unit <= MAX_UNIT) {
                // A Sluice packet goes where the connection goes that it speaks of.
                meta.sluice = 1;
                meta.source = hdr.sluice.source;
                meta.destination = hdr.sluice.destination;
                meta.source_port = hdr.sluice.source_port;
                meta.destination_port = hdr.sluice.destination_port;
                meta.protocol = hdr.sluice.protocol;
                edge.apply();
            }
            if (meta.sluice == 1 && (hdr.ipv4.source & meta.edge_mask) != meta.edge_network) {
                refuse(2);
            } else if (hdr.ipv4.ttl <= 1) {
                refuse(3);
            } else {
                switch (lpm.apply().action_run) {
                    choose: { ecmp.apply(); }
                    default: {}
                }
            }
        }
    }
}

// A cell is 64 bits: the period it belongs to, and a sum. A cell of an older period becomes one of `period` at its first
// use. Leaves the sum in `meta.load`.
#define CELL(cells, period, step)                                                     \
    cells.read(meta.cell, (bit<32>) standard.egress_port);                            \
    meta.tag = meta.cell[63:32];                                                      \
    meta.load = (int<32>) meta.cell[31:0];                                            \
    meta.ahead = meta.tag - (period);                                                 \
    if (meta.ahead == 0) {                                                            \
        meta.load = meta.load |+| (step);                                             \
    } else if (meta.ahead > LATE_WINDOW) {                                            \
        meta.tag = (period);                                                          \
        meta.load = (step);                                                           \
    }                                                                                 \
    if (meta.count == 1) {                                                            \
        cells.write((bit<32>) standard.egress_port, meta.tag ++ (bit<32>) meta.load); \
    }

// Lane n, whose cells are by the parity of the period. In period p what is announced gathers in the cell of p, and the
// cell of p - 1 is read and kept up to date. The farthest slot was never announced in p - 1: there the cell of p is read.
#define LANE(n)                                                                       \
    meta.step = 0;                                                                    \
    meta.change = 0;                                                                  \
    if (meta.count == 1) {                                                            \
        meta.step = (int<32>) (bit<32>) hdr.lanes[n].new;                             \
        meta.change = meta.step;                                                      \
        if (meta.follows == 1) {                                                      \
            meta.change = meta.step - (int<32>) (bit<32>) hdr.lanes[n].previous;      \
        }                                                                             \
    }                                                                                 \
    if (hdr.sluice.slot[0:0] == 0) {                                                  \
        CELL(even_##n, hdr.sluice.slot, meta.step)                                    \
        if (hdr.sluice.wrap != n) {                                                   \
            CELL(odd_##n, hdr.sluice.slot - 1, meta.change)                           \
        }                                                                             \
    } else {                                                                          \
        CELL(odd_##n, hdr.sluice.slot, meta.step)                                     \
        if (hdr.sluice.wrap != n) {                                                   \
            CELL(even_##n, hdr.sluice.slot - 1, meta.change)                          \
        }                                                                             \
    }                                                                                 \
    hdr.lanes[n].load_sum = hdr.lanes[n].load_sum |+| meta.load;                      \
    if (hdr.lanes[n].load_sum == MAX_LOAD) {                                          \
        hdr.sluice.flags = hdr.sluice.flags | SATURATED;                              \
    }                                                                                 \
    meta.room = (int<32>) meta.capacity |-| meta.load;                                \
    if (meta.room < 0) {                                                              \
        meta.room = 0;                                                                \
    }                                                                                 \
    if (meta.room < (int<32>) (bit<32>) hdr.lanes[n].headroom) {                      \
        hdr.lanes[n].headroom = ((bit<32>) meta.room)[15:0];                          \
    }

#define CELLS(n)                                                                      \
    register<bit<64>>(PORTS) even_##n;                                                \
    register<bit<64>>(PORTS) odd_##n;

control SluiceEgress(inout headers_t hdr, inout metadata_t meta, inout standard_metadata_t standard) {
    CELLS(0)
    CELLS(1)
    CELLS(2)
    CELLS(3)
    CELLS(4)
    CELLS(5)
    CELLS(6)
    CELLS(7)
    CELLS(8)
    CELLS(9)

    // Who was counted, and in which period: signature and period.
    register<bit<64>>(SEEN) seen;

    counter(PORTS, CounterType.packets_and_bytes) sent;
    counter(PORTS, CounterType.packets) announcements;
    counter(PORTS, CounterType.packets) duplicates;
    counter(PORTS, CounterType.packets) probes;
    counter(PORTS, CounterType.packets) rejected;
    counter(PORTS, CounterType.packets) other_unit;

    // The hop counts, and the path's signature changes, whatever becomes of the packet here.
    action link(bit<32> capacity, bit<8> unit, bit<32> signature) {
        meta.capacity = capacity;
        meta.unit = unit;
        hdr.sluice.hops = hdr.sluice.hops + 1;
        hdr.sluice.path_sig = hdr.sluice.path_sig ^ signature;
        hdr.udp.checksum = 0;
    }

    // The link behind a port: what managed flows may use of it, in units of 2^unit Mbit/s, and a random number of this
    // switch's present run and the port.
    table links {
        key = { standard.egress_port: exact; }
        actions = { link; NoAction; }
        size = PORTS;
        default_action = NoAction();
    }

    action set_slot(bit<32> slot) {
        meta.present = slot;
        meta.guarded = 1;
    }

    // The present slot, written by the switch's agent in each slot. If the agent dies, packets are refused two slots later.
    table guard {
        actions = { set_slot; NoAction; }
        default_action = NoAction();
    }

    apply {
        bit<32> port = (bit<32>) standard.egress_port;
        sent.count(port);
        if (meta.sluice == 1 && links.apply().hit) {
            guard.apply();
            meta.ahead = hdr.sluice.slot - meta.present;
            if (hdr.sluice.unit != meta.unit) {
                other_unit.count(port);
            } else if (meta.guarded == 0 || (meta.ahead != 0 && meta.ahead != 1 && meta.ahead != 0xffffffff)) {
                hdr.sluice.flags = hdr.sluice.flags | GUARD;
                rejected.count(port);
            } else {
                if (hdr.sluice.kind == ANNOUNCE) {
                    // A repeat is counted already. One that follows on the period before takes the place of what that said.
                    meta.port = (bit<16>) standard.egress_port;
                    hash(meta.index, HashAlgorithm.crc32_custom, 32w0, { hdr.sluice.flow, meta.port }, 32w65536);
                    hash(meta.signature, HashAlgorithm.crc32, 32w0, { hdr.sluice.flow, meta.port }, 64w4294967296);
                    if (meta.signature == 0) {
                        meta.signature = 1;
                    }
                    hdr.sluice.counted = hdr.sluice.counted + 1;
                    @atomic {
                        seen.read(meta.cell, meta.index);
                        meta.ahead = meta.cell[31:0] - hdr.sluice.slot;
                        meta.count = 1;
                        if (meta.cell[63:32] == meta.signature) {
                            if (meta.ahead <= LATE_WINDOW) {
                                meta.count = 0;
                            } else if (meta.ahead == 0xffffffff) {
                                meta.follows = 1;
                            }
                        }
                        if (meta.count == 1) {
                            seen.write(meta.index, meta.signature ++ hdr.sluice.slot);
                        }
                    }
                    if (meta.count == 0) {
                        hdr.sluice.flags = hdr.sluice.flags | DUPLICATE;
                        duplicates.count(port);
                    } else {
                        announcements.count(port);
                    }
                    if (meta.follows == 1) {
                        hdr.sluice.had_previous = hdr.sluice.had_previous + 1;
                    }
                } else {
                    probes.count(port);
                }
                @atomic {
                    LANE(0)
                    LANE(1)
                    LANE(2)
                    LANE(3)
                    LANE(4)
                    LANE(5)
                    LANE(6)
                    LANE(7)
                    LANE(8)
                    LANE(9)
                }
            }
        }
    }
}

control SluiceComputeChecksum(inout headers_t hdr, inout metadata_t meta) {
    apply {
        update_checksum(hdr.ipv4.isValid(),
            { hdr.ipv4.version, hdr.ipv4.ihl, hdr.ipv4.tos, hdr.ipv4.length, hdr.ipv4.id, hdr.ipv4.reserved,
              hdr.ipv4.dont_fragment, hdr.ipv4.more_fragments, hdr.ipv4.fragment_offset, hdr.ipv4.ttl,
              hdr.ipv4.protocol, hdr.ipv4.source, hdr.ipv4.destination },
            hdr.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control SluiceDeparser(packet_out packet, in headers_t hdr) {
    apply {
        packet.emit(hdr);
    }
}

V1Switch(
    SluiceParser(), SluiceVerifyChecksum(), SluiceIngress(), SluiceEgress(), SluiceComputeChecksum(), SluiceDeparser()
) main;
