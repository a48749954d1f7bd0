// SPDX-License-Identifier: Apache-2.0
// A switch port, or a NIC's, as an ASIC has it: queue limit, ECN marking, trimming, strict priority, and the faults a
// port can have. Runs at clsact egress, in front of HTB, which holds the packets and gives them the line's rate:
//
//   packet -> faults -> trim | drop -> mark -> HTB: control leaf (priority 0) or data leaf (priority 1)
//
// Follows the MRC paper, section 4 (trimming, ECN off on the last hop), and RED as DCQCN uses it (no mark up to Kmin,
// rising to Pmax at Kmax, always above). Decides on the bytes that wait in HTB when the packet comes. One map, keyed
// by ifindex, has everything of a port; testbed/fabric/portmap.py is its other side.
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define NS_PER_S 1000000000ULL
#define ETHERNET_BYTES 14
#define ETHERTYPE_IPV6 0x86DD
#define NEXT_HEADER_IPV6 41
#define NEXT_HEADER_UDP 17
#define IPV6_BYTES 40
#define USIDS 6
#define ROCE_PORT 4791

// agents/wire/dscp.py
#define DSCP_SHIFT 22 // in the first word of an IPv6 header
#define DSCP_MASK (0x3FU << DSCP_SHIFT)
#define DSCP_TRIMMABLE 4
#define DSCP_TRIMMABLE_RETX 8
#define DSCP_TRIMMED 12
#define DSCP_TRIMMED_LAST_HOP 16
#define DSCP_CONTROL 46
#define DSCP_ROUTING 48 // CS6, of a routing daemon's packets
#define ECN_MASK (3U << 20)

// agents/wire/headers.py: WRITE opcodes, and what lies between BTH and payload
#define FIRST_WRITE 0xC6
#define LAST_WRITE 0xCB
#define WRITE_LAST_IMM 0xC9
#define WRITE_ONLY_IMM 0xCB
#define ENDPOINT_REQUEST 0xD8 // probes of paths, and their answers
#define ENDPOINT_RESPONSE 0xD9
#define BTH_TIMESTAMP (1U << 28)
#define RC_WRITE_FIRST 0x06
#define RC_WRITE_LAST_IMM 0x09
#define RC_WRITE_ONLY 0x0A
#define RC_WRITE_ONLY_IMM 0x0B
#define RETH_BYTES 16
#define METH_RETH_BYTES (4 + RETH_BYTES)
#define TSETH_BYTES 4
#define IMMDT_BYTES 4
#define ICRC_BYTES 4
#define MAX_PADDING_BYTES 3

// testbed/fabric/plan.py: HTB classes
#define CONTROL_CLASS 0x10001
#define DATA_CLASS 0x10010

// Bits of settings.flags, and settings.match_kind: testbed/fabric/portmap.py
#define MARK 1
#define TRIM 2
#define LAST_HOP 4
#define BLACK_HOLE 8
#define BLACK_HOLE_DATA 16
#define WATCH_EVS 32
#define VIRTUAL_QUEUE 64
#define CORRUPT_UNSEEN 128
#define MATCH_USID 1
#define MATCH_EV 2

// Written by user space, each field with one store; probabilities are in units of 2^-32. Two cache lines.
struct settings {
	__u32 flags;
	__u32 limit_bytes;         // of the queue
	__u32 control_extra_bytes; // what control may take beyond that
	__u32 trim_at_bytes;
	__u32 kmin_bytes;
	__u32 kmax_bytes;
	__u64 pmax;
	__u64 rate_bytes_per_s; // of HTB, for the virtual queue
	__u64 burst_ns;         // likewise
	__u64 _unused[2];
	__u64 loss;       // of any packet
	__u64 match_loss; // of packets that match
	__u32 match_kind;
	__u32 match_value;
	__u64 corrupt; // of data
	__u64 _rest[4];
};

