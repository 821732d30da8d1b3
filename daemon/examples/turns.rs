//! So many turns of the loop of a host with so many flows, for `valgrind --tool=callgrind`:
//! `turns FLOWS TURNS`. The difference of two runs with other TURNS is that of turns alone.

#![allow(clippy::disallowed_methods, reason = "it measures")]

use std::process::ExitCode;
use std::time::Instant;

use sluiced::Turns;

fn main() -> ExitCode {
    let mut numbers = std::env::args().skip(1).map(|argument| argument.parse::<u16>());
    let (Some(Ok(flows)), Some(Ok(count)), None) = (numbers.next(), numbers.next(), numbers.next()) else {
        eprintln!("turns FLOWS TURNS: how many flows, and how many turns; both below 65536");
        return ExitCode::from(2);
    };
    let dir = match tempfile::tempdir() {
        Ok(dir) => dir,
        Err(error) => {
            eprintln!("no directory for the flight record: {error}");
            return ExitCode::FAILURE;
        }
    };
    let mut turns = Turns::new(flows, dir.path());
    let began = Instant::now();
    (0..count).for_each(|_| turns.turn());
    println!("{count} turns of {flows} flows, {} of them ordered, in {:?}", turns.ordered(), began.elapsed());
    ExitCode::SUCCESS
}
