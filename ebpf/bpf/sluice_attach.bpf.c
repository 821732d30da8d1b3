// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Which sockets are managed: the cgroup program captures new ones, the iterators capture, release and lift live ones.
 * For kernels that refuse the congestion control, the cgroup program also holds the order itself, as a pacing ceiling
 * under the socket's own congestion control, with the same dead man: an expired order lifts the ceiling.
 */
#include "sluice_maps.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define UNLIMITED 0xffffffffU

/* May a socket with these ends be captured? */
INLINE bool allowed(struct sluice_cfg *cfg, struct tcp_sock *tp)
{
	struct sluice_seen ends = {};
	struct sluice_prefix prefix = { .len = 128 };
	__u32 local, remote, *of_local, *of_remote;

	IDENTIFY(&ends, tp);
	local = ends.local_port;
	remote = ends.remote_port;
	of_local = bpf_map_lookup_elem(&sluice_ports, &local);
	of_remote = bpf_map_lookup_elem(&sluice_ports, &remote);
	if ((of_local && *of_local == SLUICE_PORT_EXCLUDED) || (of_remote && *of_remote == SLUICE_PORT_EXCLUDED))
		return 0;
	if (cfg->flags & SLUICE_CFG_ONLY_PORTS && !of_local && !of_remote)
		return 0;
	if (cfg->flags & SLUICE_CFG_PEERS) {
		__builtin_memcpy(prefix.address, ends.remote, 16);
		if (!bpf_map_lookup_elem(&sluice_peers, &prefix))
			return 0;
	}
	return 1;
}

/* `sk` is the socket itself, `via` what the setsockopt helper of this kind of program wants. */
INLINE long capture(void *via, void *sk, struct sluice_cfg *cfg, __u64 now)
{
	char present[SLUICE_CC_NAME_LEN] = {}, name[SLUICE_CC_NAME_LEN], other[SLUICE_CC_NAME_LEN];
	struct sluice_sock *own;
	long result;

	if (bpf_getsockopt(via, SOL_TCP, TCP_CONGESTION, present, sizeof(present)))
		return -1;
	__builtin_memcpy(name, cfg->cc_name, sizeof(name));
	__builtin_memcpy(other, cfg->other_name, sizeof(other));
	/* Another instance's socket is its own. */
	if (same_name(present, name) || (is_sluice(present) && !same_name(present, other)))
		return 1;
	own = bpf_sk_storage_get(&sluice_socks, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!own || own->banned_until > now)
		return 1;
	if (is_sluice(present))
		/* A program of ours under another name lets go of it. */
		own->flags |= SLUICE_SOCK_OURS;
	else
		__builtin_memcpy(own->earlier, present, sizeof(present));
	result = bpf_setsockopt(via, SOL_TCP, TCP_CONGESTION, name, sizeof(name));
	if (result)
		own->flags &= ~SLUICE_SOCK_OURS;
	else
		COUNT_UP(captured);
	return result;
}

INLINE long set_ceiling(void *via, __u64 rate)
{
	/* This helper takes exactly four bytes. */
	__u32 value = rate >= UNLIMITED ? UNLIMITED : rate;

	return bpf_setsockopt(via, SOL_SOCKET, SO_MAX_PACING_RATE, &value, sizeof(value));
}