// Written here, read by user space. Three cache lines of their own.
struct counters {
	__u64 packets; // that went to HTB, with the trimmed ones
	__u64 bytes;
	__u64 control_packets;
	__u64 marked;
	__u64 trimmed;
	__u64 dropped_queue;
	__u64 dropped_control;
	__u64 dropped_loss;
	__u64 dropped_black_hole;
	__u64 first_drop_ns;
	__u64 last_drop_ns;
	__u64 last_tx_ns;
	__u64 busy_until_ns;     // the virtual queue: when it would be empty
	__u32 queue_max_bytes[2]; // one for each of two readers, who set it back to 0
	__u32 depth_bytes;       // that the last packet found
	__u32 marked_depth_bytes;
	__u32 trimmed_depth_bytes;
	__u32 dropped_depth_bytes;
	__u64 corrupted;
	__u64 lost_data; // data that faults took
	__u64 first_lost_data_ns;
	__u64 last_lost_data_ns;
	__u64 last_use_ns; // by anything of a queue pair, sent or dropped: all but probes
	__u64 _rest[3];
};

struct port {
	struct settings settings;
	struct counters counters;
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, 1); // the loader knows how many
	__type(key, __u32);
	__type(value, struct port);
} ports SEC(".maps");

// Which path was used when: per port that watches, EV and pair of hosts (low 16 bits of their addresses). At every port:
// when faults took what came on it, but for probes.
struct ev_key {
	__u32 ifindex;
	__u32 ev;
	__u16 src;
	__u16 dst;
};

struct ev_seen {
	__u64 packets; // seen by a port that watches
	__u64 last_ns;
	__u64 first_lost_ns; // since the port's first drop
	__u64 last_lost_ns;
};

struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 16384);
	__type(key, struct ev_key);
	__type(value, struct ev_seen);
} evs SEC(".maps");

struct ipv6 {
	__u32 first_word;
	__u16 payload_length;
	__u8 next_header;
	__u8 hop_limit;
	__u16 src[8];
	__u16 dst[8];
} __attribute__((packed));

// The start of every MRC packet, up to the BTH. Where the fabric hashes, packets have no outer header: then `outer` here
// is a copy of the inner one.
struct headers {
	__u8 macs[12];
	__u16 ethertype;
	struct ipv6 outer;
	struct ipv6 inner;
	__u16 source_port;
	__u16 destination_port;
	__u16 udp_length;
	__u16 udp_checksum;
	__u8 opcode;
	__u8 bth_flags;
	__u16 pkey;
	__u32 dest_qp;
	__u32 psn_word;
} __attribute__((packed));

#define PLAIN_BYTES (ETHERNET_BYTES + IPV6_BYTES)
#define BARE_BYTES (sizeof(struct headers) - PLAIN_BYTES) // from the inner header on

// The parts of the kernel's own structures that lead to HTB's backlog; relocated when the program is loaded.
struct gnet_stats_queue {
	__u32 backlog;
} __attribute__((preserve_access_index));
struct Qdisc {
	struct gnet_stats_queue qstats;
} __attribute__((preserve_access_index));
struct net_device {
	struct Qdisc *qdisc;
} __attribute__((preserve_access_index));
struct sk_buff {
	struct net_device *dev;
} __attribute__((preserve_access_index));

extern void *bpf_cast_to_kern_ctx(void *skb) __ksym __weak; // from Linux 6.2

#define COUNT(field, by) __sync_fetch_and_add(&port->counters.field, by)

static __always_inline int happens(__u64 probability)
{
	return probability && bpf_get_prandom_u32() < probability;
}

// HTB holds packets back by tokens: it lets one go as long as the bucket, which fills up to `burst`, is not in debt. The
// same as a time: the line is busy until `busy_until_ns`, which lags behind the clock by at most the burst.
static __always_inline __u32 virtual_backlog(struct port *port, __u64 now)
{
	__u64 until = port->counters.busy_until_ns;

	return until > now ? (until - now) * port->settings.rate_bytes_per_s / NS_PER_S : 0;
}

static __always_inline void virtual_enqueue(struct port *port, __u64 now, __u32 bytes)
{
	__u64 rate = port->settings.rate_bytes_per_s;
	__u64 earliest = now - port->settings.burst_ns;
	__u64 *busy = &port->counters.busy_until_ns;

	if (!rate)
		return;
	for (int tries = 0; tries < 4; tries++) { // another CPU may be at it
		__u64 until = *busy;
		__u64 later = (until > earliest ? until : earliest) + bytes * NS_PER_S / rate;

		if (__sync_val_compare_and_swap(busy, until, later) == until)
			return;
	}
}

