// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Forwards plain IPv4 packets between the ports of a switch in software, by the tables of its twin in user space
 * (switch-emulator/pipeline). What leaves here leaves with the very bytes that the twin would send. Whatever is not sure,
 * is ours, or goes nowhere is left alone: it reaches the packet socket behind this program, and the twin does with it what
 * it does, and counts it. Runs at the ingress of every port, by tcx.
 */
#include "sluice_kernel.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define BPF_MAP_TYPE_PERCPU_ARRAY 6
#define BPF_MAP_TYPE_LPM_TRIE 11

/* Nothing is decided here: who comes next decides as if this program were not there. */
#define LEAVE (-1)
/* The clone is on its way, and its original is freed. Of what frees a packet, tcx knows this verdict only. */
#define DONE 2

#define PORTS 512
/* Two generations of 65,536 entries. */
#define ROOM 131072

#define IPV4 0x0800
#define PLAIN_HEADER 0x45
#define FRAGMENT 0x3fff
#define TCP 6
#define UDP 17

/* By which generation of the tables packets are forwarded, 0: by none; and the port of our own packets. */
struct sluice_plane {
	__u32 generation;
	__u32 udp_port;
};

/* A prefix, behind the 32 bits of its generation. */
struct sluice_prefix {
	__u32 length;
	__u32 generation;
	__u32 address;
};

/* A port, and the addresses of the link behind it as they stand in a frame: the next machine's, the own. */
struct sluice_hop {
	__u32 port;
	__u16 addresses[6];
};

/* One way, or if it has a size one of so many. */
struct sluice_route {
	struct sluice_hop hop;
	__u16 size;
	__u16 group;
	__u32 seed;
};

struct sluice_member {
	__u32 generation;
	__u16 group;
	__u16 bucket;
};

struct sluice_count {
	__u64 frames;
	__u64 bytes;
	/* Of them, those for which the queue dropped one. */
	__u64 refused;
};

struct {
	COUNT(BPF_MAP_TYPE_ARRAY, type);
	COUNT(1, max_entries);
	VALUE(__u32, key);
	VALUE(struct sluice_plane, value);
} sluice_plane SEC(".maps");

/* The interface of each port; 0: there is none. */
struct {
	COUNT(BPF_MAP_TYPE_ARRAY, type);
	COUNT(PORTS, max_entries);
	VALUE(__u32, key);
	VALUE(__u32, value);
} sluice_ports SEC(".maps");

struct {
	COUNT(BPF_MAP_TYPE_LPM_TRIE, type);
	COUNT(BPF_F_NO_PREALLOC, map_flags);
	COUNT(ROOM, max_entries);
	VALUE(struct sluice_prefix, key);
	VALUE(struct sluice_route, value);
} sluice_routes SEC(".maps");

struct {
	COUNT(BPF_MAP_TYPE_HASH, type);
	COUNT(BPF_F_NO_PREALLOC, map_flags);
	COUNT(ROOM, max_entries);
	VALUE(struct sluice_member, key);
	VALUE(struct sluice_hop, value);
} sluice_members SEC(".maps");

struct {
	COUNT(BPF_MAP_TYPE_PERCPU_ARRAY, type);
	COUNT(PORTS, max_entries);
	VALUE(__u32, key);
	VALUE(struct sluice_count, value);
} sluice_counts SEC(".maps");

/* Fixed by the user-space ABI of the kernel; only its beginning. */
struct __sk_buff {
	__u32 len;
	__u32 unused[4];
	__u32 vlan_present;
	__u32 more[13];
	__u32 data;
	__u32 data_end;
};

static long (*bpf_clone_redirect)(struct __sk_buff *skb, __u32 ifindex, __u64 flags) = (void *)13;
static long (*bpf_skb_pull_data)(struct __sk_buff *skb, __u32 len) = (void *)39;
static long (*bpf_check_mtu)(void *ctx, __u32 ifindex, __u32 *mtu, __s32 diff, __u64 flags) = (void *)163;

