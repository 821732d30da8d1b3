/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The one contract between the kernel programs and user space: every row, event and name that crosses the border.
 * src/abi.rs holds the same layouts; a test compares sizes and offsets. Rates are payload bytes per second, times are
 * CLOCK_MONOTONIC nanoseconds, addresses are 16 bytes in network order with IPv4 mapped into IPv6.
 */
#ifndef SLUICE_ABI_H
#define SLUICE_ABI_H

/* Number in the pin path. A change of any layout below raises it. */
#define SLUICE_ABI 4

#define SLUICE_CC_NAME_LEN 16

/* One order. Written by the daemon only, in the sequence gen = 0, rate, expiry, link, flags, gen. */
struct sluice_ctl {
	__u64 rate;
	__u64 expiry;
	/* An order for another generation than the row's present owner is void. */
	__u32 gen;
	/* SLUICE_CTL_* */
	__u32 flags;
	/* Tell when so many bytes have been acknowledged since the connection began; 0: never. Outside the sequence. */
	__u64 mark;
	/* For barriers only. */
	__u64 fence;
	/* With SLUICE_CTL_SURPLUS: what the flow may send in all. */
	__u64 link;
	__u64 reserved[2];
};

/* Give the socket back at its next ACK or send. */
#define SLUICE_CTL_RELEASE 1
/* The order is a floor: above it the flow may take what nobody else sends, as ordinary TCP does. */
#define SLUICE_CTL_SURPLUS 2

/* With that: only what is idle. A queue makes it give way. */
#define SLUICE_CTL_YIELDS 4

/* What a flow takes beyond its order. All of it is the hooks' own; others may look at `extra`. */
struct sluice_surplus {
	__u64 extra;
	/* The order and the extra when the path last lost something; 0: not known, or outgrown. */
	__u64 peak;
	/* What the last good order allows in all; 0: no more than its rate. */
	__u64 link;
	/* When it was last looked at, and how many segments had been lost by then. */
	__u64 looked;
	__u32 lost;
	/* The last look found a loss, or a queue to yield to. */
	__u16 cuts;
	/* What the last good order allows is what is idle. */
	__u16 yields;
};

/* What is known of one flow. Written by hooks only; `seq` is odd while a hook writes. */
struct sluice_stat {
	__u32 seq;
	/* Rises whenever the row changes hands; 0 only before its first use. */
	__u32 gen;
	__u64 cookie;
	__u64 acked;
	__u64 queued;
	__u64 delivery_rate;
	__u64 pacing_rate;
	__u64 last_ns;
	__u32 srtt_us;
	__u32 rtt_min_us;
	__u32 retransmitted;
	__u32 lost;
	__u32 delivered;
	__u32 cwnd;
	__u8 local[16];
	__u8 remote[16];
	__u16 local_port;
	__u16 remote_port;
	__u32 uid;
	/* SLUICE_STAT_* */
	__u32 flags;
	/* Low half of the last mark that was told. */
	__u32 told;
	/* Inode of the network namespace of the socket. */
	__u32 netns;
	/* The first sequence number that is not acknowledged, and the one that is expected next. */
	__u32 snd_una;
	/* For barriers only. */
	__u64 fence;
	__u32 rcv_nxt;
	/* Bytes of a segment's payload. */
	__u32 mss;
	struct sluice_surplus surplus;
};

/* A socket owns the row now. */
#define SLUICE_STAT_LIVE 1
/* The loss guard caps the pacing at the measured delivery. */
#define SLUICE_STAT_LOSS_GUARD 2
/* The path delivers far less than ordered and its queue grows: the window is cut. */
#define SLUICE_STAT_SQUEEZED 4
/* Every hand-over was refused: pacing is off and the program keeps a Reno window itself. */
#define SLUICE_STAT_RENO 8

/* One record of the ring buffer. */
struct sluice_event {
	/* SLUICE_EVENT_* */
	__u32 kind;
	__u32 index;
	__u32 gen;
	__u32 uid;
	__u64 cookie;
	__u64 time;
	__u8 local[16];
	__u8 remote[16];
	__u16 local_port;
	__u16 remote_port;
	/* Inode of the network namespace of the socket. */
	__u32 netns;
};