static __always_inline int drop(struct port *port, __u64 now, int verdict)
{
	if (!port->counters.first_drop_ns)
		port->counters.first_drop_ns = now;
	port->counters.last_drop_ns = now;
	return verdict;
}

static __always_inline struct ev_key key_of(struct __sk_buff *skb, const struct headers *headers, __u32 ev)
{
	struct ev_key key = {
		.ifindex = skb->ifindex,
		.ev = ev,
		.src = bpf_ntohs(headers->inner.src[7]),
		.dst = bpf_ntohs(headers->inner.dst[7]),
	};

	return key;
}

// A fault takes the packet. Silent: for the sender (a NIC's own port, too) it has gone.
static __always_inline int lose(struct __sk_buff *skb, struct port *port, const struct headers *headers, __u32 ev,
				__u64 now, int is_data, int is_use)
{
	int verdict = drop(port, now, TC_ACT_STOLEN);
	struct ev_key key = key_of(skb, headers, ev);
	struct ev_seen *seen;

	if (is_data) {
		COUNT(lost_data, 1);
		if (!port->counters.first_lost_data_ns)
			port->counters.first_lost_data_ns = now;
		port->counters.last_lost_data_ns = now;
	}
	if (!is_use)
		return verdict;
	seen = bpf_map_lookup_elem(&evs, &key);
	if (seen) {
		if (seen->first_lost_ns < port->counters.first_drop_ns)
			seen->first_lost_ns = now;
		seen->last_lost_ns = now;
	} else {
		struct ev_seen first = { .first_lost_ns = now, .last_lost_ns = now };

		bpf_map_update_elem(&evs, &key, &first, BPF_ANY);
	}
	return verdict;
}

static __always_inline void note_ev(struct __sk_buff *skb, const struct headers *headers, __u32 ev, __u64 now)
{
	struct ev_key key = key_of(skb, headers, ev);
	struct ev_seen *seen = bpf_map_lookup_elem(&evs, &key);

	if (seen) {
		__sync_fetch_and_add(&seen->packets, 1);
		seen->last_ns = now;
	} else {
		struct ev_seen first = { .packets = 1, .last_ns = now };

		bpf_map_update_elem(&evs, &key, &first, BPF_ANY);
	}
}

static __always_inline int matches(const struct settings *settings, const struct headers *headers, int is_mrc, __u32 ev)
{
	if (settings->match_kind == MATCH_EV)
		return is_mrc && ev == settings->match_value;
	if (settings->match_kind == MATCH_USID) {
		for (int at = 2; at < 2 + USIDS; at++) // behind the 32-bit block
			if (headers->outer.dst[at] == bpf_htons(settings->match_value))
				return 1;
	}
	return 0;
}

// Read the headers of a packet, as far as it has them. Says whether it is the agents'; sets `bare` without outer header.
static __always_inline int load(struct __sk_buff *skb, struct headers *headers, int *bare)
{
	if (bpf_skb_load_bytes(skb, 0, headers, PLAIN_BYTES) || headers->ethertype != bpf_htons(ETHERTYPE_IPV6))
		return 0;
	*bare = headers->outer.next_header == NEXT_HEADER_UDP;
	if (!*bare && headers->outer.next_header != NEXT_HEADER_IPV6)
		return 0;
	if (bpf_skb_load_bytes(skb, *bare ? ETHERNET_BYTES : PLAIN_BYTES, &headers->inner, BARE_BYTES))
		return 0;
	return headers->inner.next_header == NEXT_HEADER_UDP && headers->destination_port == bpf_htons(ROCE_PORT);
}