struct ethernet {
	__u16 addresses[6];
	__u16 type;
};

struct ipv4 {
	__u8 version;
	__u8 service;
	__u16 length;
	__u16 id;
	__u16 fragment;
	__u8 ttl;
	__u8 protocol;
	__u16 checksum;
	__u32 source;
	__u32 destination;
};

/* How TCP and UDP begin. */
struct ports {
	__u16 source;
	__u16 destination;
};

/* The parser looks at so much: two bytes of magic number, then the version and what the packet is for, and three more. */
#define OURS 6
#define VERSION_AND_ECHO 0x13

/* All that is looked at but in echoes: the longest is UDP's header, of which the twin asks that it is whole. */
#define HEADERS (sizeof(struct ethernet) + sizeof(struct ipv4) + 8)

/* What the hash is over, in its order: the first HASHED bytes. */
struct tuple {
	__u32 source;
	__u32 destination;
	struct ports ports;
	__u8 protocol;
};

#define HASHED 13

/* CRC-32, reversed. The checksum is linear, so that eight entries make all. */
#define BIT(i, bit, entry) ((i) & (bit) ? (entry) : 0U)
#define ONE(i)                                                                                     \
	(BIT(i, 1, 0x77073096) ^ BIT(i, 2, 0xee0e612c) ^ BIT(i, 4, 0x076dc419) ^ BIT(i, 8, 0x0edb8832) ^ \
	 BIT(i, 16, 0x1db71064) ^ BIT(i, 32, 0x3b6e20c8) ^ BIT(i, 64, 0x76dc4190) ^ BIT(i, 128, 0xedb88320))
#define FOUR(i) ONE(i), ONE((i) + 1), ONE((i) + 2), ONE((i) + 3)
#define SIXTEEN(i) FOUR(i), FOUR((i) + 4), FOUR((i) + 8), FOUR((i) + 12)
#define SIXTY_FOUR(i) SIXTEEN(i), SIXTEEN((i) + 16), SIXTEEN((i) + 32), SIXTEEN((i) + 48)

static const __u32 crc_table[256] = { SIXTY_FOUR(0), SIXTY_FOUR(64), SIXTY_FOUR(128), SIXTY_FOUR(192) };

INLINE __u32 more(__u32 crc, __u8 byte)
{
	return crc_table[(crc ^ byte) & 0xff] ^ crc >> 8;
}

/* Of the connection, and of that plus the seed. */
INLINE __u32 hash(const struct tuple *by, __u32 seed)
{
	const __u8 *bytes = (const __u8 *)by;
	__u32 crc = ~0U, sum;

#pragma clang loop unroll(full)
	for (int i = 0; i < HASHED; i++)
		crc = more(crc, bytes[i]);
	sum = ~crc + seed;
	crc = ~0U;
#pragma clang loop unroll(full)
	for (int i = 24; i >= 0; i -= 8)
		crc = more(crc, sum >> i);
	return ~crc;
}

typedef __u32 __attribute__((may_alias)) word;

/*
 * The sum of the Internet over the header: 0xffff if its checksum is in place and right. Two bytes that are exchanged in
 * every word are exchanged in the sum, so that the order of this machine will do.
 */
