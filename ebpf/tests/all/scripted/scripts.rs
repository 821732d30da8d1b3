//! The scripts: a far end and a way to it, and what is expected of the congestion control.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt::TcpCongestion};
use sluice_ebpf::SocketEventKind;
use sluice_schedule::event::Allowance;
use sluice_schedule::{Bytes, Rate};

use super::script::{Bottleneck, Data, Fate, Habits};
use super::stage::{NO_THRESHOLD, ORDER, Outcome, Stage};
use crate::common::{Kernelled, Net};

pub struct Script {
    pub name: &'static str,
    pub run: fn(&Net, &mut Kernelled) -> Outcome,
}

macro_rules! script {
    ($name:ident) => {
        Script { name: stringify!($name), run: $name }
    };
}

macro_rules! ensure {
    ($holds:expr, $($why:tt)+) => {
        if !$holds {
            return Err(format!($($why)+));
        }
    };
}

/// The faults that every path has.
pub const ALWAYS: &[Script] = &[
    script!(nothing_happens),
    script!(small_segments),
    script!(no_timestamps),
    script!(one_segment_is_lost),
    script!(one_segment_in_three_is_lost),
    script!(one_segment_in_seven_is_late),
    script!(one_segment_in_twenty_is_marked),
    script!(the_far_end_is_silent),
    script!(the_window_closes_and_opens),
    script!(nobody_renews_the_order),
    script!(nobody_renews_and_nothing_comes_back),
    script!(what_is_in_flight_and_three_segments_are_left_to_the_next),
    script!(where_nothing_is_in_flight_ten_segments_are_left_to_the_next),
];

/// What is rarer, or differs in a habit only.
pub const FURTHER: &[Script] = &[
    script!(no_selective_acknowledgements),
    script!(one_segment_is_lost_without_selective_acknowledgements),
    script!(every_second_segment_is_acknowledged),
    script!(one_segment_in_sixteen_is_acknowledged),
    script!(a_long_round_trip),
    script!(eight_segments_in_a_row_are_lost),
    script!(one_segment_in_fifty_is_lost),
    script!(the_end_of_a_burst_is_lost),
    script!(the_far_end_has_little_room),
    script!(the_path_is_slower_than_the_order),
    script!(the_daemon_gives_it_back),
    script!(an_order_of_nothing),
    script!(a_pause),
    script!(the_far_end_ends_its_side),
    script!(the_far_end_resets),
    script!(a_surplus_grows_and_a_loss_halves_it),
];

/// TCP_CLOSE and TCP_CLOSE_WAIT of the kernel.
const CLOSED: u32 = 7;
const CLOSE_WAIT: u32 = 8;

fn all_arrive(_: &Data) -> Fate {
    Fate::Arrives
}

/// A far end with these habits, to which everything arrives: the order is followed.
fn habits(net: &Net, kernel: &mut Kernelled, habits: Habits) -> Outcome {
    let mut stage = Stage::open(net, kernel, habits, all_arrive)?;
    stage.run(Duration::from_millis(200));
    stage.follows()?;
    stage.moves()?;
    stage.follows()?;
    let segment = stage.peer().seen().largest;
    ensure!(segment <= u32::from(habits.mss), "segments of {segment} bytes, where {} were allowed", habits.mss);
    Ok(())
}

fn nothing_happens(net: &Net, kernel: &mut Kernelled) -> Outcome {
    habits(net, kernel, Habits::default())
}

fn small_segments(net: &Net, kernel: &mut Kernelled) -> Outcome {
    habits(net, kernel, Habits { mss: 536, ..Habits::default() })
}

fn no_timestamps(net: &Net, kernel: &mut Kernelled) -> Outcome {
    habits(net, kernel, Habits { timestamps: false, ..Habits::default() })
}

fn no_selective_acknowledgements(net: &Net, kernel: &mut Kernelled) -> Outcome {
    habits(net, kernel, Habits { sack: false, ..Habits::default() })
}

fn every_second_segment_is_acknowledged(net: &Net, kernel: &mut Kernelled) -> Outcome {
    habits(net, kernel, Habits { every: 2, ..Habits::default() })
}

fn one_segment_in_sixteen_is_acknowledged(net: &Net, kernel: &mut Kernelled) -> Outcome {
    habits(net, kernel, Habits { every: 16, ..Habits::default() })
}

fn a_long_round_trip(net: &Net, kernel: &mut Kernelled) -> Outcome {
    habits(net, kernel, Habits { round_trip: Duration::from_millis(80), ..Habits::default() })
}

