// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * The congestion control "sluice": paces each socket at the rate its order says. It decides nothing. It guards the
 * flow against a daemon that is wrong, late or dead: floor, ceiling, expiry of each order, loss guard.
 *
 * One program per member of struct tcp_congestion_ops, in sections that aya-obj accepts; the loader ignores the part
 * before the slash. Everything is inlined, so that no function information has to be loaded.
 */
#include "sluice_maps.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* Bounds of the private area are those of icsk_ca_priv: 104 bytes. */
struct flow {
	__u32 index;
	/* Generation of the row; 0: it has none. */
	__u32 gen;
	__u32 flags;
	/* Acknowledgements in a row that showed a growing queue. */
	__u32 bad;
	/* The last good order. */
	__u64 rate;
	__u64 expiry;
	/* Loss guard: bytes/s, 0 when it sleeps. */
	__u64 cap;
	__u64 cap_ns;
	__u64 trip_ns;
	/* Loss window. */
	__u64 win_ns;
	__u32 win_lost;
	__u32 win_delivered;
	/* When the queue began to grow, in microseconds; in the in-program mode: until when losses are answered. */
	__u32 bad_us;
	/* Delivery window: acknowledged bytes at its start, mod 2^32, and its start. */
	__u32 dlv_acked;
	__u64 dlv_ns;
	__u64 last_ns;
	/* Segments in flight when the window froze. */
	__u32 frozen;
	/* In-program mode: segments acknowledged towards the next increase. */
	__u32 reno_count;
};
_Static_assert(sizeof(struct flow) <= 104, "struct flow must fit into icsk_ca_priv");

#define FLOW_HANDING 1
#define FLOW_RENO 2
#define FLOW_PACING_OURS 4
/* Everything written was acknowledged: silence from here on is the application's, not the pacing's. */
#define FLOW_EMPTY 8

#define MIN_CWND 4U
#define MILLISECOND 1000000ULL

INLINE struct flow *flow_of(struct tcp_sock *tp)
{
	return (struct flow *)tp->inet_conn.icsk_ca_priv;
}

INLINE __u32 in_flight(struct tcp_sock *tp)
{
	return tp->packets_out - (tp->sacked_out + tp->lost_out) + tp->retrans_out;
}

INLINE __u64 max_u64(__u64 a, __u64 b)
{
	return a > b ? a : b;
}

INLINE void set_pacing(struct tcp_sock *tp, __u64 rate)
{
	struct sock *sk = (struct sock *)tp;

	/* An application's own ceiling stands. */
	if (rate > sk->sk_max_pacing_rate)
		rate = sk->sk_max_pacing_rate;
	sk->sk_pacing_rate = rate;
}

/*
 * Segments that keep `rate` going, twice over, and beside them what it moves in ten milliseconds, 64 at most, for late
 * acknowledgements. A fixed 64 would let the kernel send a slow flow's next 64 KiB in one burst and then be silent: on
 * paths of a few microseconds it adds up to gso_max_size to every burst, whatever tcp_tso_rtt_log says.
 */
INLINE __u32 window(struct tcp_sock *tp, struct flow *flow, __u64 rate)
{
	__u64 rtt = tp->srtt_us >> 3, cwnd, room;
	__u32 mss = tp->mss_cache;

	if (rtt > 1000000)
		rtt = 1000000;
	if (!mss)
		mss = 536;
	room = rate / 100 / mss;
	if (room > 64)
		room = 64;
	if (room < MIN_CWND)
		room = MIN_CWND;
	cwnd = rate * 2 * rtt / 1000000 / mss + room;
	if (flow->frozen && cwnd > flow->frozen)
		cwnd = flow->frozen;
	if (cwnd > tp->snd_cwnd_clamp)
		cwnd = tp->snd_cwnd_clamp;
	if (cwnd < MIN_CWND)
		cwnd = MIN_CWND;
	return cwnd;
}

INLINE long change_to(struct tcp_sock *tp, const char *name)
{
	char copy[SLUICE_CC_NAME_LEN];

	if (!name[0] || is_sluice(name))
		return -1;
	__builtin_memcpy(copy, name, sizeof(copy));
	return bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, copy, sizeof(copy));
}

