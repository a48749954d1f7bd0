// SPDX-License-Identifier: Apache-2.0
// Ingress of a host port (clsact): the agent's packets end here. The agent's AF_PACKET socket has seen them before, and
// the host's stack, which has no socket for them, would answer each one with an ICMPv6 error.
// A packet of the agent: outer IPv6 with next header 41, inner IPv6 with UDP to port 4791 (see agents/wire).
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define ETHERTYPE_IPV6 0x86DD
#define NEXT_HEADER_IPV6 41
#define NEXT_HEADER_UDP 17
#define ROCE_PORT 4791

struct ipv6 {
	__u32 first_word;
	__u16 payload_length;
	__u8 next_header;
	__u8 hop_limit;
	__u8 addresses[32];
};

struct start {
	__u8 macs[12];
	__u16 ethertype;
	struct ipv6 outer;
	struct ipv6 inner;
	__u16 source_port;
	__u16 destination_port;
} __attribute__((packed));

SEC("tc")
int mrclab_ingress(struct __sk_buff *skb)
{
	struct start start;

	if (bpf_skb_load_bytes(skb, 0, &start, sizeof(start)))
		return TC_ACT_OK;
	if (start.ethertype == bpf_htons(ETHERTYPE_IPV6) && start.outer.next_header == NEXT_HEADER_IPV6 &&
	    start.inner.next_header == NEXT_HEADER_UDP && start.destination_port == bpf_htons(ROCE_PORT))
		return TC_ACT_STOLEN; // consumed, not dropped: drop counters stay for real drops
	return TC_ACT_OK;
}

char _license[] SEC("license") = "Dual BSD/GPL";