/// What is lost once and arrives the second time costs neither rate nor window: an order is no guess about the path.
fn lost_once(net: &Net, kernel: &mut Kernelled, habits: Habits, lost: std::ops::Range<u64>) -> Outcome {
    let count = lost.end - lost.start;
    let fate = move |data: &Data| if lost.contains(&data.number) { Fate::Lost } else { Fate::Arrives };
    let mut stage = Stage::open(net, kernel, habits, fate)?;
    let before = stage.kernel().path().counters().loss_trips;
    stage.until("what was lost was sent again", |stage| stage.peer().seen().again >= count)?;
    stage.run(Duration::from_millis(200));
    stage.follows()?;
    stage.moves()?;
    let trips = stage.kernel().path().counters().loss_trips - before;
    ensure!(trips == 0, "the loss guard tripped {trips} times");
    let sent = u64::from(stage.info().tcpi_total_retrans);
    ensure!(sent >= count && sent <= 4 * count + 8, "{count} lost, {sent} sent again; {}", stage.told());
    Ok(())
}

fn one_segment_is_lost(net: &Net, kernel: &mut Kernelled) -> Outcome {
    lost_once(net, kernel, Habits::default(), 200..201)
}

fn one_segment_is_lost_without_selective_acknowledgements(net: &Net, kernel: &mut Kernelled) -> Outcome {
    lost_once(net, kernel, Habits { sack: false, ..Habits::default() }, 200..201)
}

fn eight_segments_in_a_row_are_lost(net: &Net, kernel: &mut Kernelled) -> Outcome {
    lost_once(net, kernel, Habits::default(), 200..208)
}

/// Random loss below the guard's bar costs nothing.
fn one_segment_in_fifty_is_lost(net: &Net, kernel: &mut Kernelled) -> Outcome {
    let fate = |data: &Data| if data.number % 50 == 49 { Fate::Lost } else { Fate::Arrives };
    let mut stage = Stage::open(net, kernel, Habits::default(), fate)?;
    let before = stage.kernel().path().counters().loss_trips;
    stage.run(Duration::from_millis(800));
    stage.follows()?;
    stage.moves()?;
    let trips = stage.kernel().path().counters().loss_trips - before;
    ensure!(trips == 0, "the loss guard tripped {trips} times");
    ensure!(stage.peer().seen().again > 10, "hardly anything was lost: {}", stage.told());
    Ok(())
}

/// An order that the path does not carry: capped at what arrives first, given back when that does not help, left alone for a
/// while, and for longer when it is so once more.
fn one_segment_in_three_is_lost(net: &Net, kernel: &mut Kernelled) -> Outcome {
    static LOSES: AtomicBool = AtomicBool::new(true);
    LOSES.store(true, Ordering::Relaxed);
    let lost = |n: u64| LOSES.load(Ordering::Relaxed) && n > 100 && n.is_multiple_of(3);
    let fate = move |data: &Data| if lost(data.number) { Fate::Lost } else { Fate::Arrives };
    let mut stage = Stage::open(net, kernel, Habits::default(), fate)?;
    let before = stage.kernel().path().counters().loss_trips;
    stage.until("the loss guard caps it", |stage| {
        let capped = stage.stats().is_ok_and(|stats| stats.loss_guard && stats.pacing_rate < ORDER);
        capped || stage.kernel().path().counters().loss_trips > before
    })?;
    let mut plain = [Duration::ZERO; 2];
    for time in &mut plain {
        stage.is_given_back(SocketEventKind::LossGuard)?;
        LOSES.store(false, Ordering::Relaxed);
        *time = stage.plain_for()?;
        LOSES.store(true, Ordering::Relaxed);
    }
    ensure!(plain[0] > Duration::from_secs(1) && plain[1] > plain[0] * 3 / 2, "plain for {plain:?}");
    Ok(())
}

/// Segments that overtake others are no loss.
fn one_segment_in_seven_is_late(net: &Net, kernel: &mut Kernelled) -> Outcome {
    let late = Duration::from_millis(2);
    let fate = move |data: &Data| if data.number % 7 == 6 { Fate::Late(late) } else { Fate::Arrives };
    let mut stage = Stage::open(net, kernel, Habits::default(), fate)?;
    let before = stage.kernel().path().counters().loss_trips;
    stage.run(Duration::from_millis(600));
    stage.follows()?;
    stage.moves()?;
    let trips = stage.kernel().path().counters().loss_trips - before;
    ensure!(trips == 0, "the loss guard tripped {trips} times");
    Ok(())
}

