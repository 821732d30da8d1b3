// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Takes sockets and gives them back: the iterators capture the live sockets that are asked for by cookie, release and
 * lift those that have a row. For kernels that refuse the congestion control, the cgroup program also holds the order
 * itself, as a pacing ceiling under the socket's own congestion control, with the same dead man: an expired order lifts
 * the ceiling.
 */
#include "sluice_maps.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

#define UNLIMITED 0xffffffffU
#define CALLBACKS (BPF_SOCK_OPS_RTT_CB_FLAG | BPF_SOCK_OPS_STATE_CB_FLAG)

/* Puts a live socket under the congestion control, with its first order. Returns 0, SLUICE_NOT_OURS or an error. */
INLINE long capture(struct tcp_sock *tp, struct sluice_cfg *cfg, struct sluice_wanted *wanted, __u64 now)
{
	char present[SLUICE_CC_NAME_LEN] = {}, name[SLUICE_CC_NAME_LEN], other[SLUICE_CC_NAME_LEN];
	struct sluice_sock *own;
	__u32 row = 0;
	long result;

	if (bpf_getsockopt(tp, SOL_TCP, TCP_CONGESTION, present, sizeof(present)))
		return -EOPNOTSUPP;
	__builtin_memcpy(name, cfg->cc_name, sizeof(name));
	__builtin_memcpy(other, cfg->other_name, sizeof(other));
	if (same_name(present, name))
		return -EALREADY;
	/* Another instance's socket is its own. */
	if (is_sluice(present) && !same_name(present, other))
		return SLUICE_NOT_OURS;
	/* MPTCP subflows are watched, not managed. */
	if (field_exists(tp->is_mptcp) && tp->is_mptcp)
		return -EOPNOTSUPP;
	own = bpf_sk_storage_get(&sluice_socks, tp, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!own || own->banned_until > now)
		return SLUICE_NOT_OURS;
	if (bpf_map_peek_elem(&sluice_free, &row)) {
		COUNT_UP(table_full);
		return -ENOSPC;
	}
	if (!is_sluice(present))
		__builtin_memcpy(own->earlier, present, sizeof(present));
	/* A program of ours under another name says what the order was when it lets go. */
	own->flags |= SLUICE_SOCK_OURS;
	if (wanted) {
		own->rate = wanted->rate;
		own->rate_until = wanted->expiry;
	}
	result = bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, name, sizeof(name));
	if (result)
		own->flags &= ~SLUICE_SOCK_OURS;
	else
		COUNT_UP(captured);
	return result;
}

/* Sets our ceiling, never above the application's own; both are remembered. `sk`: the socket as the helper wants it. */
INLINE void set_ceiling(void *via, struct tcp_sock *tp, struct sluice_sock *own, __u64 rate)
{
	__u64 present = ((struct sock *)tp)->sk_max_pacing_rate;
	/* This helper takes exactly four bytes. */
	__u32 value;

	/* What is not ours the application has set meanwhile. */
	if (present != own->ours)
		own->theirs = present;
	if (rate > own->theirs)
		rate = own->theirs;
	value = rate >= UNLIMITED ? UNLIMITED : rate;
	if (!bpf_setsockopt(via, SOL_SOCKET, SO_MAX_PACING_RATE, &value, sizeof(value)))
		own->ours = ((struct sock *)tp)->sk_max_pacing_rate;
}

