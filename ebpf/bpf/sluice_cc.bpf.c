// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * The congestion control "sluice": paces each socket at the rate its order says. It decides nothing. It guards the
 * flow against a daemon that is wrong, late or dead: floor, ceiling, expiry of each order, loss guard.
 *
 * One program per member of struct tcp_congestion_ops, in sections that aya-obj accepts; the loader ignores the part
 * before the slash. Everything is inlined, so that no function information has to be loaded.
 */
#include "sluice_guards.h"
#include "sluice_surplus.h"

char LICENSE[] SEC("license") = "Dual MIT/GPL";

/* By how much the last round trip was longer than the shortest, ns; where nobody knows, long enough to wait and see. */
INLINE __u64 queueing(struct tcp_sock *tp, const struct rate_sample *rs)
{
	__u32 least = least_rtt(tp);

	if (rs->rtt_us <= 0)
		return SURPLUS_QUEUE;
	return (__u64)rs->rtt_us > least ? ((__u64)rs->rtt_us - least) * 1000 : 0;
}

/* What the flow takes beyond its order. */
INLINE __u64 surplus(struct tcp_sock *tp, struct flow *flow, struct sluice_cfg *cfg, struct sluice_stat *row, __u64 order,
		     __u64 now, const struct rate_sample *rs)
{
	struct sluice_surplus *surplus = &row->surplus;
	struct surplus_signs signs = {
		.now = now, .rtt = (__u64)(tp->srtt_us >> 3) * 1000, .queue = queueing(tp, rs), .lost = tp->lost,
		.app_limited = rs->is_app_limited, .yields = surplus->yields,
	};
	__u64 link = flow->cap ? 0 : surplus->link, extra;
	__u64 before = surplus->extra;

	extra = surplus_look(surplus, order, link > cfg->ceiling ? cfg->ceiling : link, &signs);
	if (surplus->looked == now && surplus->cuts && before)
		COUNT_UP(surplus_cuts);
	return extra;
}

/*
 * Follows the order for one acknowledgement. Returns 0, or as an event kind why the socket has to be handed over.
 */
