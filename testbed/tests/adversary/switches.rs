//! A7: what a switch of the cluster can do to hosts that believe it, on the whole system: real daemons that enforce, and in the
//! switch's place a process that lies.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use sluice_schedule::{Announcement, BootId, Bytes, Feedback, HolderId, HostId, LinkId, LinkView, Rate};
use sluice_testbed::experiment::live::Live;
use sluice_wire::hello::{self, HolderInfo, Welcome};
use sluice_wire::pb::switch_server::{Switch, SwitchServer};
use sluice_wire::session::read_announcements;
use sluice_wire::{convert, limits, pb};
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Request, Response, Status, Streaming};

use crate::attacker::turn;
use crate::liars::{fabric, fabric_of, snapshot, until};
use crate::programs::value;

/// How it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Lie {
    /// Every link is empty, and carries far more than it does.
    Empty,
    /// Every link is full, of other hosts' promises and of unmanaged traffic.
    Full,
    /// Every link is full of other hosts' promises alone, which leaves flows their floor.
    Promised,
    /// Of links that nobody asked for.
    Unasked,
    /// It is another process with every word.
    Boots,
    /// More than anybody asked for, again and again.
    Flood,
}

#[derive(Clone)]
struct Rogue {
    lie: Arc<Mutex<Lie>>,
    boots: Arc<AtomicU64>,
    /// How often it told each lie.
    told: Arc<Mutex<BTreeMap<Lie, u64>>>,
    holder: (HolderId, String),
}

impl Rogue {
    fn lie(&self) -> Lie {
        *self.lie.lock().expect("nobody panics with it")
    }

    fn answer(&self, announcement: &Announcement) -> Feedback {
        let lie = self.lie();
        *self.told.lock().expect("nobody panics with it").entry(lie).or_default() += 1;
        let boot = match lie {
            Lie::Boots => self.boots.fetch_add(1, Ordering::Relaxed),
            _ => 7,
        };
        let full = Rate::mbps(200);
        let view = |link: LinkId| match lie {
            Lie::Full => LinkView { link, capacity: full, cross: full, load: vec![full; 10], ..LinkView::default() },
            Lie::Promised => LinkView { link, capacity: full, load: vec![full; 10], ..LinkView::default() },
            _ => LinkView { link, capacity: Rate::mbps(100_000), load: vec![Rate::ZERO; 10], ..LinkView::default() },
        };
        let mut links: Vec<LinkView> = announcement.watch.iter().map(|link| view(*link)).collect();
        match lie {
            Lie::Unasked => links.extend((900..1_000).map(|port| view(LinkId::new(self.holder.0.0, port)))),
            Lie::Flood => links = (0..4_000).map(|port| view(LinkId::new(self.holder.0.0, port))).collect(),
            _ => {}
        }
        let (seq, slot) = (announcement.seq, announcement.slot);
        Feedback { boot: BootId(boot), seq, slot, warm: true, links, ..Feedback::default() }
    }
}

type Messages = Pin<Box<dyn tokio_stream::Stream<Item = Result<pb::HolderMessage, Status>> + Send>>;

#[tonic::async_trait]
impl Switch for Rogue {
    type SessionStream = Messages;

    async fn session(&self, request: Request<Streaming<pb::HostMessage>>) -> Result<Response<Messages>, Status> {
        let mut stream = request.into_inner();
        let first = stream.message().await?.unwrap_or_default();
        let theirs = hello::read(first.hello)?;
        let (id, name) = self.holder.clone();
        let welcome = Welcome {
            hello: hello::Hello { name: name.clone(), host: HostId::of(&name), boot: BootId(7), ..theirs },
            holders: vec![HolderInfo { id, name, boot: BootId(7), warm: true }],
        };
        let (to, answers) = tokio::sync::mpsc::channel(64);
        let begun = pb::HolderMessage { welcome: Some((&welcome).into()), feedback: Vec::new() };
        to.send(Ok(begun)).await.map_err(|_| Status::unavailable("gone"))?;
        let rogue = self.clone();
        tokio::spawn(async move {
            while let Ok(Some(message)) = stream.message().await {
                let Ok(announcements) = read_announcements(message.announcements) else { return };
                for (holder, announcement) in announcements {
                    let times = if rogue.lie() == Lie::Flood { 10 } else { 1 };
                    for _ in 0..times {
                        let feedback = vec![convert::from_feedback(holder, &rogue.answer(&announcement))];
                        if to.send(Ok(pb::HolderMessage { welcome: None, feedback })).await.is_err() {
                            return;
                        }
                    }
                }
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(answers))))
    }