/* Tier iii: gives a new socket a row and the default rate as its ceiling. */
INLINE void cap_new(struct bpf_sock_ops *ctx, struct bpf_sock *sk, struct tcp_sock *tp, struct sluice_cfg *cfg, __u64 now)
{
	struct sluice_sock *own = bpf_sk_storage_get(&sluice_socks, sk, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	__u64 rate = clamp_rate(cfg, cfg->default_rate);
	__u32 index = 0, gen;

	if (!own || own->gen)
		return;
	gen = take_row(tp, &index, rate, now);
	if (!gen) {
		COUNT_UP(table_full);
		tell(tp, SLUICE_EVENT_TABLE_FULL, 0, 0);
		return;
	}
	own->index = index;
	own->gen = gen;
	own->rate = rate;
	own->rate_until = now + cfg->order_lifetime;
	own->flags = SLUICE_SOCK_CAPPED;
	bpf_sock_ops_cb_flags_set(ctx, BPF_SOCK_OPS_RTT_CB_FLAG | BPF_SOCK_OPS_STATE_CB_FLAG);
	set_ceiling(ctx, rate);
	COUNT_UP(captured);
	tell(tp, SLUICE_EVENT_OPENED, index, gen);
}

/*
 * Tier iii: applies the order of a capped socket, or lifts the ceiling if it has expired. Returns what happened as an
 * event kind, 0 for nothing. `force` also lifts a good order.
 */
INLINE __u32 follow(void *via, struct sluice_sock *own, struct sluice_cfg *cfg, __u64 now, bool force)
{
	struct sluice_stat *row;
	__u64 rate = own->rate, until = own->rate_until;
	__u32 index = own->index, kind = 0;
	enum order_state state;

	row = bpf_map_lookup_elem(&sluice_stat, &index);
	if (!row)
		return 0;
	state = read_order(cfg, index, own->gen, now, &rate, &until);
	if (force || state == ORDER_RELEASE)
		kind = SLUICE_EVENT_RELEASED;
	else if (now > until || row->gen != own->gen)
		kind = SLUICE_EVENT_EXPIRED;
	if (kind) {
		set_ceiling(via, UNLIMITED);
		free_row(index, own->gen);
		own->flags = 0;
		return kind;
	}
	own->rate_until = until;
	rate = clamp_rate(cfg, rate);
	if (rate != own->rate) {
		own->rate = rate;
		set_ceiling(via, rate);
	}
	return 0;
}

INLINE void on_rtt(struct bpf_sock_ops *ctx, struct bpf_sock *sk, struct tcp_sock *tp, struct sluice_cfg *cfg, __u64 now)
{
	struct sluice_sock *own = bpf_sk_storage_get(&sluice_socks, sk, NULL, 0);
	struct sluice_stat *row;
	__u32 index, gen, kind;
	__u64 delivery = 0, last;

	if (!own || !own->gen || !(own->flags & SLUICE_SOCK_CAPPED))
		return;
	index = own->index;
	gen = own->gen;
	kind = follow(ctx, own, cfg, now, 0);
	if (kind) {
		own->gen = 0;
		bpf_sock_ops_cb_flags_set(ctx, 0);
		tell(tp, kind, index, gen);
		return;
	}
	row = bpf_map_lookup_elem(&sluice_stat, &index);
	if (!row)
		return;
	last = row->last_ns;
	if (tp->rate_interval_us)
		delivery = (__u64)tp->rate_delivered * tp->mss_cache * 1000000 / tp->rate_interval_us;
	write_row(row, tp, delivery, own->rate, now, 0);
	if (now - last >= cfg->idle_ns && now - last > (__u64)(tp->srtt_us >> 3) * 2000)
		tell(tp, SLUICE_EVENT_STARTED, index, gen);
}

SEC("sockops/capture")
int sluice_capture(struct bpf_sock_ops *ctx)
{
	struct sluice_cfg *cfg = config();
	struct sluice_sock *own;
	struct bpf_sock *sk;
	struct tcp_sock *tp;
	__u64 now;
	__u32 op = ctx->op;

	if (!cfg || !ctx->is_fullsock)
		return 1;
	sk = ctx->sk;
	if (!sk)
		return 1;
	if (op != BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB && op != BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB &&
	    op != BPF_SOCK_OPS_RTT_CB && op != BPF_SOCK_OPS_STATE_CB)
		return 1;
	tp = bpf_skc_to_tcp_sock(sk);
	if (!tp)
		return 1;
	now = bpf_ktime_get_ns();
	if (op == BPF_SOCK_OPS_RTT_CB) {
		on_rtt(ctx, sk, tp, cfg, now);
		return 1;
	}
	if (op == BPF_SOCK_OPS_STATE_CB) {
		own = bpf_sk_storage_get(&sluice_socks, sk, NULL, 0);
		if (ctx->args[1] == TCP_CLOSE && own && own->gen) {
			free_row(own->index, own->gen);
			tell(tp, SLUICE_EVENT_CLOSED, own->index, own->gen);
			own->gen = 0;
		}
		return 1;
	}
	if (now > cfg->capture_until || !allowed(cfg, tp))
		return 1;
	/* Makes the cookie, which the other programs can only read. */
	bpf_get_socket_cookie(ctx);
	if (cfg->flags & SLUICE_CFG_SETSOCKOPT)
		cap_new(ctx, sk, tp, cfg, now);
	else
		capture(ctx, sk, cfg, now);
	return 1;
}

/* Is the socket in one of the managed cgroups or below? */
INLINE bool in_cgroup(struct tcp_sock *tp)
{
	struct cgroup_subsys_state *css;
	struct cgroup *group = ((struct sock *)tp)->sk_cgrp_data.cgroup;

#pragma clang loop unroll(full)
	for (int depth = 0; depth < 12; depth++) {
		__u64 id;

		if (!group)
			return 0;
		id = group->kn->id;
		if (bpf_map_lookup_elem(&sluice_cgroups, &id))
			return 1;
		css = group->self.parent;
		if (!css)
			return 0;
		group = css->cgroup;
	}
	return 0;
}

INLINE void report(struct bpf_iter__tcp *ctx, struct tcp_sock *tp, long result)
{
	struct sluice_seen seen = {};

	IDENTIFY(&seen, tp);
	seen.result = result;
	bpf_seq_write(ctx->meta->seq, &seen, sizeof(seen));
}

INLINE struct tcp_sock *live(struct bpf_iter__tcp *ctx)
{
	struct sock_common *skc = ctx->sk_common;
	__u8 state;

	if (!skc)
		return NULL;
	state = skc->skc_state;
	if (state != TCP_ESTABLISHED && state != TCP_CLOSE_WAIT)
		return NULL;
	return bpf_skc_to_tcp_sock(skc);
}

/* Gives a live socket back to what it had before; returns 1 if it is not ours. */
INLINE long give_back(struct tcp_sock *tp, struct sluice_cfg *cfg, bool expired_only, __u64 now)
{
	char present[SLUICE_CC_NAME_LEN] = {}, name[SLUICE_CC_NAME_LEN], reno[SLUICE_CC_NAME_LEN];
	struct sluice_sock *own;
	long result;

	own = bpf_sk_storage_get(&sluice_socks, tp, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (own && own->flags & SLUICE_SOCK_CAPPED) {
		__u32 index = own->index, gen = own->gen, kind;

		kind = follow(tp, own, cfg, now, !expired_only);
		if (!kind)
			return 1;
		own->gen = 0;
		tell(tp, kind, index, gen);
		return 0;
	}
	if (bpf_getsockopt(tp, SOL_TCP, TCP_CONGESTION, present, sizeof(present)))
		return 1;
	__builtin_memcpy(name, cfg->cc_name, sizeof(name));
	if (!same_name(present, name))
		return 1;
	if (expired_only) {
		/* The private area begins with index and generation, the last good order follows. */
		__u32 index = tp->inet_conn.icsk_ca_priv[0] & 0xffffffff, gen = tp->inet_conn.icsk_ca_priv[0] >> 32;
		__u64 rate = 0, until = tp->inet_conn.icsk_ca_priv[3];

		read_order(cfg, index, gen, now, &rate, &until);
		if (now <= until)
			return 1;
	}
	if (own)
		own->flags |= SLUICE_SOCK_OURS;
	result = -1;
	if (cfg->release_to[0]) {
		__builtin_memcpy(name, cfg->release_to, sizeof(name));
		result = bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, name, sizeof(name));
	}
	if (result && own && own->earlier[0]) {
		__builtin_memcpy(name, own->earlier, sizeof(name));
		result = bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, name, sizeof(name));
	}
	if (result) {
		__builtin_memcpy(name, cfg->system_default, sizeof(name));
		if (!is_sluice(name))
			result = bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, name, sizeof(name));
	}
	name_reno(reno);
	if (result)
		result = bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, reno, sizeof(reno));
	if (own)
		own->flags &= ~SLUICE_SOCK_OURS;
	return result;
}