/*
 * Gives the live socket to ordinary congestion control. Our release program runs inside the call and frees the row, so
 * nothing of `flow` may be used afterwards unless every choice was refused.
 */
INLINE void hand_over(struct tcp_sock *tp, struct flow *flow, struct sluice_cfg *cfg, __u32 why)
{
	struct sluice_sock *own = bpf_sk_storage_get(&sluice_socks, tp, NULL, 0);
	char reno[SLUICE_CC_NAME_LEN];
	__u32 index = flow->index, gen = flow->gen;
	__u64 now = bpf_ktime_get_ns();

	if (flow->flags & FLOW_RENO)
		return;
	name_reno(reno);
	if (own && cfg && why == SLUICE_EVENT_LOSS_GUARD)
		own->banned_until = now + cfg->loss_ban;
	flow->flags |= FLOW_HANDING;
	if ((!cfg || change_to(tp, cfg->release_to)) && (!own || change_to(tp, own->earlier)) &&
	    (!cfg || change_to(tp, cfg->system_default)) &&
	    bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, reno, sizeof(reno))) {
		struct sluice_stat *row = bpf_map_lookup_elem(&sluice_stat, &index);
		struct sock *sk = (struct sock *)tp;

		/* Nobody takes it: keep it alive here, unpaced, with a window that answers loss. */
		flow->flags = (flow->flags & ~FLOW_HANDING) | FLOW_RENO;
		flow->bad_us = now / 1000;
		flow->reno_count = 0;
		sk->sk_pacing_rate = ~0UL;
		if (flow->flags & FLOW_PACING_OURS)
			sk->sk_pacing_status = SK_PACING_NONE;
		tp->snd_cwnd = in_flight(tp) + 10;
		if (row && row->gen == gen)
			row->flags |= SLUICE_STAT_RENO;
		COUNT_UP(refused);
	}
	tell(tp, why, index, gen);
}

/* In-program mode: slow start, one segment per round trip, half after a loss. */
INLINE void reno(struct tcp_sock *tp, struct flow *flow, __u32 losses, __u32 acked, __u64 now)
{
	__u32 cwnd = tp->snd_cwnd;

	if (losses && (__s32)((__u32)(now / 1000) - flow->bad_us) > 0) {
		cwnd = cwnd / 2 > MIN_CWND ? cwnd / 2 : MIN_CWND;
		tp->snd_ssthresh = cwnd;
		tp->snd_cwnd = cwnd;
		flow->reno_count = 0;
		flow->bad_us = now / 1000 + (tp->srtt_us >> 3);
	} else if (cwnd < tp->snd_ssthresh) {
		tp->snd_cwnd = cwnd + acked;
	} else {
		flow->reno_count += acked;
		if (flow->reno_count >= cwnd) {
			flow->reno_count -= cwnd;
			tp->snd_cwnd = cwnd + 1;
		}
	}
	((struct sock *)tp)->sk_pacing_rate = ~0UL;
}

/* Counts the losses of one window; true if the guard trips for the second time in short order. */
INLINE bool loss_guard(struct tcp_sock *tp, struct flow *flow, struct sluice_cfg *cfg, __u64 now, __u64 order)
{
	__u64 least = max_u64((__u64)(tp->srtt_us >> 3) * 2000, cfg->loss_window), elapsed;
	__u32 lost, delivered;

	if ((__s64)(now - flow->win_ns) < (__s64)least)
		return 0;
	elapsed = now - flow->win_ns;
	lost = tp->lost - flow->win_lost;
	delivered = tp->delivered - flow->win_delivered;
	/* A window of few segments says nothing: one random loss in seven is not a full queue. */
	if (lost + delivered < 64)
		return 0;
	flow->win_ns = now;
	flow->win_lost = tp->lost;
	flow->win_delivered = tp->delivered;
	if (lost >= 8 && (__u64)lost * 1000 > (__u64)delivered * cfg->loss_permille) {
		if (flow->trip_ns && now - flow->trip_ns < cfg->loss_retrip)
			return 1;
		flow->trip_ns = now;
		flow->cap_ns = now;
		flow->cap = max_u64((__u64)delivered * tp->mss_cache * 1000000 / (elapsed / 1000 + 1), cfg->floor);
		/* What was sent before the cap is still being lost: the next window begins after it. */
		flow->win_ns = now + least;
		COUNT_UP(loss_trips);
	} else if (flow->cap && now - flow->cap_ns > 1000 * MILLISECOND) {
		flow->cap += flow->cap / 16;
		if (flow->cap >= order)
			flow->cap = 0;
	}
	return 0;
}