    async fn fetch_feedback(&self, _: Request<pb::FetchRequest>) -> Result<Response<pb::HolderMessage>, Status> {
        Err(Status::unimplemented("no"))
    }

    async fn update_schedule(&self, _: Request<pb::HostMessage>) -> Result<Response<pb::HolderMessage>, Status> {
        Err(Status::unimplemented("no"))
    }
}

/// A rogue in the place of all switches of a run, as long as this lives.
struct Place {
    lie: Arc<Mutex<Lie>>,
    told: Arc<Mutex<BTreeMap<Lie, u64>>>,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
}

impl Place {
    fn take(live: &mut Live) -> Place {
        live.daemons.kill_switches();
        let lie = Arc::new(Mutex::new(Lie::Empty));
        let name = live.fabric.spec.switches[0].clone();
        let told = Arc::<Mutex<BTreeMap<Lie, u64>>>::default();
        let holder = (HolderId::of(&name), name);
        let rogue = Rogue { lie: lie.clone(), boots: Arc::default(), told: told.clone(), holder };
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let at = std::net::SocketAddr::from((live.fabric.management_address, 9604));
        let body = move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::bind(at).await.expect("bound");
                let served = limits::server().add_service(SwitchServer::new(rogue));
                let gone = async { drop(stopped.await) };
                drop(served.serve_with_incoming_shutdown(TcpListenerStream::new(listener), gone).await);
            });
        };
        drop(live.fabric.management.thread("rogue", body).expect("a thread"));
        Place { lie, told, stop: Some(stop) }
    }

    /// How often it told this lie to hosts.
    fn told(&self, lie: Lie) -> u64 {
        self.told.lock().expect("nobody panics with it").get(&lie).copied().unwrap_or(0)
    }

    fn tell(&self, lie: Lie) {
        *self.lie.lock().expect("nobody panics with it") = lie;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            let _ = stop.send(());
        }
    }
}

fn refused(live: &Live, what: &str) -> f64 {
    value(&live.daemons.get(0, "/metrics").expect("it answers"), &format!("sluice_refused_total{{what=\"{what}\"}}"))
}

/// Of the last so many seconds, Mbit/s.
fn rate(live: &mut Live, time: Duration) -> f64 {
    let from = sluice_testbed::job::now();
    live.run_for(time).expect("the job goes on, with every byte right");
    live.rate(0, from, sluice_testbed::job::now())
}

fn doubted(live: &Live) -> bool {
    snapshot(live)["conditions"].to_string().contains("feedback-doubted")
}

/// What the job of a cluster sends under an honest switch, and the rogue that hosts speak to in its place from then on.
fn taken_over(mut live: Live) -> (Live, f64, Place) {
    let honest = rate(&mut live, Duration::from_secs(2));
    let rogue = Place::take(&mut live);
    until(&mut live, "hosts speak to the rogue", |live| {
        rogue.told(Lie::Empty) > 0 && snapshot(live)["switches"][0]["state"] == "up"
    });
    (live, honest, rogue)
}

