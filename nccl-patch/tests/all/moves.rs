//! A double of NCCL that really moves bytes: ranks are processes that reduce buffers around a ring of TCP connections
//! while they drive the library as NCCL does. The page must say what went over the wire, and before it went.

use std::io::{BufRead, BufReader, Lines, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::support::*;
use sluice_progress::{Liveness, PageView, Pattern, PeerKind, Reader, State};

const RANKS: usize = 3;
const CHANNELS: usize = 2;
const ROUNDS: usize = 3;
/// Tensors of a round, as the buckets of data-parallel training.
const BUCKETS: usize = 3;
/// Elements of a tensor: 2·(n−1)/n of it is a whole number of bytes on every channel.
const COUNT: usize = 30_000;

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Says something to the test, and waits until it answers.
fn ask(what: &str) -> String {
    println!("@{what}");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("the test answers");
    line.trim().to_owned()
}

/// One connection per channel to the next rank, and from the previous one.
struct Ring {
    next: Vec<TcpStream>,
    previous: Vec<TcpStream>,
}

fn connect() -> Ring {
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let port: u16 = ask(&format!("port {}", listener.local_addr().expect("bound").port())).parse().expect("a port");
    let mut next: Vec<TcpStream> =
        (0..CHANNELS).map(|_| TcpStream::connect(("127.0.0.1", port)).expect("connected")).collect();
    // As NCCL does, who connects says who it is.
    next.iter_mut().for_each(|stream| stream.write_all(b"magic!!!").expect("written"));
    let accept = |_| {
        let mut stream = listener.accept().expect("accepted").0;
        stream.read_exact(&mut [0; 8]).expect("read");
        stream
    };
    Ring { previous: (0..CHANNELS).map(accept).collect(), next }
}

/// Sends and receives one chunk at the same time; both sides' bytes.
fn exchange(next: &mut TcpStream, previous: &mut TcpStream, out: &[u32]) -> Vec<u32> {
    let bytes: Vec<u8> = out.iter().flat_map(|value| value.to_le_bytes()).collect();
    let mut back = vec![0; bytes.len()];
    std::thread::scope(|scope| {
        scope.spawn(|| next.write_all(&bytes).expect("sent"));
        previous.read_exact(&mut back).expect("received");
    });
    back.chunks_exact(4).map(|four| u32::from_le_bytes(four.try_into().expect("four"))).collect()
}

/// A ring all-reduce of one channel's part, with a step per chunk; bytes sent and received.
fn all_reduce_channel(
    part: &mut [u32],
    rank: usize,
    ring: (&mut TcpStream, &mut TcpStream),
    mut step: impl FnMut(u64),
) -> u64 {
    let chunk = part.len() / RANKS;
    let at = |index: usize| (index % RANKS) * chunk..(index % RANKS + 1) * chunk;
    let mut moved = 0;
    for phase in 0..2 * (RANKS - 1) {
        let reducing = phase < RANKS - 1;
        // Reduce-scatter passes partial sums on, all-gather the whole ones: each step the chunk before the last one's.
        let out = (rank + 2 * RANKS - phase) % RANKS;
        let into = (out + RANKS - 1) % RANKS;
        let back = exchange(ring.0, ring.1, &part[at(out)]);
        for (value, new) in part[at(into)].iter_mut().zip(back) {
            *value = if reducing { value.wrapping_add(new) } else { new };
        }
        moved += 4 * chunk as u64;
        step(4 * chunk as u64);
    }
    moved
}

#[test]
#[ignore = "the process that Rank::start starts, one for each rank"]
fn rank() {
    let rank: usize = variable("MOVES_RANK").expect("told").parse().expect("a number");
    let _bootstrap = TcpStream::connect(variable("MOVES_BOOTSTRAP").expect("given")).expect("connected");
    let version = variable("MOVES_VERSION").and_then(|text| text.parse().ok()).unwrap_or(5);
    let nccl = variable("MOVES_LIBRARY").map(|path| Nccl::load(Path::new(&path), version));
    let shape = Shape { id: 99, nnodes: RANKS as i32, nranks: RANKS as i32, rank: rank as i32 };
    let context = nccl.map_or(0, |nccl| nccl.init(shape, None).0);
    let steps = variable("SLUICE_NCCL_STEPS").is_some();
    let mut ring = connect();
    let (next, previous) = (((rank + 1) % RANKS) as i32, ((rank + RANKS - 1) % RANKS) as i32);
    let of = CollOf { rank: rank as i32, ..all_reduce(COUNT, CHANNELS as u8) };
    for round in 0..ROUNDS {
        let colls = [0; BUCKETS].map(|_| nccl.map_or(0, |nccl| nccl.coll(context, &of)));
        ask("enqueued");
        let mut moved = 0;
        for coll in colls {
            let mut tensor: Vec<u32> = (0..COUNT).map(|i| (i * (rank + 1) + round) as u32).collect();
            // The proxy thread: all channels' operations begin before the first ends.
            let ops: Vec<_> = (0..CHANNELS as u8)
                .flat_map(|channel| [(channel, next, true), (channel, previous, false)])
                .map(|(channel, peer, send)| nccl.map_or(0, |nccl| nccl.op(context, coll, channel, peer, send)))
                .collect();
            for (channel, part) in tensor.chunks_exact_mut(COUNT / CHANNELS).enumerate() {
                let sockets = (&mut ring.next[channel], &mut ring.previous[channel]);
                moved += all_reduce_channel(part, rank, sockets, |bytes| {
                    let Some(nccl) = nccl.filter(|_| steps) else { return };
                    for (op, state) in [(ops[2 * channel], 9), (ops[2 * channel + 1], 12)] {
                        let step = nccl.step(context, op, 0);
                        nccl.state(step, state, Some(bytes));
                        nccl.stop(step);
                    }
                });
            }
            ops.into_iter().for_each(|op| nccl.into_iter().for_each(|nccl| nccl.stop(op)));
            let sum = |i: usize| (0..RANKS).map(|r| (i * (r + 1) + round) as u32).fold(0, u32::wrapping_add);
            assert!(tensor.iter().enumerate().all(|(i, value)| *value == sum(i)), "the sums are right");
        }
        ask(&format!("moved {moved}"));
    }
    nccl.into_iter().for_each(|nccl| nccl.finalize(context));
    ask("done");
}

/// A rank's process, as the test sees it.
struct Rank {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
    answers: ChildStdin,
}

impl Rank {
    fn start(rank: usize, bootstrap: &TcpListener, variables: &[(&str, &str)]) -> Rank {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--ignored", "--exact", "moves::rank", "--nocapture", "--test-threads=1"]);
        clean(&mut command);
        command.env("MOVES_RANK", rank.to_string()).envs(variables.iter().copied());
        command.env("MOVES_BOOTSTRAP", bootstrap.local_addr().expect("bound").to_string());
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let answers = child.stdin.take().expect("piped");
        Rank { child, lines, answers }
    }

    /// What it says next; libtest's own lines are passed over.
    fn says(&mut self, what: &str) -> String {
        let line = self.lines.by_ref().map_while(Result::ok).find_map(|line| Some(line.split_once('@')?.1.to_owned()));
        let line = line.unwrap_or_else(|| panic!("the rank ended before it said {what}"));
        line.strip_prefix(what).unwrap_or_else(|| panic!("{line:?} instead of {what}")).trim().to_owned()
    }

    fn answer(&mut self, text: &str) {
        writeln!(self.answers, "{text}").expect("it listens");
    }

    fn end(mut self) {
        let mut err = String::new();
        self.child.stderr.take().expect("piped").read_to_string(&mut err).expect("text");
        assert!(self.child.wait().expect("it ends").success(), "{err}");
        assert_eq!(err, "");
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Starts all ranks and joins them to a ring.
fn job(variables: impl Fn(usize) -> Vec<(&'static str, String)>) -> Vec<Rank> {
    let bootstrap = TcpListener::bind("127.0.0.1:0").expect("bound");
    let start = |rank| {
        let variables = variables(rank);
        let variables: Vec<_> = variables.iter().map(|(name, value)| (*name, value.as_str())).collect();
        Rank::start(rank, &bootstrap, &variables)
    };
    let mut ranks: Vec<Rank> = (0..RANKS).map(start).collect();
    let ports: Vec<String> = ranks.iter_mut().map(|rank| rank.says("port")).collect();
    for (index, rank) in ranks.iter_mut().enumerate() {
        rank.answer(&ports[(index + 1) % RANKS]);
    }
    ranks
}

/// Runs a job to its end; `look` sees every moment at which all ranks wait.
fn run(mut ranks: Vec<Rank>, mut look: impl FnMut(&str, usize, &[u64])) {
    let mut moved = vec![0_u64; RANKS];
    for round in 0..ROUNDS {
        ranks.iter_mut().for_each(|rank| drop(rank.says("enqueued")));
        look("enqueued", round, &moved);
        ranks.iter_mut().for_each(|rank| rank.answer("go"));
        for (moved, rank) in moved.iter_mut().zip(&mut ranks) {
            *moved += rank.says("moved").parse::<u64>().expect("a number");
        }
        look("moved", round, &moved);
        ranks.iter_mut().for_each(|rank| rank.answer("go"));
    }
    ranks.iter_mut().for_each(|rank| drop(rank.says("done")));
    look("done", ROUNDS, &moved);
    for mut rank in ranks {
        rank.answer("go");
        rank.end();
    }
}

/// What leaves a rank in a round, from the tensor's size alone.
const ROUND_BYTES: u64 = (BUCKETS * COUNT * 4 * 2 * (RANKS - 1) / RANKS) as u64;

fn of_rank(readers: &mut [Reader]) -> Vec<PageView> {
    let mut views: Vec<_> = readers.iter_mut().map(|reader| reader.read().expect("readable")).collect();
    views.sort_by_key(|view| view.rank);
    views
}

fn publishes(version: u8, steps: bool) {
    let root = tempfile::tempdir().expect("a directory");
    let dir = root.path().to_str().expect("text").to_owned();
    let ranks = job(|rank| {
        let mut all = vec![
            ("RANK", rank.to_string()),
            ("MOVES_LIBRARY", library().to_str().expect("text").to_owned()),
            ("MOVES_VERSION", version.to_string()),
            ("SLUICE_SHM_DIR", dir.clone()),
            ("WORLD_SIZE", RANKS.to_string()),
        ];
        all.extend(steps.then(|| ("SLUICE_NCCL_STEPS", "1".to_owned())));
        all
    });
    let mut readers = Vec::new();
    run(ranks, |moment, round, moved| {
        if readers.is_empty() {
            readers = pages(root.path()).iter().map(|page| Reader::open(page).expect("a good page")).collect();
            assert!(readers.iter().all(|reader| matches!(reader.owner(), Liveness::Alive { .. })));
        }
        assert_eq!(readers.len(), RANKS);
        for (rank, page) in of_rank(&mut readers).into_iter().enumerate() {
            let (begun, at) = (round as u64 + 1, format!("version {version}, {moment} {round}, rank {rank}"));
            match moment {
                "enqueued" => {
                    // Before the first byte of the round: how much it is, and on which connections.
                    assert_eq!(page.state, State::Enqueued, "{at}");
                    assert_eq!(page.enq_bytes, begun * (BUCKETS * COUNT * 4) as u64, "{at}");
                    // Versions 2 and 3 do not say how many hosts there are: the first phase shows it.
                    if version >= 4 || round > 0 {
                        assert_eq!(page.enq_wire_bytes, begun * ROUND_BYTES, "{at}");
                    }
                    if version >= 4 {
                        assert_eq!(page.iteration.count, begun, "{at}");
                    }
                    assert_eq!(page.pattern, Pattern::Ring, "{at}");
                    let of = |kind| page.peers.iter().filter(move |peer| peer.kind == kind);
                    let kinds = (of(PeerKind::Connected).count(), of(PeerKind::Accepted).count());
                    assert_eq!(kinds, (CHANNELS, CHANNELS), "{at}: the bootstrap connection is not among them");
                    if round > 0 {
                        let (next, previous) = ((rank as u32 + 1) % 3, (rank as u32 + 2) % 3);
                        assert!(of(PeerKind::Connected).all(|peer| peer.rank == Some(next)), "{at}");
                        assert!(of(PeerKind::Accepted).all(|peer| peer.rank == Some(previous)), "{at}");
                        assert_eq!((page.ring_next, page.ring_prev), (Some(next), Some(previous)), "{at}");
                    }
                }
                "moved" => {
                    assert_eq!((moved[rank], page.enq_wire_bytes), (begun * ROUND_BYTES, moved[rank]), "{at}");
                    assert_eq!((page.state, page.inflight), (State::Compute, 0), "{at}");
                    if version >= 4 {
                        assert_eq!(page.phase_seq, begun, "{at}: all tensors of a round are one phase");
                    }
                    let counted = if steps { moved[rank] } else { 0 };
                    assert_eq!((page.tx_bytes, page.rx_bytes), (counted, counted), "{at}");
                    assert_eq!((page.errors, page.drops), (0, 0), "{at}");
                }
                _ => assert_eq!(page.state, State::Finished, "{at}"),
            }
        }
    });
    assert!(pages(root.path()).is_empty(), "pages go with their communicators");
}

#[test]
fn the_page_says_what_went_over_the_wire_and_before_it_went() {
    for version in VERSIONS {
        publishes(version, false);
    }
}

#[test]
fn with_steps_the_page_counts_every_byte() {
    for version in [4, 7] {
        publishes(version, true);
    }
}

#[test]
fn a_job_is_the_same_without_page_library_or_with_it_on_one_rank() {
    let library = library().to_str().expect("text").to_owned();
    let root = tempfile::tempdir().expect("a directory");
    let dir = root.path().to_str().expect("text").to_owned();
    let cases: [&dyn Fn(usize) -> Vec<(&'static str, String)>; 4] = [
        &|_| vec![],
        &|_| vec![("MOVES_LIBRARY", library.clone()), ("SLUICE_SHM_DIR", "/nonexistent/sluice".into())],
        &|_| vec![("MOVES_LIBRARY", library.clone()), ("SLUICE_DISABLE", "1".into())],
        &|rank| {
            if rank == 0 { vec![("MOVES_LIBRARY", library.clone()), ("SLUICE_SHM_DIR", dir.clone())] } else { vec![] }
        },
    ];
    for (case, variables) in cases.into_iter().enumerate() {
        run(job(variables), |moment, round, moved| {
            assert_eq!(pages(root.path()).len(), usize::from(case == 3 && moment != "done"), "case {case}");
            if moment == "moved" {
                assert!(moved.iter().all(|moved| *moved == (round as u64 + 1) * ROUND_BYTES), "case {case}");
            }
        });
    }
}

#[test]
fn a_rank_that_is_killed_leaves_a_readable_page_of_a_dead_process() {
    let root = tempfile::tempdir().expect("a directory");
    let dir = root.path().to_str().expect("text").to_owned();
    let library = library().to_str().expect("text").to_owned();
    let mut ranks = job(|_| vec![("MOVES_LIBRARY", library.clone()), ("SLUICE_SHM_DIR", dir.clone())]);
    ranks.iter_mut().for_each(|rank| drop(rank.says("enqueued")));
    let mut readers: Vec<_> = pages(root.path()).iter().map(|page| Reader::open(page).expect("a good page")).collect();
    drop(ranks);
    for reader in &mut readers {
        assert_eq!(reader.owner(), Liveness::Dead);
        assert_eq!(reader.read().expect("readable").enq_ops, BUCKETS as u64);
    }
    assert_eq!(readers.len(), RANKS);
}
