//! The congestion control itself, compiled for this processor and run on rows that hold anything: whatever stands in one, a flow
//! is handed over or paced between floor and ceiling, and by an order that is good exactly as a model in Rust says.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::draws::Draws;

/// Runs the program for an acknowledgement on each request.
const HARNESS: &str = r#"
#include <stdio.h>
#include <string.h>
#include "sluice_cc.bpf.c"

struct request {
	__u8 ctl[64];
	__u64 floor, ceiling, max_expiry, now, rate, expiry;
	__u32 anew, gen, srtt, mss, rtt, flying, delivered, lost;
} __attribute__((packed));

struct answer {
	__u64 pacing, cap;
	__u32 window, handed;
} __attribute__((packed));

static struct request request;
static struct answer answer;
static struct tcp_sock tp;
static struct sluice_stat row;
static struct sluice_cfg cfg;
static struct sluice_counters counters;

static void *lookup(void *map, const void *key)
{
	return map == &sluice_ctl ? (void *)request.ctl : map == &sluice_stat ? (void *)&row :
	       map == &sluice_cfg ? (void *)&cfg : map == &sluice_counters ? (void *)&counters : NULL;
}
static __u64 now(void) { return request.now; }
static void *storage(void *map, void *sk, void *value, __u64 flags) { return NULL; }
static long output(void *ring, void *data, __u64 size, __u64 flags) { return 0; }
static long change(void *sk, int level, int name, void *value, int len) { answer.handed = 1; return 0; }

int main(void)
{
	bpf_map_lookup_elem = lookup;
	bpf_ktime_get_ns = now;
	bpf_sk_storage_get = storage;
	bpf_ringbuf_output = output;
	bpf_setsockopt = change;
	while (fread(&request, sizeof(request), 1, stdin) == 1) {
		struct flow *flow = flow_of(&tp);
		struct rate_sample rs = { .rtt_us = request.rtt, .losses = request.lost, .acked_sacked = request.delivered };
		__u64 ctx[4] = { (__u64)&tp, 0, 0, (__u64)&rs };

		if (request.anew) {
			memset(&tp, 0, sizeof(tp));
			memset(&row, 0, sizeof(row));
			memset(&cfg, 0, sizeof(cfg));
			row.gen = flow->gen = request.gen;
			flow->rate = request.rate;
			flow->expiry = request.expiry;
			tp.snd_cwnd = ~0U;
			/* A route may have the smallest of windows. */
			tp.snd_cwnd_clamp = request.gen & 1 ? ~0U : 1;
			((struct sock *)&tp)->sk_max_pacing_rate = ~0UL;
			tp.rtt_min.s[0].v = ~0U;
			cfg.loss_window = 20 * MILLISECOND;
			cfg.loss_retrip = 10000 * MILLISECOND;
			cfg.loss_permille = 50;
			cfg.release_to[0] = 'c';
		}
		cfg.floor = request.floor;
		cfg.ceiling = request.ceiling;
		cfg.max_expiry = request.max_expiry;
		tp.tcp_mstamp = request.now / 1000;
		tp.srtt_us = request.srtt;
		tp.mss_cache = request.mss;
		tp.packets_out = request.flying;
		tp.delivered += request.delivered;
		tp.data_segs_out += request.delivered + request.lost;
		tp.lost += request.lost;
		tp.bytes_acked += (__u64)request.delivered * request.mss;
		if (request.rtt < tp.rtt_min.s[0].v)
			tp.rtt_min.s[0].v = request.rtt;
		memset(&answer, 0, sizeof(answer));
		cong_control(ctx);
		answer.pacing = ((struct sock *)&tp)->sk_pacing_rate;
		answer.cap = flow->cap;
		answer.window = tp.snd_cwnd;
		fwrite(&answer, sizeof(answer), 1, stdout);
	}
	return 0;
}
"#;

const MILLISECOND: u64 = 1_000_000;
const RELEASE: u32 = 1;
const SURPLUS: u32 = 2;
/// Segments that every window has at least (P-5).
const LEAST_WINDOW: u32 = 4;

/// A row of the table of orders: what the kernel reads in 64 bytes that anybody may have written.
#[derive(Clone, Copy, Debug)]
struct Row([u8; 64]);