INLINE __u32 on_ack(struct tcp_sock *tp, struct flow *flow, struct sluice_cfg *cfg, const struct rate_sample *rs)
{
	__u64 now = tp->tcp_mstamp * 1000, delivery, rate, pacing, extra;
	struct sluice_stat *row;
	struct order order;
	__u32 index = flow->index, flags = 0;
	bool guarded;

	if (flow->flags & FLOW_RENO) {
		reno(tp, flow, rs->losses > 0, rs->acked_sacked, now);
		return 0;
	}
	/* Nobody asked for it, or no row was free. */
	if (!flow->gen)
		return SLUICE_EVENT_RELEASED;
	row = bpf_map_lookup_elem(&sluice_stat, &index);
	/* Another generation: the row was reclaimed. */
	if (!cfg || !row || row->gen != flow->gen)
		return SLUICE_EVENT_EXPIRED;
	order = (struct order){ flow->rate, flow->expiry, row->surplus.link, row->surplus.yields };
	if (read_order(cfg, index, flow->gen, now, &order) == ORDER_RELEASE)
		return SLUICE_EVENT_RELEASED;
	new_order(flow, flow->rate, order.rate);
	flow->rate = order.rate;
	flow->expiry = order.expiry;
	row->surplus.link = order.link;
	row->surplus.yields = order.yields;
	if (now > order.expiry)
		return SLUICE_EVENT_EXPIRED;
	rate = clamp_rate(cfg, order.rate);
	extra = surplus(tp, flow, cfg, row, rate, now, rs);
	/* With so much beyond the order it is the surplus that fills queues and loses, and it answers for that itself. */
	guarded = extra <= rate / 8;
	if (!guarded)
		guards_anew(tp, flow, now);
	else if (loss_guard(tp, flow, cfg, now, rate))
		return SLUICE_EVENT_LOSS_GUARD;
	pacing = rate + extra;
	if (flow->cap && flow->cap < pacing)
		pacing = flow->cap;
	delivery = delivery_window(tp, flow, cfg, now, pacing, guarded, rs);
	flow->last_us = now / 1000;
	if (tp->write_seq == tp->snd_una)
		flow->flags |= FLOW_EMPTY;
	set_pacing(tp, pacing);
	tp->snd_cwnd = window(tp, flow, pacing);
	if (flow->cap)
		flags |= SLUICE_STAT_LOSS_GUARD;
	if (flow->frozen)
		flags |= SLUICE_STAT_SQUEEZED;
	write_row(row, tp, delivery, pacing, now, flags);
	tell_mark(tp, row, index, flow->gen);
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
	flow->cuts = 0;
	flow->mark_us = now / 1000;
	flow->sent_before = 0;
	flow->frozen = 0;
	flow->cap = 0;
	flow->cap_ns = 0;
	flow->trip_ns = 0;
	flow->last_us = now / 1000;
	open_window(tp, flow, now / 1000);
	/*
	 * Only our own programs choose this control, and with an order. Whoever else does, by name or because a container's
	 * administrator may, has no row, and the first acknowledgement hands the socket back.
	 */
	if (cfg && own && own->flags & SLUICE_SOCK_OURS && own->rate_until <= now + cfg->max_expiry) {
		rate = clamp_rate(cfg, own->rate);
		expiry = own->rate_until;
		gen = take_row(tp, &index, rate, now);
		if (!gen) {
			COUNT_UP(table_full);
			/* The next acknowledgement gives it back, and nobody takes it again at once. */
			own->banned_until = now + cfg->loss_ban;
		}
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
	if (!gen)
		return 0;
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
		/* Slow start ends at what the path was seen to hold, or the queue would be overrun within a few round trips. */
		tp->snd_ssthresh = carried(tp, flow);
		tp->snd_cwnd = first_window(tp);
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
	struct sluice_cfg *cfg;
	struct sluice_stat *row;
	enum order_state state;
	struct order order;
	__u64 now, rate;

	if (event != CA_EVENT_TX_START || flow->flags & FLOW_RENO || !gen)
		return 0;
	cfg = config();
	row = bpf_map_lookup_elem(&sluice_stat, &index);
	if (!cfg || !row)
		return 0;
	now = bpf_ktime_get_ns();
	order = (struct order){ flow->rate, flow->expiry, row->surplus.link, row->surplus.yields };
	state = read_order(cfg, index, gen, now, &order);
	if (state == ORDER_RELEASE || now > order.expiry || row->gen != gen) {
		hand_over(tp, flow, cfg, state == ORDER_RELEASE ? SLUICE_EVENT_RELEASED : SLUICE_EVENT_EXPIRED);
		return 0;
	}
	rate = clamp_rate(cfg, order.rate);
	if (flow->cap && flow->cap < rate)
		rate = flow->cap;
	/* Only ever raise here: the segment under way was sized for the old rate and is charged at the present one. */
	if (rate > sk->sk_pacing_rate)
		set_pacing(tp, rate);
	/* The window is that of the order before the pause, and if all of it is lost nothing comes back that would widen it. */
	if (window(tp, flow, rate) > tp->snd_cwnd)
		tp->snd_cwnd = window(tp, flow, rate);
	if (flow->cap)
		flags |= SLUICE_STAT_LOSS_GUARD;
	if (flow->flags & FLOW_EMPTY && (__u64)((__u32)(now / 1000) - flow->last_us) * 1000 >= cfg->idle_ns) {
		/* The pause is no part of what the path delivers, and what was left over before it may be gone. */
		open_window(tp, flow, now / 1000);
		row->surplus.extra = 0;
		tell(tp, SLUICE_EVENT_STARTED, index, gen);
	}
	flow->flags &= ~FLOW_EMPTY;
	flow->last_us = now / 1000;
	write_row(row, tp, 0, sk->sk_pacing_rate, now, flags);
	return 0;
}

SEC("fentry/set_state")
int set_state(__u64 *ctx)
{
	struct tcp_sock *tp = (struct tcp_sock *)ctx[0];
	__u32 state = ctx[1];
	struct flow *flow = flow_of(tp);
	__u32 index = flow->index;
	struct sluice_stat *row;
	struct sluice_cfg *cfg;
	enum order_state says;
	struct order last;
	__u64 order, now;
	bool surplus;

	if (state != TCP_CA_LOSS || flow->flags & FLOW_RENO || !flow->gen)
		return 0;
	cfg = config();
	row = bpf_map_lookup_elem(&sluice_stat, &index);
	if (!cfg || !row)
		return 0;
	now = bpf_ktime_get_ns();
	last = (struct order){ flow->rate, flow->expiry, 0, 0 };
	says = read_order(cfg, index, flow->gen, now, &last);
	if (says == ORDER_RELEASE || now > last.expiry || row->gen != flow->gen) {
		/* Nothing comes back that would do it, and may not for long: ordinary TCP goes on from here, with a segment. */
		hand_over(tp, flow, cfg, says == ORDER_RELEASE ? SLUICE_EVENT_RELEASED : SLUICE_EVENT_EXPIRED);
		tp->snd_cwnd = in_flight(tp) + 1;
		return 0;
	}
	/*
	 * A retransmission time-out: a whole window was lost, or the last segments of a round, which nothing followed that
	 * would have told of their loss. The second within a second means the former: go on with half the rate, or what was
	 * delivered if that is more, for with the old one the same would be lost again.
	 */
	order = clamp_rate(cfg, flow->rate);
	surplus = row->surplus.extra > order / 8;
	row->surplus.extra = 0;
	if (surplus || now - flow->cap_ns > 1000 * MILLISECOND) {
		/* Of a flow that sent much more than its order the time-out says nothing of the order. */
		if (!surplus)
			flow->cap_ns = now;
		set_pacing(tp, flow->cap ? flow->cap : order);
		tp->snd_cwnd = window(tp, flow, flow->cap ? flow->cap : order);
		return 0;
	}
	if (!flow->cap || flow->cap > order)
		flow->cap = order;
	flow->cap = max_u64(flow->cap / 2, row->delivery_rate);
	flow->cap = max_u64(flow->cap, least_cap(cfg, order));
	if (flow->cap >= order)
		flow->cap = 0;
	flow->cap_ns = now;
	if (flow->frozen)
		flow->mark_us = flow->cap_ns / 1000;
	flow->frozen = 0;
	order = flow->cap ? flow->cap : order;
	set_pacing(tp, order);
	tp->snd_cwnd = window(tp, flow, order);
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

/*
 * Should the kernel skip this as it does min_tso_segs below, it takes the window for 0; what runs at the end of the same
 * acknowledgement sets it anew.
 */
SEC("fentry/undo_cwnd")
int undo_cwnd(__u64 *ctx)
{
	struct tcp_sock *tp = (struct tcp_sock *)ctx[0];

	return tp->snd_cwnd;
}

/*
 * There is no min_tso_segs. The kernel skips a BPF program that is already running on the same processor and takes 0 for
 * its answer; for a flow slower than a segment per millisecond that makes bursts of no segments, an empty segment at the
 * head of the send queue, and a flow that stands still for ever.
 */
