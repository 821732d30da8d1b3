//! Hosts that speak the protocol as themselves: what they say, and how an honest one is let in on a busy machine.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use sluice_schedule::{
    Announcement, BootId, Bytes, Feedback, FlowId, FlowPromise, HolderId, HostId, JobId, LinkId, Nanos, Rate, Refusal,
    Slot,
};
use sluice_wire::dial::Dial;
use sluice_wire::hello::{ClockSource, Grid, Hello};
use sluice_wire::refusal::RefusalId;
use sluice_wire::session::{SessionClient, SessionError, SessionReceiver};

use crate::attacker::PATIENCE;
use crate::programs::Switch;
use crate::wire::Proven;

const SLOT: Nanos = Nanos::from_millis(200);

pub fn slot() -> Slot {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    Slot((now.as_nanos() / u128::from(SLOT.0)) as u32)
}

pub fn hello(name: &str, boot: u64) -> Hello {
    let grid = Grid {
        cluster: "default".into(),
        slot_length: SLOT,
        horizon: 10,
        epoch: Nanos::ZERO,
        clock: ClockSource::Realtime,
    };
    Hello { grid, name: name.into(), host: HostId::of(name), boot: BootId(boot), slot: slot(), now: Nanos::ZERO }
}

/// A session of an honest host, which says hello anew with the slot of then while its hello comes too late: a slot or two may pass
/// before a busy machine reads it. Whatever else keeps it out is told at once.
pub async fn admitted(dial: &Dial, uri: &str, name: &str, boot: u64) -> Result<SessionClient, SessionError> {
    let began = Instant::now();
    loop {
        let hello = hello(name, boot);
        let connecting = SessionClient::connect_by(dial, uri, &hello);
        match tokio::time::timeout(PATIENCE, connecting).await.expect("in time") {
            Err(error) if error.refusal_id() == Some(RefusalId::SlotOffsetTooLarge) && began.elapsed() < PATIENCE => {}
            answer => return answer,
        }
    }
}

pub fn s0() -> HolderId {
    HolderId::of("s0")
}

pub fn port(port: u32) -> LinkId {
    LinkId::new(s0().0, port)
}

/// A host that announces, and hears.
pub struct Speaker {
    name: &'static str,
    pub client: SessionClient,
    seq: u64,
}

impl Speaker {
    pub async fn new(switch: &Switch, name: &'static str) -> Speaker {
        Speaker::of_boot(switch, name, 1).await
    }

    pub async fn of_boot(switch: &Switch, name: &'static str, boot: u64) -> Speaker {
        let client = admitted(&Dial::Plain, &switch.uri(), name, boot).await.expect("let in");
        Speaker { name, client, seq: 0 }
    }

    /// One that proves who it is.
    pub async fn proven(proven: &Proven, name: &'static str) -> Speaker {
        let client = admitted(&proven.host(name), &proven.switch.uri(), name, 1).await.expect("let in");
        Speaker { name, client, seq: 0 }
    }

    pub fn says(&mut self, rate: Rate, to: u32) -> Announcement {
        self.seq += 1;
        announcement(self.name, self.seq, to, rate)
    }

    pub fn announce(&self, announcement: Announcement) {
        self.client.sender.announce(s0(), announcement);
    }

    pub async fn hear(&mut self, fits: impl Fn(&Feedback) -> bool) -> Feedback {
        hear(&mut self.client.receiver, fits).await
    }

    /// Says this until it is answered, which only the first word of a slot is for sure; the answer. A word that a busy
    /// machine brought so late that its slot was over is said again.
    pub async fn insist(&mut self, mut word: Announcement) -> Feedback {
        let first = word.seq;
        let search = async {
            loop {
                self.announce(word.clone());
                let answer = hear(&mut self.client.receiver, |f| f.seq >= first || f.refused.is_some());
                if let Ok(heard) = tokio::time::timeout(Duration::from_nanos(SLOT.0), answer).await
                    && heard.refused != Some(Refusal::SlotGuard)
                {
                    return heard;
                }
                self.seq += 1;
                (word.seq, word.slot) = (self.seq, slot());
            }
        };
        tokio::time::timeout(PATIENCE, search).await.expect("in time")
    }

    pub async fn ask(&mut self, rate: Rate, to: u32) -> Feedback {
        let word = self.says(rate, to);
        self.insist(word).await
    }

    /// What others have on a port, by a word of this host itself.
    pub async fn load(&mut self, of: u32) -> Rate {
        let heard = self.ask(Rate::ZERO, of).await;
        let view = heard.links.iter().find(|view| view.link == port(of)).expect("it watches this port");
        view.load.first().copied().unwrap_or_default()
    }
}

async fn hear(receiver: &mut SessionReceiver, fits: impl Fn(&Feedback) -> bool) -> Feedback {
    let search = async {
        loop {
            let news = receiver.next().await.expect("the session lasts").expect("the session lasts");
            if let Some((_, feedback)) = news.into_iter().find(|(holder, f)| *holder == s0() && fits(f)) {
                return feedback;
            }
        }
    };
    tokio::time::timeout(PATIENCE, search).await.expect("in time")
}

/// Why a session ended.
pub async fn ending(receiver: &mut SessionReceiver) -> SessionError {
    let search = async {
        loop {
            match receiver.next().await {
                Ok(Some(_)) => {}
                Ok(None) => panic!("ended without a reason"),
                Err(error) => return error,
            }
        }
    };
    tokio::time::timeout(PATIENCE, search).await.expect("in time")
}

/// `rate` on a port of `s0`, watching both of its ports.
pub fn announcement(name: &str, seq: u64, to: u32, rate: Rate) -> Announcement {
    let host = HostId::of(name);
    let flow = FlowPromise {
        flow: FlowId(u64::from(host.0) << 32 | 1),
        job: JobId::of(name),
        key: Nanos::from_millis(100),
        takes: rate,
        rates: vec![rate; 10],
        demand: Bytes(1_000_000_000),
        links: vec![port(to)],
        ..FlowPromise::default()
    };
    let flows = if rate == Rate::ZERO { Vec::new() } else { vec![flow] };
    Announcement {
        host,
        boot: BootId(1),
        seq,
        slot: slot(),
        flows,
        watch: vec![port(0), port(1)],
        ..Announcement::default()
    }
}