/*
 * Where an order is more than the path carries, the queue grows before anything is lost. Two milliseconds of
 * acknowledgements that all show a longer queue and too little delivery freeze the window at what is in flight; it
 * thaws as soon as one acknowledgement shows that the path keeps up again.
 */
INLINE void squeeze(struct tcp_sock *tp, struct flow *flow, __u64 now, __u64 rate, __u64 delivery, long rtt_us)
{
	__u32 least = least_rtt(tp);
	bool grows = rtt_us > 0 && (__u64)rtt_us > (__u64)least + (least > 4000 ? least : 4000);

	if (!grows || delivery * 10 >= rate * 9) {
		flow->bad = 0;
		flow->frozen = 0;
		return;
	}
	if (!flow->bad)
		flow->bad_us = now / 1000;
	if (flow->bad < 0xffff)
		flow->bad++;
	if (!flow->frozen && flow->bad >= 8 && (__u32)(now / 1000) - flow->bad_us > 2000) {
		flow->frozen = in_flight(tp) > MIN_CWND ? in_flight(tp) : MIN_CWND;
		COUNT_UP(squeezes);
	}
}

/* What was acknowledged over at least a round trip and eight milliseconds; 0 while the window is open. */
INLINE __u64 measured(struct tcp_sock *tp, struct flow *flow, __u64 now)
{
	__u64 elapsed = now - flow->dlv_ns, rate;

	if (elapsed < 8 * MILLISECOND || elapsed < (__u64)(tp->srtt_us >> 3) * 1000)
		return 0;
	rate = (__u64)((__u32)tp->bytes_acked - flow->dlv_acked) * 1000000 / (elapsed / 1000);
	flow->dlv_ns = now;
	flow->dlv_acked = tp->bytes_acked;
	return rate;
}

/*
 * Follows the order for one acknowledgement. Returns 0, or as an event kind why the socket has to be handed over.
 */
INLINE __u32 on_ack(struct tcp_sock *tp, struct flow *flow, struct sluice_cfg *cfg, const struct rate_sample *rs)
{
	__u64 now = tp->tcp_mstamp * 1000, delivery, order, pacing, expiry;
	struct sluice_stat *row;
	__u32 index = flow->index, flags = 0;

	if (flow->flags & FLOW_RENO) {
		reno(tp, flow, rs->losses > 0, rs->acked_sacked, now);
		return 0;
	}
	if (!flow->gen)
		return SLUICE_EVENT_TABLE_FULL;
	row = bpf_map_lookup_elem(&sluice_stat, &index);
	/* Another generation: the row was reclaimed. */
	if (!cfg || !row || row->gen != flow->gen)
		return SLUICE_EVENT_EXPIRED;
	order = flow->rate;
	expiry = flow->expiry;
	if (read_order(cfg, index, flow->gen, now, &order, &expiry) == ORDER_RELEASE)
		return SLUICE_EVENT_RELEASED;
	flow->rate = order;
	flow->expiry = expiry;
	if (now > expiry)
		return SLUICE_EVENT_EXPIRED;
	order = clamp_rate(cfg, order);
	if (loss_guard(tp, flow, cfg, now, order))
		return SLUICE_EVENT_LOSS_GUARD;
	pacing = order;
	if (flow->cap && flow->cap < pacing)
		pacing = flow->cap;
	if (rs->delivered > 0 && rs->interval_us > 0 && !rs->is_app_limited && !rs->is_ack_delayed) {
		delivery = (__u64)rs->delivered * tp->mss_cache * 1000000 / (__u64)rs->interval_us;
		squeeze(tp, flow, now, pacing, delivery, rs->rtt_us);
	}
	flow->last_ns = now;
	if (tp->write_seq == tp->snd_una)
		flow->flags |= FLOW_EMPTY;
	set_pacing(tp, pacing);
	tp->snd_cwnd = window(tp, flow, pacing);
	if (flow->cap)
		flags |= SLUICE_STAT_LOSS_GUARD;
	if (flow->frozen)
		flags |= SLUICE_STAT_SQUEEZED;
	write_row(row, tp, measured(tp, flow, now), pacing, now, flags);
	return 0;
}

