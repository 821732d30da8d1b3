//! Ring all-reduce, parameter server and tree as streams of bytes: what may be sent now, and what arriving bytes do.
//!
//! [`Collective::ready`] says how far an outgoing stream may go, given what has arrived: the pipeline of the simulator's
//! dependencies, on real data. No sockets and no clock here, so the tests run whole jobs in memory.

use super::JobError;
use super::buffer::{self, Difference};
use super::exchange::{Exchange, Kind, Stream, Streams};
use super::file::{Arch, JobFile};

/// One member's buffer and its streams.
#[derive(Debug)]
pub struct Collective {
    rank: usize,
    workers: usize,
    /// Index of this server; 0 for workers.
    server: usize,
    is_worker: bool,
    /// Elements of the gradient; the buffer may be padded.
    real: usize,
    /// Elements of a ring's chunk or a server's shard; the whole gradient for a tree.
    part: usize,
    buffer: Vec<f32>,
    streams: Streams,
    /// Bytes of this round that arrived, per incoming stream.
    arrived: Vec<u64>,
}

impl Collective {
    /// The member `file.rank` of the job.
    pub fn new(file: &JobFile) -> Collective {
        Collective::of_bytes(file, file.bytes)
    }

    /// The same for so many bytes of the gradient.
    pub fn of_bytes(file: &JobFile, bytes: u64) -> Collective {
        let real = usize::try_from(bytes.div_ceil(4)).unwrap_or(usize::MAX);
        let (n, rank) = (file.workers, file.rank);
        let servers = file.members.len() - n;
        let is_worker = file.is_worker();
        let mut outs = Vec::new();
        let mut ins = Vec::new();
        let (part, len) = match file.arch {
            Arch::Ring => {
                let chunk = real.div_ceil(n);
                let bytes = 2 * (n as u64 - 1) * chunk as u64 * 4;
                if n > 1 {
                    outs.push(Stream { peer: (rank + 1) % n, kind: Kind::Ring, lane: 0, bytes });
                    ins.push(Stream { peer: (rank + n - 1) % n, kind: Kind::Ring, lane: 0, bytes });
                }
                (chunk, chunk * n)
            }
            Arch::Ps => {
                let shard = real.div_ceil(servers);
                let bytes = shard as u64 * 4;
                let peers = if is_worker { n..n + servers } else { 0..n };
                for peer in peers {
                    let (send, receive) =
                        if is_worker { (Kind::Aggregate, Kind::Broadcast) } else { (Kind::Broadcast, Kind::Aggregate) };
                    outs.push(Stream { peer, kind: send, lane: 0, bytes });
                    ins.push(Stream { peer, kind: receive, lane: 0, bytes });
                }
                (shard, if is_worker { shard * servers } else { shard })
            }
            Arch::Tree => {
                let bytes = real as u64 * 4;
                for peer in (rank * file.fanout + 1..=rank * file.fanout + file.fanout).take_while(|c| *c < n) {
                    ins.push(Stream { peer, kind: Kind::Reduce, lane: 0, bytes });
                    outs.push(Stream { peer, kind: Kind::Spread, lane: 0, bytes });
                }
                if rank > 0 {
                    let peer = (rank - 1) / file.fanout;
                    outs.push(Stream { peer, kind: Kind::Reduce, lane: 0, bytes });
                    ins.push(Stream { peer, kind: Kind::Spread, lane: 0, bytes });
                }
                (real, real)
            }
            // Plans have exchanges of their own.
            Arch::Plan | Arch::None => (0, 0),
        };
        let arrived = vec![0; ins.len()];
        Collective {
            rank,
            workers: n,
            server: rank.saturating_sub(n),
            is_worker,
            real,
            part,
            buffer: vec![0.0; len],
            streams: Streams { outs, ins, ..Streams::default() },
            arrived,
        }
    }

    /// How many bytes of outgoing stream `out` may have been sent by now.
    pub fn ready(&self, out: usize) -> u64 {
        let stream = &self.streams.outs[out];
        let least = |kind: Kind| {
            let of_kind = self.streams.ins.iter().zip(&self.arrived).filter(move |(s, _)| s.kind == kind);
            of_kind.map(|(_, arrived)| *arrived).min()
        };
        match stream.kind {
            // The rank's own first chunk, then whatever has arrived, one chunk later.
            Kind::Ring => (self.arrived[0] + self.part as u64 * 4).min(stream.bytes),
            Kind::Aggregate => stream.bytes,
            Kind::Broadcast => least(Kind::Aggregate).unwrap_or(0),
            Kind::Reduce => least(Kind::Reduce).unwrap_or(stream.bytes),
            // At the root the sum, elsewhere what the parent sent.
            Kind::Spread => least(Kind::Spread).or(least(Kind::Reduce)).unwrap_or(0),
            Kind::Trees | Kind::Steps | Kind::Transfers => 0,
        }
    }

    /// The next bytes of stream `out` from position `at`, at most `most` and at most what is ready.
    pub fn bytes(&self, out: usize, at: u64, most: usize) -> &[u8] {
        let length = usize::try_from(self.ready(out).saturating_sub(at)).unwrap_or(usize::MAX).min(most);
        let (start, left) = self.place(&self.streams.outs[out], at, 0);
        let bytes: &[u8] = bytemuck::cast_slice(&self.buffer);
        &bytes[start..start + length.min(left)]
    }