/// A mark is answered, as the far end wants to see, and changes no order.
fn one_segment_in_twenty_is_marked(net: &Net, kernel: &mut Kernelled) -> Outcome {
    let fate = |data: &Data| if data.number % 20 == 19 { Fate::Marked } else { Fate::Arrives };
    let mut stage = Stage::open(net, kernel, Habits { ecn: true, ..Habits::default() }, fate)?;
    stage.until("a mark is answered", |stage| stage.peer().seen().answered > 0)?;
    stage.run(Duration::from_millis(200));
    stage.follows()?;
    stage.moves()
}

/// Retransmission time-outs: the second within a second may halve the rate, the flow stays managed as long as somebody
/// renews its order, and goes on when the far end is back.
fn the_far_end_is_silent(net: &Net, kernel: &mut Kernelled) -> Outcome {
    let mut stage = Stage::open(net, kernel, Habits::default(), all_arrive)?;
    stage.run(Duration::from_millis(300));
    stage.follows()?;
    stage.peer().deaf(true);
    stage.until("two time-outs", |stage| stage.info().tcpi_total_retrans >= 2)?;
    ensure!(stage.control().starts_with("sluice"), "given back while its order stands; {}", stage.told());
    let window = stage.info().tcpi_snd_cwnd;
    ensure!(window >= 4, "a window of {window}");
    stage.peer().deaf(false);
    let before = stage.peer().seen().bytes;
    stage.until("it goes on", |stage| stage.peer().seen().bytes > before + 100_000)?;
    let stats = stage.stats()?;
    ensure!(stats.pacing_rate <= ORDER && stats.pacing_rate.0 >= ORDER.0 / 4, "{stats:?}");
    ensure!(stage.control().starts_with("sluice"), "given back; {}", stage.told());
    // What the guards saw wears off, and the order holds again.
    stage.follows()
}

/// Room is the far end's affair: nothing is lost, and no guard says so.
fn the_window_closes_and_opens(net: &Net, kernel: &mut Kernelled) -> Outcome {
    let mut stage = Stage::open(net, kernel, Habits::default(), all_arrive)?;
    let before = stage.kernel().path().counters();
    stage.run(Duration::from_millis(200));
    stage.follows()?;
    stage.peer().room(0);
    stage.until("it is asked whether there is room", |stage| stage.peer().seen().probes > 0)?;
    stage.peer().room(Habits::default().window);
    stage.run(Duration::from_millis(200));
    stage.follows()?;
    stage.moves()?;
    let after = stage.kernel().path().counters();
    let trips = after.loss_trips - before.loss_trips;
    ensure!(trips == 0 && after.squeezes == before.squeezes, "{before:?}, then {after:?}");
    Ok(())
}

/// A far end that never has room for more than eight kilobytes: less than is ordered moves, and no guard says so.
fn the_far_end_has_little_room(net: &Net, kernel: &mut Kernelled) -> Outcome {
    let mut stage = Stage::open(net, kernel, Habits { window: 8192, ..Habits::default() }, all_arrive)?;
    let before = stage.kernel().path().counters();
    stage.run(Duration::from_millis(500));
    stage.follows()?;
    let after = stage.kernel().path().counters();
    ensure!(after.loss_trips == before.loss_trips, "{before:?}, then {after:?}");
    // At most one such window in each round trip.
    let rate = stage.stats()?.delivery_rate;
    ensure!(rate > Rate::ZERO && rate < Rate::mbps(5), "{rate} with so little room");
    Ok(())
}

/// The dead man's handle: its own control, slow start ends at what the order kept on the path.
fn nobody_renews_the_order(net: &Net, kernel: &mut Kernelled) -> Outcome {
    let mut stage = Stage::open(net, kernel, Habits::default(), all_arrive)?;
    stage.run(Duration::from_millis(200));
    stage.follows()?;
    let held = stage.info().tcpi_snd_cwnd;
    stage.nobody_renews();
    stage.is_given_back(SocketEventKind::Expired)?;
    let threshold = stage.info().tcpi_snd_ssthresh;
    ensure!((4..NO_THRESHOLD).contains(&threshold), "a threshold of {threshold} after a window of {held}");
    let before = stage.peer().seen().bytes;
    stage.until("it goes on plain", |stage| stage.peer().seen().bytes > before + 500_000)
}