// Bytes of a WRITE, MRC's or plain RoCE's, in front of its payload; 0 for anything else.
static __always_inline __u32 header_bytes(const struct headers *headers, int bare)
{
	__u32 bytes = sizeof(*headers) - (bare ? IPV6_BYTES : 0);

	if (headers->opcode >= RC_WRITE_FIRST && headers->opcode <= RC_WRITE_ONLY_IMM) { // plain RoCE
		if (headers->opcode == RC_WRITE_FIRST || headers->opcode >= RC_WRITE_ONLY)
			bytes += RETH_BYTES;
		if (headers->opcode == RC_WRITE_LAST_IMM || headers->opcode == RC_WRITE_ONLY_IMM)
			bytes += IMMDT_BYTES;
		return bytes;
	}
	bytes += METH_RETH_BYTES;
	if (headers->opcode < FIRST_WRITE || headers->opcode > LAST_WRITE)
		return 0;
	if (headers->psn_word & bpf_htonl(BTH_TIMESTAMP))
		bytes += TSETH_BYTES;
	if (headers->opcode == WRITE_LAST_IMM || headers->opcode == WRITE_ONLY_IMM)
		bytes += IMMDT_BYTES;
	return bytes;
}

// Spoil the end of the payload: one bit, which the ICRC tells; or the bits of its own generator polynomial, which it
// cannot. `payload_at`: where the payload begins.
static __always_inline int corrupt(struct __sk_buff *skb, __u32 payload_at, int unseen)
{
	__u8 bytes[5];
	__u32 at = skb->len - ICRC_BYTES - MAX_PADDING_BYTES - sizeof(bytes);

	if (skb->len < payload_at + sizeof(bytes) + ICRC_BYTES + MAX_PADDING_BYTES)
		return -1;
	if (bpf_skb_load_bytes(skb, at, bytes, sizeof(bytes)))
		return -1;
	if (unseen) { // x^32 + ... + 1 as a line sends it, the least bit of a byte first
		bytes[0] ^= 0x41;
		bytes[1] ^= 0x06;
		bytes[2] ^= 0x71;
		bytes[3] ^= 0xDB;
		bytes[4] ^= 0x01;
	} else {
		bytes[0] ^= 0x01;
	}
	return bpf_skb_store_bytes(skb, at, bytes, sizeof(bytes), 0);
}

static __always_inline __u32 with_dscp(__u32 first_word, __u32 dscp)
{
	return (first_word & ~bpf_htonl(DSCP_MASK)) | bpf_htonl(dscp << DSCP_SHIFT);
}

// Cut the payload off. All length fields follow; the DSCP says so in each header.
static __always_inline int trim(struct __sk_buff *skb, struct headers *headers, int bare, __u32 bytes, __u32 dscp)
{
	__u16 outer_length = bytes - PLAIN_BYTES;
	__u16 inner_length = outer_length - (bare ? 0 : IPV6_BYTES);

	if (bpf_skb_change_tail(skb, bytes, 0))
		return -1;
	headers->outer.first_word = with_dscp(headers->outer.first_word, dscp);
	headers->outer.payload_length = bpf_htons(outer_length);
	headers->inner.first_word = with_dscp(headers->inner.first_word, dscp);
	headers->inner.payload_length = bpf_htons(inner_length);
	headers->udp_length = bpf_htons(inner_length);
	if (bare)
		return bpf_skb_store_bytes(skb, ETHERNET_BYTES, &headers->inner, BARE_BYTES, 0);
	return bpf_skb_store_bytes(skb, 0, headers, sizeof(*headers), 0);
}

static __always_inline void mark(struct __sk_buff *skb, struct port *port, struct headers *headers, __u32 depth)
{
	const struct settings *settings = &port->settings;
	__u32 ecn = headers->outer.first_word & bpf_htonl(ECN_MASK);
	__u32 kmin = settings->kmin_bytes, kmax = settings->kmax_bytes;
	__u32 first_word = headers->outer.first_word | bpf_htonl(ECN_MASK);

	if (!ecn) // not-ECT
		return;
	if (depth < kmax && (depth <= kmin || !happens(settings->pmax * (depth - kmin) / (kmax - kmin))))
		return;
	if (bpf_skb_store_bytes(skb, ETHERNET_BYTES, &first_word, sizeof(first_word), 0))
		return;
	COUNT(marked, 1);
	port->counters.marked_depth_bytes = depth;
}