    /// Takes arriving floats of stream `input`: adds or copies them where they belong. Surplus is ignored.
    fn take(&mut self, input: usize, mut data: &[f32]) {
        let stream = self.streams.ins[input];
        while !data.is_empty() && self.arrived[input] < stream.bytes {
            let at = self.arrived[input];
            let (start, left) = self.place(&stream, at, 1);
            let (start, n) = (start / 4, (left / 4).min(data.len()));
            let reduces = match stream.kind {
                Kind::Ring => at / (self.part as u64 * 4) < self.workers as u64 - 1,
                Kind::Aggregate | Kind::Reduce => true,
                Kind::Broadcast | Kind::Spread | Kind::Trees | Kind::Steps | Kind::Transfers => false,
            };
            buffer::take(&mut self.buffer[start..start + n], &data[..n], reduces);
            self.arrived[input] += n as u64 * 4;
            data = &data[n..];
        }
    }

    /// Where byte `at` of a stream lies in the buffer, and how many bytes lie there in one piece. A ring's step k
    /// carries chunk rank−k; the receiving end is one rank on, so `shift` is 1 there.
    fn place(&self, stream: &Stream, at: u64, shift: usize) -> (usize, usize) {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        let part = self.part * 4;
        match stream.kind {
            Kind::Ring => {
                let (step, offset) = (at / part, at % part);
                let chunk = (self.rank + 2 * self.workers - step % self.workers - shift) % self.workers;
                (chunk * part + offset, part - offset)
            }
            Kind::Aggregate | Kind::Broadcast if self.is_worker => {
                let shard = stream.peer - self.workers;
                (shard * part + at, part - at)
            }
            _ => (at, part - at),
        }
    }
}

impl Exchange for Collective {
    fn streams(&self) -> &Streams {
        &self.streams
    }
    fn begin(&mut self, iteration: u64) {
        self.arrived.fill(0);
        if self.is_worker {
            buffer::fill(&mut self.buffer, self.real, self.rank, iteration);
        } else {
            self.buffer.fill(0.0);
        }
    }
    fn next(&mut self, out: usize, at: u64, most: usize) -> [&[u8]; 2] {
        [&[], self.bytes(out, at, most)]
    }
    fn arrived(&self, input: usize) -> u64 {
        self.arrived[input]
    }
    fn accept(&mut self, input: usize, data: &[f32]) -> Result<(), JobError> {
        self.take(input, data);
        Ok(())
    }
    fn wrong(&self, iteration: u64) -> Option<Difference> {
        let first = if self.is_worker { 0 } else { self.server * self.part };
        buffer::wrong(&self.buffer, first, self.real, self.workers, iteration)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Member;
    use std::net::Ipv4Addr;

    fn job(arch: Arch, workers: usize, servers: usize, bytes: u64) -> Vec<Collective> {
        let member = Member { host: "h0".into(), address: Ipv4Addr::LOCALHOST, port: 1, rails: Vec::new() };
        let members = vec![member; workers + servers];
        (0..workers + servers)
            .map(|rank| {
                let text = serde_json::json!({"job": "j", "arch": arch, "rank": rank, "members": members,
                    "workers": workers, "bytes": bytes, "iterations": 1});
                Collective::new(&serde_json::from_value(text).unwrap())
            })
            .collect()
    }

    /// Moves bytes between members in pieces of seeded sizes until nothing moves.
    fn exchange(members: &mut [Collective], mut seed: u64) {
        let mut sent: Vec<Vec<u64>> = members.iter().map(|m| vec![0; m.outs().len()]).collect();
        loop {
            let mut moved = false;
            for m in 0..members.len() {
                for (out, done) in sent[m].iter_mut().enumerate() {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let most = 4 * (1 + (seed >> 40) as usize % 50);
                    let stream = members[m].outs()[out];
                    let piece: Vec<f32> = bytemuck::pod_collect_to_vec(members[m].bytes(out, *done, most));
                    *done += piece.len() as u64 * 4;
                    moved |= !piece.is_empty();
                    let to = &mut members[stream.peer];
                    let input = to.ins().iter().position(|s| s.peer == m && s.kind == stream.kind).unwrap();
                    to.accept(input, &piece).unwrap();
                }
            }
            if !moved {
                break;
            }
        }
        for (m, sent) in members.iter().zip(sent) {
            for (stream, sent) in m.outs().iter().zip(sent) {
                assert_eq!(stream.bytes, sent);
            }
        }
    }

    #[test]
    fn every_pattern_reduces_exactly() {
        for (arch, workers, servers) in [
            (Arch::Ring, 2, 0),
            (Arch::Ring, 3, 0),
            (Arch::Ring, 5, 0),
            (Arch::Ps, 2, 2),
            (Arch::Ps, 3, 1),
            (Arch::Ps, 1, 4),
            (Arch::Tree, 2, 0),
            (Arch::Tree, 6, 0),
        ] {
            for bytes in [4, 1_000, 4_097] {
                let mut members = job(arch, workers, servers, bytes);
                for iteration in 0..3 {
                    members.iter_mut().for_each(|m| m.begin(iteration));
                    exchange(&mut members, iteration + bytes);
                    for (rank, m) in members.iter().enumerate() {
                        assert!(m.complete(), "{arch:?} {workers}+{servers} rank {rank}");
                        assert_eq!(m.wrong(iteration), None, "{arch:?} {workers}+{servers} rank {rank}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_ring_may_lead_by_its_own_chunk_only() {
        let mut members = job(Arch::Ring, 3, 0, 3_000);
        members.iter_mut().for_each(|m| m.begin(0));
        assert_eq!(members[0].ready(0), 1_000);
        members[0].accept(0, &[0.0; 10]).unwrap();
        assert_eq!(members[0].ready(0), 1_040);
    }

    #[test]
    fn lone_workers_have_no_streams() {
        let mut members = job(Arch::Ring, 1, 0, 100);
        members[0].begin(4);
        assert!(members[0].complete());
        assert_eq!(members[0].wrong(4), None);
    }
}