/* Captures live sockets of the managed cgroups that are plain. */
SEC("iter/adopt")
int sluice_adopt(struct bpf_iter__tcp *ctx)
{
	struct tcp_sock *tp = live(ctx);
	struct sluice_cfg *cfg = config();
	__u64 now = bpf_ktime_get_ns();
	long result;

	if (!tp || !cfg || cfg->flags & SLUICE_CFG_SETSOCKOPT || now > cfg->capture_until)
		return 0;
	if (!in_cgroup(tp) || !allowed(cfg, tp))
		return 0;
	result = capture(tp, tp, cfg, now);
	if (result <= 0)
		report(ctx, tp, result);
	return 0;
}

/* Gives every socket of ours back. */
SEC("iter/drain")
int sluice_drain(struct bpf_iter__tcp *ctx)
{
	struct tcp_sock *tp = live(ctx);
	struct sluice_cfg *cfg = config();
	long result;

	if (!tp || !cfg)
		return 0;
	result = give_back(tp, cfg, 0, bpf_ktime_get_ns());
	if (result <= 0)
		report(ctx, tp, result);
	return 0;
}

/* Gives back those whose order has expired and that have no traffic which would do it. */
SEC("iter/sweep")
int sluice_sweep(struct bpf_iter__tcp *ctx)
{
	struct tcp_sock *tp = live(ctx);
	struct sluice_cfg *cfg = config();
	long result;

	if (!tp || !cfg)
		return 0;
	result = give_back(tp, cfg, 1, bpf_ktime_get_ns());
	if (result <= 0)
		report(ctx, tp, result);
	return 0;
}
