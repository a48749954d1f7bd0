"""Numbers and fixed headers of rtnetlink, as far as a lab needs them.

From linux/rtnetlink.h, if_link.h, if_addr.h, neighbour.h, pkt_sched.h, pkt_cls.h, lwtunnel.h, seg6_local.h and
seg6_iptunnel.h, under the names that they have there.
"""

from __future__ import annotations

import struct

AF_INET6 = 10

RTM_NEWLINK, RTM_GETLINK = 16, 18
RTM_NEWADDR, RTM_GETADDR = 20, 22
RTM_NEWROUTE, RTM_GETROUTE = 24, 26
RTM_NEWNEIGH, RTM_GETNEIGH = 28, 30
RTM_NEWRULE, RTM_DELRULE, RTM_GETRULE = 32, 33, 34
RTM_NEWQDISC, RTM_DELQDISC, RTM_GETQDISC = 36, 37, 38
RTM_NEWTCLASS, RTM_GETTCLASS = 40, 42
RTM_NEWTFILTER, RTM_GETTFILTER = 44, 46

NLMSGHDR = struct.Struct("=IHHII")  # length, type, flags, sequence, port
IFINFOMSG = struct.Struct("=BxHiII")  # family, type, index, flags, change
IFADDRMSG = struct.Struct("=BBBBI")  # family, prefix length, flags, scope, index
NDMSG = struct.Struct("=BxxxiHBB")  # family, ifindex, state, flags, type
RTMSG = struct.Struct("=8BI")  # family, dst length, src length, tos, table, protocol, scope, type, flags
RTNEXTHOP = struct.Struct("=HBBi")  # length with its attributes, flags, weight - 1, ifindex
FIB_RULE_HDR = struct.Struct("=8BI")  # family, dst and src length, tos, table, two unused, action, flags
TCMSG = struct.Struct("=BxxxiIII")  # family, ifindex, handle, parent, info

IFF_UP, IFF_LOWER_UP = 1, 1 << 16
IFLA_ADDRESS, IFLA_IFNAME, IFLA_MTU, IFLA_LINK, IFLA_OPERSTATE, IFLA_LINKINFO = 1, 3, 4, 5, 16, 18
IFLA_STATS64, IFLA_NET_NS_FD, IFLA_EXT_MASK, IFLA_NUM_TX_QUEUES, IFLA_NUM_RX_QUEUES = 23, 28, 29, 31, 32
IFLA_INFO_KIND, IFLA_INFO_DATA = 1, 2
RTEXT_FILTER_SKIP_STATS = 1 << 3
IF_OPER_UP = 6
VETH_INFO_PEER = 1

IFA_ADDRESS, IFA_LOCAL = 1, 2
IFA_F_NODAD = 0x02

NDA_DST, NDA_LLADDR = 1, 2
NUD_PERMANENT = 0x80

RT_TABLE_MAIN = 254
RTPROT_KERNEL, RTPROT_STATIC, RTPROT_ZEBRA, RTPROT_BGP = 2, 4, 11, 186
RTN_UNICAST, RTN_BLACKHOLE = 1, 6
RTA_DST, RTA_OIF, RTA_GATEWAY, RTA_MULTIPATH, RTA_ENCAP_TYPE, RTA_ENCAP = 1, 4, 5, 9, 21, 22
RTNH_F_DEAD = 1

FRA_IIFNAME, FRA_PRIORITY, FRA_TABLE = 3, 6, 15
FR_ACT_TO_TBL, FR_ACT_BLACKHOLE = 1, 6

LWTUNNEL_ENCAP_SEG6, LWTUNNEL_ENCAP_SEG6_LOCAL = 5, 7
SEG6_LOCAL_ACTION, SEG6_LOCAL_TABLE, SEG6_LOCAL_COUNTERS, SEG6_LOCAL_FLAVORS = 1, 3, 10, 11
SEG6_LOCAL_CNT_PACKETS, SEG6_LOCAL_CNT_BYTES, SEG6_LOCAL_CNT_ERRORS = 2, 3, 4
SEG6_LOCAL_FLV_OPERATION, SEG6_LOCAL_FLV_LCBLOCK_BITS, SEG6_LOCAL_FLV_LCNODE_FN_BITS = 1, 2, 3
SEG6_IPTUNNEL_SRH = 1

TCM_IFINDEX_MAGIC_BLOCK = -1  # in place of an ifindex: the parent is the number of a shared block
TCA_KIND, TCA_OPTIONS, TCA_STATS2, TCA_STAB, TCA_INGRESS_BLOCK, TCA_EGRESS_BLOCK = 1, 2, 7, 8, 13, 14
TCA_STATS_BASIC, TCA_STATS_QUEUE = 1, 3
TCA_STAB_BASE = 1
TCA_HTB_PARMS, TCA_HTB_INIT, TCA_HTB_RATE64, TCA_HTB_CEIL64 = 1, 2, 6, 7
TCA_BPF_FD, TCA_BPF_NAME, TCA_BPF_FLAGS = 6, 7, 8
TCA_BPF_FLAG_ACT_DIRECT = 1
TC_LINKLAYER_ETHERNET = 1
ETH_P_ALL = 3

TC_HTB_GLOB = struct.Struct("=5I")  # version, rate2quantum, default class, debug, direct packets
TC_RATESPEC = struct.Struct("=BBHhHI")  # cell log, link layer, overhead, cell align, mpu, rate
TC_HTB_OPT = struct.Struct("=12s12s5I")  # rate, ceil, buffer, cbuffer, quantum, level, prio
TC_NETEM_QOPT = struct.Struct("=6I")  # latency, limit, loss, gap, duplicate, jitter
TC_FIFO_QOPT = struct.Struct("=I")  # limit
TC_SIZESPEC = struct.Struct("=BBhiIIII")  # what makes a size table
GNET_STATS_BASIC = struct.Struct("=QI")  # bytes, packets
GNET_STATS_QUEUE = struct.Struct("=5I")  # length, backlog, drops, requeues, overlimits
RTNL_LINK_STATS64 = struct.Struct("=4Q")  # the first four: received and sent packets, received and sent bytes