/* Tier iii: gives a live socket a row and its first order as its ceiling. */
INLINE long cap(struct tcp_sock *tp, struct sluice_cfg *cfg, struct sluice_wanted *wanted, __u64 now)
{
	struct sluice_sock *own = bpf_sk_storage_get(&sluice_socks, tp, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	__u32 index = 0, gen, present = tp->bpf_sock_ops_cb_flags;
	__u64 theirs = ((struct sock *)tp)->sk_max_pacing_rate;
	int flags = present | CALLBACKS;

	if (!own || own->banned_until > now)
		return SLUICE_NOT_OURS;
	if (own->gen)
		return -EALREADY;
	/* The helper takes 32 bits: a ceiling of the application's beyond them could not be given back. */
	if (theirs >= UNLIMITED && theirs != ~0ULL)
		return -EOPNOTSUPP;
	if ((present & CALLBACKS) != CALLBACKS &&
	    bpf_setsockopt(tp, SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &flags, sizeof(flags)))
		return -EOPNOTSUPP;
	gen = take_row(tp, &index, clamp_rate(cfg, wanted->rate), now);
	if (!gen) {
		COUNT_UP(table_full);
		return -ENOSPC;
	}
	own->index = index;
	own->gen = gen;
	own->rate = clamp_rate(cfg, wanted->rate);
	own->rate_until = wanted->expiry;
	own->flags = SLUICE_SOCK_CAPPED;
	own->theirs = theirs;
	own->ours = theirs;
	set_ceiling(tp, tp, own, own->rate);
	COUNT_UP(captured);
	tell(tp, SLUICE_EVENT_OPENED, index, gen);
	return 0;
}

/*
 * Tier iii: applies the order of a capped socket, or lifts the ceiling if it has expired. Returns what happened as an
 * event kind, 0 for nothing. `force` also lifts a good order.
 */
INLINE __u32 follow(void *via, struct tcp_sock *tp, struct sluice_sock *own, struct sluice_cfg *cfg, __u64 now, bool force)
{
	struct sluice_stat *row;
	struct order order = { own->rate, own->rate_until, 0, 0 };
	__u64 rate;
	__u32 index = own->index, kind = 0;
	enum order_state state;

	row = bpf_map_lookup_elem(&sluice_stat, &index);
	if (!row)
		return 0;
	state = read_order(cfg, index, own->gen, now, &order);
	if (force || state == ORDER_RELEASE)
		kind = SLUICE_EVENT_RELEASED;
	else if (now > order.expiry || row->gen != own->gen)
		kind = SLUICE_EVENT_EXPIRED;
	if (kind) {
		/* Back to what the application has. */
		set_ceiling(via, tp, own, ~0ULL);
		free_row(index, own->gen);
		own->flags = 0;
		return kind;
	}
	own->rate_until = order.expiry;
	/* A ceiling has no floor under it: what the order allows beyond its rate is the congestion control's alone. */
	rate = clamp_rate(cfg, order.rate);
	if (rate != own->rate) {
		own->rate = rate;
		set_ceiling(via, tp, own, rate);
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
	kind = follow(ctx, tp, own, cfg, now, 0);
	if (kind) {
		own->gen = 0;
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

/* Tier iii only. Looks at the sockets that have a row, and leaves all others alone. */
SEC("sockops/pace")
int sluice_pace(struct bpf_sock_ops *ctx)
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
	/* Where live sockets cannot ask for callbacks: beside those that others have asked for. */
	if (cfg->flags & SLUICE_CFG_CALLBACKS_EARLY)
		bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags | CALLBACKS);
	return 1;
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

		kind = follow(tp, tp, own, cfg, now, !expired_only);
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
		struct order order = { 0, tp->inet_conn.icsk_ca_priv[3], 0, 0 };

		read_order(cfg, index, gen, now, &order);
		if (now <= order.expiry)
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

/* Captures the live sockets that are asked for. */
SEC("iter/capture")
int sluice_capture(struct bpf_iter__tcp *ctx)
{
	struct tcp_sock *tp = live(ctx);
	struct sluice_cfg *cfg = config();
	struct sluice_wanted *wanted;
	__u64 cookie, now;
	long result;

	if (!tp || !cfg)
		return 0;
	cookie = ((struct sock *)tp)->__sk_common.skc_cookie.counter;
	wanted = cookie ? bpf_map_lookup_elem(&sluice_wanted, &cookie) : NULL;
	if (!wanted)
		return 0;
	now = bpf_ktime_get_ns();
	/* Where many want to run a pass comes late, or after whoever began it was killed: what would expire at once stays plain. */
	if (now > wanted->expiry)
		result = -ETIME;
	else if (cfg->flags & SLUICE_CFG_SETSOCKOPT)
		result = cap(tp, cfg, wanted, now);
	else
		result = capture(tp, cfg, wanted, now);
	report(ctx, tp, result);
	return 0;
}

/* Takes over those that an earlier program of this instance has, under its other name, with their orders. */
SEC("iter/take_over")
int sluice_take_over(struct bpf_iter__tcp *ctx)
{
	char present[SLUICE_CC_NAME_LEN] = {}, other[SLUICE_CC_NAME_LEN];
	struct tcp_sock *tp = live(ctx);
	struct sluice_cfg *cfg = config();

	if (!tp || !cfg || cfg->flags & SLUICE_CFG_SETSOCKOPT)
		return 0;
	if (bpf_getsockopt(tp, SOL_TCP, TCP_CONGESTION, present, sizeof(present)))
		return 0;
	__builtin_memcpy(other, cfg->other_name, sizeof(other));
	if (!same_name(present, other))
		return 0;
	/*
	 * Its order is told through the storage that both programs share. Without it (pins that are out of sight) it would
	 * be paced at the floor: it keeps its last order where it is, until it is captured with a new one or that ends.
	 */
	if (!bpf_sk_storage_get(&sluice_socks, tp, NULL, 0))
		return 0;
	report(ctx, tp, capture(tp, cfg, NULL, bpf_ktime_get_ns()));
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