static __always_inline int egress(struct __sk_buff *skb, struct port *port, __u32 depth, __u64 now)
{
	const struct settings *settings = &port->settings;
	struct headers headers = {};
	__u32 flags = settings->flags, dscp = 0, ev = 0, length = skb->len, shortest = 0, whole;
	int is_mrc, control, trimmable, bare = 0, is_use = 0;

	is_mrc = load(skb, &headers, &bare);
	if (headers.ethertype == bpf_htons(ETHERTYPE_IPV6))
		dscp = (bpf_ntohl(headers.outer.first_word) & DSCP_MASK) >> DSCP_SHIFT;
	control = dscp == DSCP_CONTROL || dscp == DSCP_ROUTING || dscp == DSCP_TRIMMED || dscp == DSCP_TRIMMED_LAST_HOP;
	if (is_mrc) {
		ev = bpf_ntohl(headers.inner.first_word) << 16 | bpf_ntohs(headers.source_port);
		shortest = header_bytes(&headers, bare);
		if (flags & WATCH_EVS)
			note_ev(skb, &headers, ev, now);
		is_use = headers.opcode != ENDPOINT_REQUEST && headers.opcode != ENDPOINT_RESPONSE;
		if (is_use)
			port->counters.last_use_ns = now;
	}

	if ((flags & BLACK_HOLE) || ((flags & BLACK_HOLE_DATA) && !control)) {
		COUNT(dropped_black_hole, 1);
		return lose(skb, port, &headers, ev, now, shortest && !control, is_use);
	}
	if (happens(settings->loss) ||
	    (settings->match_loss && matches(settings, &headers, is_mrc, ev) && happens(settings->match_loss))) {
		COUNT(dropped_loss, 1);
		return lose(skb, port, &headers, ev, now, shortest && !control, is_use);
	}
	if (shortest && happens(settings->corrupt) && !corrupt(skb, shortest, flags & CORRUPT_UNSEEN))
		COUNT(corrupted, 1);

	port->counters.depth_bytes = depth;
	trimmable = (dscp == DSCP_TRIMMABLE || dscp == DSCP_TRIMMABLE_RETX) && shortest && shortest < length;
	if (trimmable && (flags & TRIM) && depth + length > settings->trim_at_bytes) {
		if (!trim(skb, &headers, bare, shortest, flags & LAST_HOP ? DSCP_TRIMMED_LAST_HOP : DSCP_TRIMMED)) {
			COUNT(trimmed, 1);
			port->counters.trimmed_depth_bytes = depth;
			control = 1;
			length = shortest;
		}
	}
	whole = depth + length;
	if (whole > settings->limit_bytes + (control ? settings->control_extra_bytes : 0)) {
		if (control)
			COUNT(dropped_control, 1);
		else
			COUNT(dropped_queue, 1);
		port->counters.dropped_depth_bytes = depth;
		return drop(port, now, TC_ACT_SHOT); // a NIC's own queue says no, and its agent keeps the packet
	}
	if (!control && (flags & MARK))
		mark(skb, port, &headers, depth);

	skb->priority = control ? CONTROL_CLASS : DATA_CLASS;
	virtual_enqueue(port, now, length);
	for (int reader = 0; reader < 2; reader++)
		if (whole > port->counters.queue_max_bytes[reader])
			port->counters.queue_max_bytes[reader] = whole;
	COUNT(packets, 1);
	COUNT(bytes, length);
	if (control)
		COUNT(control_packets, 1);
	port->counters.last_tx_ns = now;
	return TC_ACT_OK;
}

SEC("tc")
int mrclab_port(struct __sk_buff *skb)
{
	__u32 key = skb->ifindex;
	struct port *port = bpf_map_lookup_elem(&ports, &key);
	__u64 now = bpf_ktime_get_ns();
	__u32 depth;

	if (!port)
		return TC_ACT_OK;
	if (port->settings.flags & VIRTUAL_QUEUE)
		depth = virtual_backlog(port, now);
	else
		depth = ((struct sk_buff *)bpf_cast_to_kern_ctx(skb))->dev->qdisc->qstats.backlog;
	return egress(skb, port, depth, now);
}

// For kernels before 6.2, which cannot look at HTB.
SEC("tc")
int mrclab_port_virtual(struct __sk_buff *skb)
{
	__u32 key = skb->ifindex;
	struct port *port = bpf_map_lookup_elem(&ports, &key);
	__u64 now = bpf_ktime_get_ns();

	return port ? egress(skb, port, virtual_backlog(port, now), now) : TC_ACT_OK;
}

char _license[] SEC("license") = "Dual BSD/GPL";