/// links that are said to be empty, or full.
#[test]
fn a_switch_that_says_empty_or_full_neither_bursts_nor_starves_a_job() {
    let Some(_turn) = turn() else { return };
    let dir = crate::attacker::dir();
    let (mut live, honest, rogue) = taken_over(fabric(dir.path(), Rate::mbps(200)));
    rogue.tell(Lie::Empty);
    let empty = rate(&mut live, Duration::from_secs(2));
    // Its own links are this host's word: orders stay within them, whatever a switch says that there is.
    let shown = snapshot(&live);
    let own: Vec<&Value> =
        shown["links"].as_array().expect("a list").iter().filter(|link| link["own"] == true).collect();
    assert!(!own.is_empty(), "{shown}");
    for link in own {
        let (next, capacity) =
            (link["next_bps"][0].as_u64().unwrap_or(0), link["capacity_bps"].as_u64().expect("known"));
        assert!(next <= capacity, "{link}");
    }
    rogue.tell(Lie::Full);
    live.run_for(Duration::from_secs(1)).expect("the job goes on");
    let before = rogue.told(Lie::Full);
    let full = rate(&mut live, Duration::from_secs(3));
    assert!(before > 0 && rogue.told(Lie::Full) > before, "the lie was not told");
    let said = snapshot(&live)["conditions"].to_string();
    println!(
        "{honest:.1} Mbit/s under an honest switch, {empty:.1} under an empty lie, {full:.1} under a full one; {said}"
    );
    assert!(empty >= 0.9 * honest, "{empty} of {honest}");
    // What is said to be full of strangers and is not is used all the same: it leaves nothing to order, and a flow
    // without an order is ordinary TCP.
    assert!(full >= 0.75 * honest, "{full} of {honest}");
}

/// links that are said to be promised to others whole, while a job has them to itself.
#[test]
fn a_switch_that_says_full_where_a_flow_fills_the_link_is_doubted() {
    let Some(_turn) = turn() else { return };
    let dir = crate::attacker::dir();
    // A round lasts for many slots, so that a flow fills five in a row; and what it takes beyond its floor ends with a
    // loss, not with the queue of a busy machine.
    let live = fabric_of(dir.path(), Rate::mbps(200), Bytes(40_000_000), "surplus = \"always\"\n");
    let (mut live, honest, rogue) = taken_over(live);
    let before = refused(&live, "feedback");
    rogue.tell(Lie::Promised);
    until(&mut live, "it is doubted", doubted);
    until(&mut live, "what it says then is counted and not heard", |live| refused(live, "feedback") > before);
    let lied = rate(&mut live, Duration::from_secs(3));
    println!("{honest:.1} Mbit/s under an honest switch, {lied:.1} under one that says that all is promised");
    assert!(rogue.told(Lie::Promised) > 0, "the lie was not told");
    assert!(lied >= 0.6 * honest, "{lied} of {honest}");
    // Nothing that is measured contradicts this one.
    rogue.tell(Lie::Empty);
    until(&mut live, "it is believed again", |live| !doubted(live));
}

/// links that nobody asked for, another process with every word, and far too much.
#[test]
fn a_switch_that_says_too_much_or_is_another_one_each_time_is_counted_and_left_alone() {
    let Some(_turn) = turn() else { return };
    let dir = crate::attacker::dir();
    let (mut live, honest, rogue) = taken_over(fabric(dir.path(), Rate::mbps(200)));
    rogue.tell(Lie::Unasked);
    until(&mut live, "links nobody asked for are counted", |live| refused(live, "view") >= 100.0);
    rogue.tell(Lie::Flood);
    let flooded = rate(&mut live, Duration::from_secs(2));
    assert!(rogue.told(Lie::Flood) >= 10, "the flood did not come: {}", rogue.told(Lie::Flood));
    let memory = value(&live.daemons.get(0, "/metrics").expect("it answers"), "process_resident_memory_bytes");
    rogue.tell(Lie::Boots);
    until(&mut live, "it is doubted", doubted);
    until(&mut live, "its words are counted", |live| refused(live, "feedback") >= 1.0);
    let doubted = rate(&mut live, Duration::from_secs(2));
    println!(
        "{honest:.1} Mbit/s under an honest switch, {flooded:.1} under a flood, {doubted:.1} when it is doubted; {memory} bytes"
    );
    assert!(doubted >= 0.9 * honest, "{doubted} of {honest}");
    // What comes through a flood is old by then, and a host goes by what it knows itself.
    assert!(flooded >= 0.9 * honest, "{flooded} of {honest}");
    assert!(memory > 0.0 && memory < 128e6, "{memory} bytes");
}