INLINE void control(struct tcp_sock *tp, const struct rate_sample *rs)
{
	struct flow *flow = flow_of(tp);
	struct sluice_cfg *cfg = config();
	__u32 why = on_ack(tp, flow, cfg, rs);

	if (why)
		hand_over(tp, flow, cfg, why);
}

/* Kernels from 6.10: (sk, ack, flag, rs). */
SEC("fentry/cong_control")
int cong_control(__u64 *ctx)
{
	control((struct tcp_sock *)ctx[0], (const struct rate_sample *)ctx[3]);
	return 0;
}

/* Kernels before 6.10: (sk, rs). */
SEC("fentry/cong_control_old")
int cong_control_old(__u64 *ctx)
{
	control((struct tcp_sock *)ctx[0], (const struct rate_sample *)ctx[1]);
	return 0;
}

SEC("fentry/init")
int init(__u64 *ctx)
{
	struct tcp_sock *tp = (struct tcp_sock *)ctx[0];
	struct sock *sk = (struct sock *)tp;
	struct flow *flow = flow_of(tp);
	struct sluice_cfg *cfg = config();
	struct sluice_sock *own = bpf_sk_storage_get(&sluice_socks, tp, NULL, 0);
	__u64 now = bpf_ktime_get_ns(), rate = 0, expiry = now;
	__u32 index = 0, gen = 0;

	flow->flags = FLOW_EMPTY;
	flow->bad = 0;
	flow->frozen = 0;
	flow->cap = 0;
	flow->cap_ns = 0;
	flow->trip_ns = 0;
	flow->last_ns = now;
	flow->dlv_ns = now;
	flow->dlv_acked = tp->bytes_acked;
	if (cfg) {
		rate = clamp_rate(cfg, cfg->default_rate);
		expiry = now + cfg->order_lifetime;
		if (own && own->rate_until > now && own->rate_until <= now + cfg->max_expiry) {
			rate = clamp_rate(cfg, own->rate);
			expiry = own->rate_until;
		}
		/* MPTCP subflows are watched, not managed: without a row the first acknowledgement hands them back. */
		if (!field_exists(tp->is_mptcp) || !tp->is_mptcp)
			gen = take_row(tp, &index, rate, now);
	}
	if (own)
		own->flags &= ~SLUICE_SOCK_OURS;
	flow->rate = rate;
	flow->expiry = expiry;
	flow->index = index;
	flow->gen = gen;
	flow->win_ns = now;
	flow->win_lost = tp->lost;
	flow->win_delivered = tp->delivered;
	if (!gen) {
		COUNT_UP(table_full);
		return 0;
	}
	if (sk->sk_pacing_status == SK_PACING_NONE) {
		sk->sk_pacing_status = SK_PACING_NEEDED;
		flow->flags |= FLOW_PACING_OURS;
	}
	tp->snd_ssthresh = 0x7fffffff;
	set_pacing(tp, rate);
	tell(tp, SLUICE_EVENT_OPENED, index, gen);
	return 0;
}

SEC("fentry/release")
int release(__u64 *ctx)
{
	struct tcp_sock *tp = (struct tcp_sock *)ctx[0];
	struct sock *sk = (struct sock *)tp;
	struct flow *flow = flow_of(tp);
	struct sluice_sock *own = bpf_sk_storage_get(&sluice_socks, tp, NULL, 0);
	bool alive = sk->__sk_common.skc_state != TCP_CLOSE;
	__u32 gen = flow->gen, index = flow->index;
	__u32 kind = SLUICE_EVENT_CLOSED;

	if (alive) {
		/* The next congestion control starts from what is in flight, unpaced unless it paces itself. */
		sk->sk_pacing_rate = sk->sk_max_pacing_rate;
		if (flow->flags & FLOW_PACING_OURS)
			sk->sk_pacing_status = SK_PACING_NONE;
		tp->snd_cwnd = in_flight(tp) + 10;
	}
	if (gen)
		free_row(index, gen);
	if (flow->flags & FLOW_HANDING)
		/* Whoever hands over tells why. */
		kind = 0;
	else if (alive && own && own->flags & SLUICE_SOCK_OURS) {
		kind = SLUICE_EVENT_RELEASED;
		own->rate = flow->rate;
		own->rate_until = flow->expiry;
	} else if (alive) {
		if (own)
			own->banned_until = ~0ULL;
		COUNT_UP(foreign);
	}
	if (gen && kind)
		tell(tp, kind, index, gen);
	flow->gen = 0;
	return 0;
}

