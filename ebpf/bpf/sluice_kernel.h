/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the programs need of the kernel: the fields they touch (offsets are relocated at load time), context layouts,
 * helper numbers. Takes the place of a generated vmlinux.h; nothing here depends on headers of the build machine.
 */
#ifndef SLUICE_KERNEL_H
#define SLUICE_KERNEL_H

typedef unsigned char __u8;
typedef signed char __s8;
typedef unsigned short __u16;
typedef short __s16;
typedef unsigned int __u32;
typedef int __s32;
typedef unsigned long long __u64;
typedef long long __s64;
typedef _Bool bool;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))
#define NULL ((void *)0)
#define VALUE(type, name) type *name
#define COUNT(number, name) int (*name)[number]
#define READ_ONCE(x) (*(volatile __typeof__(x) *)&(x))
#define WRITE_ONCE(x, v) (*(volatile __typeof__(x) *)&(x) = (v))
#define barrier() __asm__ volatile("" ::: "memory")

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define ntohs(x) __builtin_bswap16(x)
#else
#define ntohs(x) (x)
#endif

/* Does the running kernel have this field? */
#define field_exists(field) __builtin_preserve_field_info(field, 2)

#define BPF_MAP_TYPE_HASH 1
#define BPF_MAP_TYPE_ARRAY 2
#define BPF_MAP_TYPE_QUEUE 22
#define BPF_MAP_TYPE_SK_STORAGE 24
#define BPF_MAP_TYPE_RINGBUF 27
#define BPF_F_NO_PREALLOC (1U << 0)
#define BPF_F_MMAPABLE (1U << 10)
#define BPF_SK_STORAGE_GET_F_CREATE 1

#define BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB 4
#define BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB 5
#define BPF_SOCK_OPS_STATE_CB 10
#define BPF_SOCK_OPS_RTT_CB 12
#define BPF_SOCK_OPS_STATE_CB_FLAG 4
#define BPF_SOCK_OPS_RTT_CB_FLAG 8

#define AF_INET 2
#define AF_INET6 10
#define SOL_SOCKET 1
#define SO_MAX_PACING_RATE 47
#define SOL_TCP 6
#define TCP_CONGESTION 13
#define TCP_BPF_SOCK_OPS_CB_FLAGS 1008

#define ENOSPC 28
#define ETIME 62
#define EALREADY 114
#define EOPNOTSUPP 95

#define SK_PACING_NONE 0
#define SK_PACING_NEEDED 1

enum tcp_state { TCP_ESTABLISHED = 1, TCP_CLOSE = 7, TCP_CLOSE_WAIT = 8 };
enum tcp_ca_state_name { TCP_CA_OPEN, TCP_CA_DISORDER, TCP_CA_CWR, TCP_CA_RECOVERY, TCP_CA_LOSS };
enum tcp_ca_event_name { CA_EVENT_TX_START, CA_EVENT_CWND_RESTART, CA_EVENT_COMPLETE_CWR, CA_EVENT_LOSS };

#define KERNEL __attribute__((preserve_access_index))

/* x86's. Only asked whether it has this register. */
struct pt_regs {
	unsigned long orig_ax;
} KERNEL;

struct in6_addr {
	union {
		__u32 u6_addr32[4];
	} in6_u;
} KERNEL;

typedef struct {
	__s64 counter;
} atomic64_t;

struct ns_common {
	__u32 inum;
} KERNEL;

struct net {
	struct ns_common ns;
} KERNEL;

typedef struct {
	struct net *net;
} possible_net_t;

struct sock_common {
	__u32 skc_daddr;
	__u32 skc_rcv_saddr;
	__u16 skc_dport;
	__u16 skc_num;
	__u16 skc_family;
	volatile __u8 skc_state;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
	possible_net_t skc_net;
	atomic64_t skc_cookie;
} KERNEL;

typedef struct {
	__u32 val;
} kuid_t;

struct sock {
	struct sock_common __sk_common;
	__u32 sk_pacing_status;
	unsigned long sk_pacing_rate;
	unsigned long sk_max_pacing_rate;
	kuid_t sk_uid;
} KERNEL;

struct inet_connection_sock {
	__u64 icsk_ca_priv[13];
} KERNEL;

struct minmax_sample {
	__u32 t;
	__u32 v;
};

struct minmax {
	struct minmax_sample s[3];
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u64 bytes_acked;
	__u64 tcp_mstamp;
	__u32 snd_una;
	__u32 rcv_nxt;
	__u32 write_seq;
	__u32 mss_cache;
	__u32 srtt_us;
	struct minmax rtt_min;
	__u32 packets_out;
	__u32 retrans_out;
	__u32 sacked_out;
	__u32 lost_out;
	__u32 total_retrans;
	__u32 lost;
	__u32 delivered;
	__u32 data_segs_out;
	__u32 snd_cwnd;
	__u32 snd_cwnd_clamp;
	__u32 snd_ssthresh;
	__u32 rate_delivered;
	__u32 rate_interval_us;
	bool is_mptcp;
	__u8 bpf_sock_ops_cb_flags;
} KERNEL;

struct rate_sample {
	__s32 delivered;
	long interval_us;
	long rtt_us;
	int losses;
	__u32 acked_sacked;
	bool is_app_limited;
	bool is_ack_delayed;
} KERNEL;

struct seq_file;
struct bpf_iter_meta {
	struct seq_file *seq;
} KERNEL;

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
} KERNEL;

struct bpf_sock;

/* Fixed by the user-space ABI of the kernel; only the part up to the socket. */
struct bpf_sock_ops {
	__u32 op;
	__u32 args[4];
	__u32 family;
	__u32 addresses[10];
	__u32 remote_port;
	__u32 local_port;
	__u32 is_fullsock;
	__u32 snd_cwnd;
	__u32 srtt_us;
	__u32 bpf_sock_ops_cb_flags;
	__u32 state;
	__u32 rtt_min;
	__u32 unused[18];
	__u64 bytes_received;
	__u64 bytes_acked;
	struct bpf_sock *sk;
};

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static __u64 (*bpf_ktime_get_ns)(void) = (void *)5;
static long (*bpf_setsockopt)(void *sk, int level, int name, void *value, int len) = (void *)49;
static long (*bpf_getsockopt)(void *sk, int level, int name, void *value, int len) = (void *)57;
static long (*bpf_sock_ops_cb_flags_set)(struct bpf_sock_ops *ctx, int flags) = (void *)59;
static long (*bpf_map_push_elem)(void *map, const void *value, __u64 flags) = (void *)87;
static long (*bpf_map_pop_elem)(void *map, void *value) = (void *)88;
static long (*bpf_map_peek_elem)(void *map, void *value) = (void *)89;
static void *(*bpf_sk_storage_get)(void *map, void *sk, void *value, __u64 flags) = (void *)107;
static long (*bpf_seq_write)(struct seq_file *seq, const void *data, __u32 len) = (void *)127;
static long (*bpf_ringbuf_output)(void *ring, void *data, __u64 size, __u64 flags) = (void *)130;
static struct tcp_sock *(*bpf_skc_to_tcp_sock)(void *sk) = (void *)137;

#endif