INLINE __u16 sum(const struct ipv4 *ip)
{
	const word *words = (const word *)ip;
	__u64 sum = (__u64)words[0] + words[1] + words[2] + words[3] + words[4];

	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

/*
 * Of what goes to our port, is it an echo? To those switches do nothing, and it is half of all. Where the packet ends before
 * one can say, or does not begin as one of ours, it is for the twin to say.
 */
INLINE bool is_echo(const struct ethernet *ethernet, const void *end)
{
	const __u8 *payload = (const void *)ethernet + HEADERS;

	if ((const void *)payload + OURS > end)
		return 0;
	return payload[0] == 0x53 && payload[1] == 0x4c && payload[2] == VERSION_AND_ECHO;
}

/* One of a group's ways, by the hash; none if its bucket has no entry. */
INLINE const struct sluice_hop *choose(const struct sluice_route *route, __u32 generation, const struct tuple *by)
{
	struct sluice_member member = { .generation = generation, .group = route->group };

	member.bucket = hash(by, route->seed) % route->size;
	return bpf_map_lookup_elem(&sluice_members, &member);
}

SEC("classifier/forward")
int sluice_forward(struct __sk_buff *skb)
{
	__u32 length = skb->len, mtu = 0, zero = 0, port;
	struct sluice_prefix prefix = { .length = 64 };
	const struct sluice_plane *plane;
	const struct sluice_route *route;
	const struct sluice_hop *hop;
	struct sluice_count *count;
	struct ethernet *ethernet;
	const __u32 *interface;
	struct tuple by = {};
	struct ipv4 *ip;
	long dropped;
	void *end;

	plane = bpf_map_lookup_elem(&sluice_plane, &zero);
	if (!plane || skb->vlan_present)
		return LEAVE;
	/* Read once: half of a packet's way by other tables would be none that anybody wrote. */
	prefix.generation = READ_ONCE(plane->generation);
	if (!prefix.generation)
		return LEAVE;

	ethernet = (void *)(long)skb->data;
	end = (void *)(long)skb->data_end;
	if ((void *)ethernet + HEADERS > end) {
		/* Some of it may lie elsewhere; a frame may also be shorter. */
		if (bpf_skb_pull_data(skb, length < HEADERS ? length : HEADERS))
			return LEAVE;
		ethernet = (void *)(long)skb->data;
		end = (void *)(long)skb->data_end;
	}
	ip = (void *)(ethernet + 1);
	if ((void *)(ip + 1) > end || ethernet->type != ntohs(IPV4))
		return LEAVE;
	if (ip->version != PLAIN_HEADER || sum(ip) != 0xffff || ip->checksum == 0xffff || ip->ttl <= 1)
		return LEAVE;
	if (!(ntohs(ip->fragment) & FRAGMENT) && (ip->protocol == TCP || ip->protocol == UDP)) {
		const struct ports *ports = (void *)(ip + 1);

		if ((void *)(ports + 1) > end)
			return LEAVE;
		by.ports = *ports;
		if (ip->protocol == UDP && ((void *)ethernet + HEADERS > end ||
					    (ntohs(ports->destination) == plane->udp_port && !is_echo(ethernet, end))))
			return LEAVE;
	}

	prefix.address = ip->destination;
	route = bpf_map_lookup_elem(&sluice_routes, &prefix);
	if (!route)
		return LEAVE;
	hop = &route->hop;
	if (route->size) {
		by.source = ip->source;
		by.destination = ip->destination;
		by.protocol = ip->protocol;
		hop = choose(route, prefix.generation, &by);
		if (!hop)
			return LEAVE;
	}
	port = hop->port;
	interface = bpf_map_lookup_elem(&sluice_ports, &port);
	count = bpf_map_lookup_elem(&sluice_counts, &port);
	if (!interface || !*interface || !count)
		return LEAVE;
	/* Too large for the link is for the twin to find out; so is an interface that is gone. */
	if (bpf_check_mtu(skb, *interface, &mtu, 0, 0))
		return LEAVE;

	__builtin_memcpy(ethernet->addresses, hop->addresses, sizeof(hop->addresses));
	ip->ttl--;
	ip->checksum = 0;
	ip->checksum = ~sum(ip);

	/*
	 * A clone has no socket. Of a sender on this machine the packet would otherwise stay on its socket's account while it
	 * waits in our queue, and the sender would wait with it, which no sender behind a real switch does.
	 */
	dropped = bpf_clone_redirect(skb, *interface, 0);
	count->frames++;
	count->bytes += length;
	if (dropped)
		count->refused++;
	return DONE;
}