SEC("fentry/cwnd_event")
int cwnd_event(__u64 *ctx)
{
	struct tcp_sock *tp = (struct tcp_sock *)ctx[0];
	__u32 event = ctx[1];
	struct sock *sk = (struct sock *)tp;
	struct flow *flow = flow_of(tp);
	__u32 index = flow->index, gen = flow->gen, flags = 0;
	__u64 now, order, expiry;
	struct sluice_cfg *cfg;
	struct sluice_stat *row;
	enum order_state state;

	if (event != CA_EVENT_TX_START || flow->flags & FLOW_RENO || !gen)
		return 0;
	cfg = config();
	row = bpf_map_lookup_elem(&sluice_stat, &index);
	if (!cfg || !row)
		return 0;
	now = bpf_ktime_get_ns();
	order = flow->rate;
	expiry = flow->expiry;
	state = read_order(cfg, index, gen, now, &order, &expiry);
	if (state == ORDER_RELEASE || now > expiry || row->gen != gen) {
		hand_over(tp, flow, cfg, state == ORDER_RELEASE ? SLUICE_EVENT_RELEASED : SLUICE_EVENT_EXPIRED);
		return 0;
	}
	order = clamp_rate(cfg, order);
	if (flow->cap && flow->cap < order)
		order = flow->cap;
	/* Only ever raise here: the segment under way was sized for the old rate and is charged at the present one. */
	if (order > sk->sk_pacing_rate)
		set_pacing(tp, order);
	if (flow->cap)
		flags |= SLUICE_STAT_LOSS_GUARD;
	if (flow->flags & FLOW_EMPTY && now - flow->last_ns >= cfg->idle_ns) {
		/* The pause is no part of what the path delivers. */
		flow->dlv_ns = now;
		flow->dlv_acked = tp->bytes_acked;
		tell(tp, SLUICE_EVENT_STARTED, index, gen);
	}
	flow->flags &= ~FLOW_EMPTY;
	flow->last_ns = now;
	write_row(row, tp, 0, sk->sk_pacing_rate, now, flags);
	return 0;
}

SEC("fentry/set_state")
int set_state(__u64 *ctx)
{
	struct tcp_sock *tp = (struct tcp_sock *)ctx[0];
	__u32 state = ctx[1];
	struct flow *flow = flow_of(tp);
	struct sluice_cfg *cfg;

	if (state != TCP_CA_LOSS || flow->flags & FLOW_RENO || !flow->gen)
		return 0;
	cfg = config();
	if (!cfg)
		return 0;
	/* A retransmission time-out: the kernel has cut the window to one segment. The order stands. */
	tp->snd_cwnd = window(tp, flow, clamp_rate(cfg, flow->rate));
	return 0;
}

SEC("fentry/ssthresh")
int ssthresh(__u64 *ctx)
{
	struct tcp_sock *tp = (struct tcp_sock *)ctx[0];
	struct flow *flow = flow_of(tp);

	if (flow->flags & FLOW_RENO)
		return tp->snd_cwnd / 2 > MIN_CWND ? tp->snd_cwnd / 2 : MIN_CWND;
	return 0x7fffffff;
}

SEC("fentry/undo_cwnd")
int undo_cwnd(__u64 *ctx)
{
	struct tcp_sock *tp = (struct tcp_sock *)ctx[0];

	return tp->snd_cwnd;
}

/* One segment per burst for slow flows: a new rate cannot shorten the wait that the last burst was charged. */
SEC("fentry/min_tso_segs")
int min_tso_segs(__u64 *ctx __attribute__((unused)))
{
	return 1;
}