impl Row {
    fn long(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.0[at..at + 8].try_into().expect("eight bytes"))
    }
    fn rate(&self) -> u64 {
        self.long(0)
    }
    fn expiry(&self) -> u64 {
        self.long(8)
    }
    fn gen_and_flags(&self) -> (u32, u32) {
        let both = self.long(16);
        (both as u32, (both >> 32) as u32)
    }
    fn put(&mut self, at: usize, bytes: &[u8]) {
        self.0[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Any 64 bytes; in most of them some words make sense, and in many all do.
    fn drawn(draws: &mut Draws, of: &Ack) -> Row {
        let mut row = Row([0; 64]);
        row.0.chunks_mut(8).for_each(|word| word.copy_from_slice(&draws.next().to_le_bytes()));
        let sense = draws.below(4);
        if sense > 0 {
            row.put(16, &of.generation.to_le_bytes());
        }
        if sense > 1 {
            row.put(8, &(of.now - 2 * MILLISECOND + draws.below(of.max_expiry * 2)).to_le_bytes());
            row.put(20, &((draws.below(8) as u32) & !u32::from(draws.below(3) > 0)).to_le_bytes());
        }
        if sense > 2 {
            row.put(0, &(1_u64 << draws.below(40)).to_le_bytes());
            row.put(40, &(1_u64 << draws.below(40)).to_le_bytes());
        }
        row
    }
}

/// What the path shows with one acknowledgement, and the last good order.
#[derive(Clone, Copy, Debug)]
struct Ack {
    anew: bool,
    generation: u32,
    floor: u64,
    ceiling: u64,
    max_expiry: u64,
    now: u64,
    rate: u64,
    expiry: u64,
    rtt_us: u32,
    mss: u32,
    flying: u32,
    delivered: u32,
    lost: u32,
}

impl Ack {
    fn bytes(&self, row: &Row) -> Vec<u8> {
        let longs = [self.floor, self.ceiling, self.max_expiry, self.now, self.rate, self.expiry];
        // The kernel keeps eight times the smoothed round trip.
        let (anew, srtt) = (u32::from(self.anew), self.rtt_us << 3);
        let words = [anew, self.generation, srtt, self.mss, self.rtt_us, self.flying, self.delivered, self.lost];
        let mut bytes = row.0.to_vec();
        longs.iter().for_each(|long| bytes.extend(long.to_le_bytes()));
        words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes
    }
}

/// What the program has to do about an order, the guards and the surplus apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Does {
    HandsOver,
    Paces(u64),
}

/// The last good order before this acknowledgement, and after it.
fn model(row: &Row, ack: &Ack, (rate, expiry): (u64, u64)) -> (Does, (u64, u64)) {
    let (generation, flags) = row.gen_and_flags();
    let mut order = (rate, expiry);
    if generation == ack.generation {
        if flags & RELEASE != 0 {
            return (Does::HandsOver, order);
        }
        if row.expiry() <= ack.now + ack.max_expiry {
            order = (row.rate(), row.expiry());
        }
    }
    let does = if ack.now > order.1 { Does::HandsOver } else { Does::Paces(order.0.clamp(ack.floor, ack.ceiling)) };
    (does, order)
}

/// A flow's acknowledgements, until it is handed over at the latest, each with what its row holds then.
fn trace(draws: &mut Draws) -> Vec<(Row, Ack)> {
    let floor = 1_u64 << draws.below(30);
    let ceiling = floor + draws.below(1 << 36);
    let generation = 1 + draws.below(1 << 20) as u32;
    let (max_expiry, mut now) = (200 * MILLISECOND + draws.below(2_000 * MILLISECOND), 10_000 * MILLISECOND);
    let (base, mss) = (1 + draws.below(50_000) as u32, 1 + draws.below(9_000) as u32);
    let lossy = draws.below(3) == 0;
    let of = |n: usize| {
        now += draws.below(20 * MILLISECOND);
        let longest = u64::from(base) * (1 + draws.below(4));
        let ack = Ack {
            anew: n == 0,
            generation,
            floor,
            ceiling,
            max_expiry,
            now,
            rate: draws.next() >> draws.below(64),
            expiry: now + max_expiry,
            rtt_us: base + draws.below(longest) as u32,
            mss,
            flying: draws.below(500) as u32,
            delivered: draws.below(200) as u32,
            lost: if lossy { draws.below(50) as u32 } else { 0 },
        };
        (Row::drawn(draws, &ack), ack)
    };
    (0..60).map(of).collect()
}

