//! A job over hosts with several cards: a collective on each of them for an equal part of the gradient, as NCCL's channels
//! are. They share nothing but the job's rounds.

use super::JobError;
use super::buffer::Difference;
use super::collective::Collective;
use super::exchange::{Exchange, Stream, Streams};
use super::file::JobFile;

/// One member's collectives, one for each card.
#[derive(Debug)]
pub struct Channels {
    parts: Vec<Collective>,
    /// Of all of them; the lane of a stream is its channel.
    streams: Streams,
    /// For each stream, out and in: its channel and its place there.
    outs: Vec<(usize, usize)>,
    ins: Vec<(usize, usize)>,
    /// Elements of each part but the last.
    each: usize,
}

impl Channels {
    /// The member `file.rank` of the job, with so many channels.
    pub fn new(file: &JobFile, channels: usize) -> Channels {
        let elements = file.bytes.div_ceil(4);
        let each = elements.div_ceil(channels.max(1) as u64).max(1);
        let parts = (0..channels as u64).map(|channel| elements.saturating_sub(channel * each).min(each));
        // With fewer elements than cards the last ones have nothing to do.
        let parts: Vec<Collective> =
            parts.filter(|part| *part > 0).map(|part| Collective::of_bytes(file, part * 4)).collect();
        let list = |of: fn(&Collective) -> &[Stream]| {
            let streams = parts.iter().enumerate().flat_map(move |(channel, part)| {
                of(part).iter().enumerate().map(move |(at, stream)| ((channel, at), *stream))
            });
            let lane = |(place, stream): ((usize, usize), Stream)| (place, Stream { lane: place.0 as u32, ..stream });
            streams.map(lane).unzip()
        };
        let (outs, out_streams): (Vec<_>, Vec<_>) = list(|part| part.outs());
        let (ins, in_streams): (Vec<_>, Vec<_>) = list(|part| part.ins());
        let streams = Streams { identity: format!(" by {channels}"), outs: out_streams, ins: in_streams };
        Channels { parts, streams, outs, ins, each: usize::try_from(each).unwrap_or(usize::MAX) }
    }
}

impl Exchange for Channels {
    fn streams(&self) -> &Streams {
        &self.streams
    }
    fn begin(&mut self, iteration: u64) {
        self.parts.iter_mut().for_each(|part| part.begin(iteration));
    }
    fn next(&mut self, out: usize, at: u64, most: usize) -> [&[u8]; 2] {
        let (channel, place) = self.outs[out];
        self.parts[channel].next(place, at, most)
    }
    fn arrived(&self, input: usize) -> u64 {
        let (channel, place) = self.ins[input];
        self.parts[channel].arrived(place)
    }
    fn accept(&mut self, input: usize, data: &[f32]) -> Result<(), JobError> {
        let (channel, place) = self.ins[input];
        self.parts[channel].accept(place, data)
    }
    fn wrong(&self, iteration: u64) -> Option<Difference> {
        self.parts.iter().enumerate().find_map(|(channel, part)| {
            let wrong = part.wrong(iteration)?;
            Some(Difference { element: wrong.element + channel * self.each, ..wrong })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{Arch, Member};
    use std::net::Ipv4Addr;

    fn job(arch: Arch, workers: usize, servers: usize, bytes: u64, channels: usize) -> Vec<Channels> {
        let member = Member { host: "h0".into(), address: Ipv4Addr::LOCALHOST, port: 1, rails: Vec::new() };
        let members = vec![member; workers + servers];
        let file = |rank| {
            let text = serde_json::json!({"job": "j", "arch": arch, "rank": rank, "members": members,
                "workers": workers, "bytes": bytes, "iterations": 1});
            serde_json::from_value(text).expect("a job file")
        };
        (0..workers + servers).map(|rank| Channels::new(&file(rank), channels)).collect()
    }

    #[test]
    fn every_channel_reduces_its_part() {
        for (arch, workers, servers) in [(Arch::Ring, 3, 0), (Arch::Ps, 2, 2), (Arch::Tree, 3, 0)] {
            for (bytes, channels) in [(4, 3), (4_097, 2), (40_000, 4)] {
                let mut members = job(arch, workers, servers, bytes, channels);
                members.iter_mut().for_each(|member| member.begin(1));
                let mut sent: Vec<Vec<u64>> = members.iter().map(|member| vec![0; member.outs().len()]).collect();
                loop {
                    let mut moved = false;
                    for m in 0..members.len() {
                        for out in 0..sent[m].len() {
                            let stream = members[m].outs()[out];
                            let [_, piece] = members[m].next(out, sent[m][out], 400);
                            let piece: Vec<f32> = bytemuck::pod_collect_to_vec(piece);
                            moved |= !piece.is_empty();
                            sent[m][out] += piece.len() as u64 * 4;
                            let alike = |s: &Stream| (s.peer, s.kind, s.lane) == (m, stream.kind, stream.lane);
                            let input = members[stream.peer].ins().iter().position(alike).expect("the other end");
                            members[stream.peer].accept(input, &piece).expect("taken");
                        }
                    }
                    if !moved {
                        break;
                    }
                }
                for member in &members {
                    assert!(member.complete() && member.wrong(1).is_none(), "{arch:?} {bytes} by {channels}");
                }
            }
        }
    }
}