#define SLUICE_EVENT_OPENED 1
#define SLUICE_EVENT_CLOSED 2
#define SLUICE_EVENT_STARTED 3
#define SLUICE_EVENT_EXPIRED 4
#define SLUICE_EVENT_LOSS_GUARD 5
#define SLUICE_EVENT_RELEASED 6
#define SLUICE_EVENT_FINISHED 7

/* Written by the daemon; read by every program. */
struct sluice_cfg {
	__u64 floor;
	__u64 ceiling;
	/* An order that would live longer than this from now is garbage and void. */
	__u64 max_expiry;
	/* Silence after which a first send is reported as Started. */
	__u64 idle_ns;
	/* Least length of a loss window. */
	__u64 loss_window;
	/* A second trip of the loss guard within this time, with less than four fifths delivered, gives the socket back ... */
	__u64 loss_retrip;
	/* ... and keeps it plain for this long, twice as long with every further time. */
	__u64 loss_ban;
	/* Losses per 1000 delivered segments that trip the guard. */
	__u32 loss_permille;
	/* SLUICE_CFG_* */
	__u32 flags;
	/* Digest of the loaded programs. */
	__u64 digest;
	char cc_name[SLUICE_CC_NAME_LEN];
	/* Empty: each socket's own earlier control. */
	char release_to[SLUICE_CC_NAME_LEN];
	char system_default[SLUICE_CC_NAME_LEN];
	/* 1 when the queue of free rows has been filled. */
	__u32 ready;
	__u32 abi;
	/* The other name of this instance, whose sockets move over during an upgrade. */
	char other_name[SLUICE_CC_NAME_LEN];
	__u64 reserved;
};

/* Tier iii: pace by SO_MAX_PACING_RATE under the socket's own congestion control. */
#define SLUICE_CFG_SETSOCKOPT 1
/*
 * Tier iii on kernels that cannot ask for callbacks of a live socket: every new socket of the cgroups asks for them, so
 * that it can be paced later.
 */
#define SLUICE_CFG_CALLBACKS_EARLY 2

/* A socket that is to be managed, by its cookie, with its first order: never touched unless it is named here. */
struct sluice_wanted {
	__u64 rate;
	__u64 expiry;
};

/* Counters that only rise. */
struct sluice_counters {
	__u64 events_lost;
	__u64 table_full;
	/* Another program changed a managed socket's congestion control. */
	__u64 foreign;
	/* No congestion control of the chain took a socket. */
	__u64 refused;
	__u64 loss_trips;
	__u64 squeezes;
	__u64 captured;
	/* Losses, and queues to yield to, that halved what a flow took beyond its order. */
	__u64 surplus_cuts;
};

/* Kept with the socket itself, so it goes when the socket goes. */
struct sluice_sock {
	/* The congestion control it had before it was captured. */
	char earlier[SLUICE_CC_NAME_LEN];
	/* Not captured before this instant (loss guard); ~0: never (foreign change). */
	__u64 banned_until;
	/* The order that the next program that takes it begins with. */
	__u64 rate;
	__u64 rate_until;
	/* Tier iii only: its row. */
	__u32 index;
	__u32 gen;
	/* SLUICE_SOCK_* */
	__u32 flags;
	/* Times in short order that the loss guard gave it back. */
	__u32 bans;
	/* Tier iii only: the ceiling that the application has set, and the one that we have. */
	__u64 theirs;
	__u64 ours;
};

/* The change of congestion control that is under way is our own doing. */
#define SLUICE_SOCK_OURS 1
/* Tier iii: a pacing ceiling of ours is set. */
#define SLUICE_SOCK_CAPPED 2

/* It belongs to another instance, or somebody else has chosen its congestion control, or its pause is not over. */
#define SLUICE_NOT_OURS 1

/* One line of an iterator's answer. */
struct sluice_seen {
	__u8 local[16];
	__u8 remote[16];
	__u16 local_port;
	__u16 remote_port;
	__u32 uid;
	__u64 cookie;
	/* What the change returned: 0, SLUICE_NOT_OURS or a negative errno. */
	__s32 result;
	__u32 reserved;
};

#endif