/// The program for this processor. Its view of the kernel has only the fields that it reads: a socket and its private area
/// would lie on each other.
fn build(dir: &Path) -> std::path::PathBuf {
    let bpf = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf");
    for entry in std::fs::read_dir(&bpf).expect("bpf/") {
        let path = entry.expect("an entry").path();
        std::fs::copy(&path, dir.join(path.file_name().expect("a name"))).expect("copied");
    }
    let kernel = dir.join("sluice_kernel.h");
    let text = std::fs::read_to_string(&kernel).expect("readable");
    let apart =
        text.replacen("struct inet_connection_sock {", "struct inet_connection_sock {\n\tstruct sock first;", 1);
    assert_ne!(apart, text, "sluice_kernel.h has no inet_connection_sock");
    std::fs::write(&kernel, apart).expect("written");
    let (source, binary) = (dir.join("hook.c"), dir.join("hook"));
    std::fs::write(&source, HARNESS).expect("written");
    let built = Command::new("cc")
        .args(["-std=gnu11", "-O1", "-w", "-Dpreserve_access_index=unused", "-D__builtin_preserve_field_info(a,b)=1"])
        .arg("-o")
        .args([&binary, &source])
        .status();
    assert!(built.expect("cc").success(), "the program does not compile for this processor");
    binary
}

/// Promises: P-5
#[test]
fn whatever_stands_in_a_row_a_flow_is_paced_between_floor_and_ceiling_or_handed_over() {
    let dir = tempfile::tempdir().expect("a directory");
    let binary = build(dir.path());
    let mut draws = Draws(11);
    let traces: Vec<_> = (0..2_000).map(|_| trace(&mut draws)).collect();
    let input: Vec<u8> = traces.iter().flatten().flat_map(|(row, ack)| ack.bytes(row)).collect();
    let mut harness = Command::new(&binary).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
    let mut stdin = harness.stdin.take().expect("piped");
    let feeder = std::thread::spawn(move || stdin.write_all(&input));
    let output = harness.wait_with_output().expect("it ends");
    feeder.join().expect("no panic").expect("it reads all");
    let mut answers = output.stdout.chunks_exact(24);
    let (mut paced, mut exact, mut handed, mut capped) = (0, 0, 0, 0);
    for (number, trace) in traces.iter().enumerate() {
        let mut order = (trace[0].1.rate, trace[0].1.expiry);
        // What a flow does after it was handed over is another congestion control's.
        let mut ours = true;
        for (at, (row, ack)) in trace.iter().enumerate() {
            let answer = answers.next().expect("an answer to each request");
            let long = |at: usize| u64::from_le_bytes(answer[at..at + 8].try_into().expect("eight bytes"));
            let (pacing, cap, both) = (long(0), long(8), long(16));
            let (window, gone) = (both as u32, both >> 32 != 0);
            if !ours {
                continue;
            }
            let (does, after) = model(row, ack, order);
            let said = format!("trace {number}, ack {at}: {ack:?}, order {order:?}, {row:?}");
            order = after;
            ours = !gone;
            if gone {
                handed += 1;
                // The loss guard may do so as well.
                assert!(does == Does::HandsOver || trace[..=at].iter().any(|(_, ack)| ack.lost > 0), "{said}");
                continue;
            }
            paced += 1;
            assert!((ack.floor..=ack.ceiling).contains(&pacing), "paced at {pacing}; {said}");
            assert!(window >= LEAST_WINDOW, "a window of {window}; {said}");
            let Does::Paces(rate) = does else { panic!("kept; {said}") };
            let surplus = trace[..=at].iter().any(|(row, _)| row.gen_and_flags().1 & SURPLUS != 0);
            capped += u32::from(cap != 0);
            if !surplus {
                let wanted = if cap == 0 { rate } else { rate.min(cap) };
                assert_eq!(pacing, wanted, "{said}");
                exact += 1;
            }
        }
    }
    assert!(answers.next().is_none(), "more answers than requests");
    println!("{paced} paced, {exact} of them compared, {capped} under a cap, {handed} handed over");
    assert!(paced > 5_000 && exact > 1_000 && handed > 500 && capped > 100);
}
