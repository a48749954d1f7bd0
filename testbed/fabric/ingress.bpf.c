// SPDX-License-Identifier: Apache-2.0
// Ingress of a host port (clsact): the agent's packets end here. The agent's AF_PACKET socket has seen them before, and
// the host's stack, which has no socket for them, would answer each one with an ICMPv6 error.
// A packet of the agent: UDP to port 4791 in IPv6, and where the sender chooses the path that in IPv6 again, with next
// header 41 (see agents/wire).
#include <linux/bpf.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define ETHERNET_BYTES 14
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

struct udp {
	__u16 source_port;
	__u16 destination_port;
};

SEC("tc")
int mrclab_ingress(struct __sk_buff *skb)
{
	__u32 at = ETHERNET_BYTES;
	struct ipv6 header;
	struct udp udp;

	if (skb->protocol != bpf_htons(ETHERTYPE_IPV6) || bpf_skb_load_bytes(skb, at, &header, sizeof(header)))
		return TC_ACT_OK;
	at += sizeof(header);
	if (header.next_header == NEXT_HEADER_IPV6) {
		if (bpf_skb_load_bytes(skb, at, &header, sizeof(header)))
			return TC_ACT_OK;
		at += sizeof(header);
	}
	if (header.next_header == NEXT_HEADER_UDP && !bpf_skb_load_bytes(skb, at, &udp, sizeof(udp)) &&
	    udp.destination_port == bpf_htons(ROCE_PORT))
		return TC_ACT_STOLEN; // consumed, not dropped: drop counters stay for real drops
	return TC_ACT_OK;
}

char _license[] SEC("license") = "Dual BSD/GPL";