/// The same while no acknowledgement comes that could do it: whoever sends again after a time-out is plain from then on.
fn nobody_renews_and_nothing_comes_back(net: &Net, kernel: &mut Kernelled) -> Outcome {
    let mut stage = Stage::open(net, kernel, Habits::default(), all_arrive)?;
    stage.run(Duration::from_millis(200));
    stage.follows()?;
    stage.peer().deaf(true);
    stage.nobody_renews();
    stage.is_given_back(SocketEventKind::Expired)?;
    let (info, before) = (stage.info(), stage.peer().seen().bytes);
    ensure!(info.tcpi_total_retrans > 0 && info.tcpi_snd_cwnd < 4, "not by a time-out: {}", stage.told());
    stage.peer().deaf(false);
    stage.until("it goes on plain", |stage| stage.peer().seen().bytes > before + 500_000)
}

/// Given back while segments are under way of which nothing is heard, so that their number and the window stand still.
fn what_is_in_flight_and_three_segments_are_left_to_the_next(net: &Net, kernel: &mut Kernelled) -> Outcome {
    let mut stage = Stage::open(net, kernel, Habits::default(), all_arrive)?;
    stage.run(Duration::from_millis(200));
    stage.follows()?;
    stage.peer().deaf(true);
    let mut flying = 0;
    stage.until("nothing leaves any more", |stage| {
        let before = stage.flying();
        stage.run(Duration::from_millis(10));
        flying = stage.flying();
        flying == before && flying > 20
    })?;
    // The application's own choice gives it back at once, and not with the next acknowledgement.
    setsockopt(&stage.stream, TcpCongestion, &"reno".into()).map_err(|e| e.to_string())?;
    let window = stage.info().tcpi_snd_cwnd;
    ensure!(window == flying + 3, "a window of {window} with {flying} in flight; {}", stage.told());
    stage.peer().deaf(false);
    let before = stage.peer().seen().bytes;
    stage.until("it goes on plain", |stage| stage.peer().seen().bytes > before + 500_000)
}

/// Given back by the first segment after a pause, while nothing comes back that would widen the window.
fn where_nothing_is_in_flight_ten_segments_are_left_to_the_next(net: &Net, kernel: &mut Kernelled) -> Outcome {
    let mut stage = Stage::open(net, kernel, Habits::default(), all_arrive)?;
    stage.run(Duration::from_millis(200));
    stage.follows()?;
    stage.sends(false);
    stage.until("it is silent", |stage| stage.stats().is_ok_and(|stats| stats.queued == Bytes::ZERO))?;
    stage.nobody_renews();
    stage.run(Duration::from_millis(300));
    stage.peer().deaf(true);
    stage.sends(true);
    stage.is_given_back(SocketEventKind::Expired)?;
    let (info, flying) = (stage.info(), stage.flying());
    ensure!(info.tcpi_total_retrans == 0, "looked at too late; {}", stage.told());
    ensure!(info.tcpi_snd_cwnd == 10 && flying <= 10, "{flying} in flight; {}", stage.told());
    stage.peer().deaf(false);
    let before = stage.peer().seen().bytes;
    stage.until("it goes on plain", |stage| stage.peer().seen().bytes > before + 500_000)
}

fn the_daemon_gives_it_back(net: &Net, kernel: &mut Kernelled) -> Outcome {
    let mut stage = Stage::open(net, kernel, Habits::default(), all_arrive)?;
    stage.run(Duration::from_millis(200));
    stage.nobody_renews();
    let row = stage.row;
    stage.kernel().path().release(row);
    stage.is_given_back(SocketEventKind::Released)?;
    let before = stage.peer().seen().bytes;
    stage.until("it goes on plain", |stage| stage.peer().seen().bytes > before + 500_000)?;
    // Nobody bars it from being taken again.
    let again = stage.take_again();
    ensure!(again.is_ok(), "not taken again: {again:?}");
    Ok(())
}

/// The floor stands under whatever is ordered.
fn an_order_of_nothing(net: &Net, kernel: &mut Kernelled) -> Outcome {
    let floor = kernel.options.floor;
    let mut stage = Stage::open(net, kernel, Habits::default(), all_arrive)?;
    stage.run(Duration::from_millis(100));
    stage.order = Rate::ZERO;
    stage.until("it is paced at the floor", |stage| stage.stats().is_ok_and(|stats| stats.pacing_rate == floor))?;
    stage.order = floor;
    stage.follows()
}

/// The last segments of a burst, which nothing follows that would tell of their loss.
fn the_end_of_a_burst_is_lost(net: &Net, kernel: &mut Kernelled) -> Outcome {
    let mut last_new = 0;
    // From the byte on where a burst of 200 kB is sure to be under way, four segments are lost, once each.
    let fate = move |data: &Data| {
        let lost = data.end > 150_000 && !data.again && last_new < 4;
        last_new += u32::from(lost);
        if lost { Fate::Lost } else { Fate::Arrives }
    };
    let mut stage = Stage::open(net, kernel, Habits::default(), fate)?;
    stage.until("half of it is sent", |stage| stage.peer().seen().bytes > 75_000)?;
    stage.sends(false);
    stage.until("all that was written has arrived", |stage| {
        stage.stats().is_ok_and(|stats| stats.queued == Bytes::ZERO)
    })?;
    ensure!(stage.peer().seen().again >= 1, "nothing was lost; {}", stage.told());
    ensure!(stage.control().starts_with("sluice"), "given back; {}", stage.told());
    stage.sends(true);
    stage.run(Duration::from_millis(200));
    stage.follows()
}

/// Twice what the path carries, into a queue of a third of a second: the queue is seen before anything is lost.
fn the_path_is_slower_than_the_order(net: &Net, kernel: &mut Kernelled) -> Outcome {
    let bottleneck = Bottleneck { bytes_per_second: 1_000_000, queue: Duration::from_millis(333) };
    let habits = Habits { bottleneck: Some(bottleneck), ..Habits::default() };
    let mut stage = Stage::open(net, kernel, habits, all_arrive)?;
    let before = stage.kernel().path().counters();
    stage.until("the queue is seen", |stage| stage.kernel().path().counters().squeezes > before.squeezes)?;
    stage.until("it is paced lower", |stage| {
        stage.stats().is_ok_and(|stats| stats.pacing_rate < ORDER && stats.pacing_rate >= Rate::mbps(4))
    })?;
    ensure!(stage.control().starts_with("sluice"), "given back; {}", stage.told());
    Ok(())
}

fn a_pause(net: &Net, kernel: &mut Kernelled) -> Outcome {
    let mut stage = Stage::open(net, kernel, Habits::default(), all_arrive)?;
    stage.run(Duration::from_millis(200));
    stage.sends(false);
    stage.until("it is silent", |stage| stage.stats().is_ok_and(|stats| stats.queued == Bytes::ZERO))?;
    stage.run(Duration::from_millis(200));
    stage.kernel().seen.clear();
    stage.sends(true);
    stage.event(SocketEventKind::Started)?;
    stage.run(Duration::from_millis(100));
    stage.follows()
}

/// A half-closed connection is held as any other.
fn the_far_end_ends_its_side(net: &Net, kernel: &mut Kernelled) -> Outcome {
    let mut stage = Stage::open(net, kernel, Habits::default(), all_arrive)?;
    stage.run(Duration::from_millis(200));
    stage.peer().ends_its_side();
    stage.until("its end is seen", |stage| u32::from(stage.info().tcpi_state) == CLOSE_WAIT)?;
    stage.run(Duration::from_millis(200));
    stage.follows()?;
    stage.moves()
}

fn the_far_end_resets(net: &Net, kernel: &mut Kernelled) -> Outcome {
    let mut stage = Stage::open(net, kernel, Habits::default(), all_arrive)?;
    stage.run(Duration::from_millis(200));
    stage.peer().resets();
    stage.until("the connection is gone", |stage| u32::from(stage.info().tcpi_state) == CLOSED)?;
    // The kernel keeps the socket, and it its row, until its program closes it.
    let row = stage.row;
    drop(stage);
    let closed = kernel.wait_for(|event| event.kind == SocketEventKind::Closed && event.row == row);
    ensure!(closed.is_some() && kernel.path().stats(row).is_none(), "a closed socket keeps its row");
    Ok(())
}

fn a_surplus_grows_and_a_loss_halves_it(net: &Net, kernel: &mut Kernelled) -> Outcome {
    // One loss every two thousand segments: some seconds of growth come before the next.
    let fate = |data: &Data| if data.number % 2000 == 1999 { Fate::Lost } else { Fate::Arrives };
    let mut stage = Stage::open(net, kernel, Habits::default(), fate)?;
    let before = stage.kernel().path().counters().surplus_cuts;
    stage.order = Rate::mbps(4);
    stage.surplus = Some(Allowance { up_to: Rate::mbps(32), yields: false });
    stage.until("it takes more than its order", |stage| {
        stage.stats().is_ok_and(|stats| stats.surplus > Rate::mbps(8) && stats.pacing_rate > Rate::mbps(12))
    })?;
    stage.until("a loss halves that", |stage| stage.kernel().path().counters().surplus_cuts > before)?;
    let stats = stage.stats()?;
    ensure!(stats.pacing_rate >= Rate::mbps(4), "below its order: {stats:?}");
    ensure!(stage.control().starts_with("sluice"), "given back; {}", stage.told());
    stage.surplus = None;
    stage.follows()
}
