//! `sluice top`: the live view. It polls the daemon, or plays a file, keeps a short history of rates, and draws; keys change
//! only what is shown.

mod app;
pub mod args;
mod draw;
mod replay;

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use crossterm::event::{self, Event, KeyCode, KeyEventKind};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use sluice_wire::snapshot::Explanation;

use crate::client::Client;
use crate::failure::Failure;
use crate::global::Global;
use crate::past::{Past, explained};
use crate::{output, view};
use app::{After, App};
use args::TopArgs;
use replay::{Moved, Player};

/// Size of the frame that `--once` prints where stdout is no terminal.
const ONCE_SIZE: (u16, u16) = (120, 40);

pub fn run(global: &Global, args: &TopArgs) -> Result<(), Failure> {
    let mut app = App::new(args.job.as_deref(), output::colors(global));
    let mut source = match &args.replay {
        Some(file) => Source::File(Box::new(Player::new(Past::load(file)?, Duration::from_nanos(args.at.0)))),
        None => Source::Daemon(Client::new(global)?),
    };
    // Refused before the screen is taken over: the message stays readable.
    source.first(&mut app)?;
    if args.once || !std::io::stdout().is_terminal() {
        return output::print(&frame(&app)?);
    }
    let mut terminal = ratatui::try_init()?;
    let result = watch(&mut terminal, &mut source, &mut app, Duration::from_secs_f64(1.0 / f64::from(args.hz)));
    ratatui::restore();
    result
}

/// Where states come from.
enum Source<'a> {
    Daemon(Client<'a>),
    File(Box<Player>),
}

impl Source<'_> {
    fn first(&mut self, app: &mut App) -> Result<(), Failure> {
        match self {
            Source::Daemon(client) => app.take(client.snapshot()?),
            Source::File(player) => show(player, app),
        }
        Ok(())
    }

    /// So much time is over since the last one.
    fn next(&mut self, app: &mut App, elapsed: Duration) {
        match self {
            Source::Daemon(client) => match client.snapshot() {
                Ok(snapshot) => app.take(snapshot),
                Err(failure) => app.lost(&failure.to_string()),
            },
            Source::File(player) => moved(player.advance(elapsed), player, app),
        }
    }

    /// Keys of a replay; false: it is none of them.
    fn key(&mut self, app: &mut App, code: KeyCode) -> bool {
        let Source::File(player) = self else { return false };
        if app.typing {
            return false;
        }
        if code == KeyCode::Char(' ') {
            app.paused = !app.paused;
            return true;
        }
        let Some(done) = player.key(code) else { return false };
        app.paused |= replay::is_step(code);
        moved(done, player, app);
        true
    }

    fn explain(&self, app: &App, flow: &str) -> String {
        let told = match self {
            Source::Daemon(client) => client
                .json::<Explanation>(&format!("/api/v1/explain/{flow}"))
                .map(|explanation| view::explain(&explanation, &app.snapshot)),
            Source::File(player) => explained::reasons(player.past(), flow, player.at()).map(|all| {
                let text = |reason| explained::text(reason, player.past().slot_length_ns);
                all.iter().map(text).collect::<Vec<_>>().join("\n")
            }),
        };
        told.unwrap_or_else(|failure| failure.to_string())
    }

    /// Writes what the last minute was, into the working directory.
    fn timeline(&self) -> String {
        let Source::Daemon(client) = self else { return "this is a file already".into() };
        let seconds = sluice_clock::realtime().0 / 1_000_000_000;
        let name = format!("sluice-timeline-{seconds}.json");
        let written =
            client.get("/api/v1/timeline?last=60s&format=chrome").and_then(|bytes| Ok(std::fs::write(&name, bytes)?));
        match written {
            Ok(()) => format!("wrote {name}: opens in ui.perfetto.dev, and with sluice top --replay"),
            Err(failure) => failure.to_string().lines().next().unwrap_or_default().to_owned(),
        }
    }
}

fn moved(done: Moved, player: &Player, app: &mut App) {
    if done == Moved::Jumped {
        app.forget();
    }
    match done {
        Moved::No => app.playing = Some(player.playing()),
        Moved::On | Moved::Jumped => show(player, app),
    }
}

fn show(player: &Player, app: &mut App) {
    app.take(player.past().snapshot(player.at()));
    app.playing = Some(player.playing());
}

fn watch(
    terminal: &mut ratatui::DefaultTerminal,
    source: &mut Source<'_>,
    app: &mut App,
    step: Duration,
) -> Result<(), Failure> {
    let mut last = Instant::now();
    let mut next = last + step;
    loop {
        terminal.draw(|frame| draw::draw(app, frame))?;
        let left = next.saturating_duration_since(Instant::now());
        if event::poll(left)? {
            if let Event::Key(key) = event::read()?
                && key.kind == KeyEventKind::Press
                && !source.key(app, key.code)
            {
                match app.key(key.code, key.modifiers) {
                    After::Stay => {}
                    After::Quit => return Ok(()),
                    After::Explain(flow) => {
                        let text = source.explain(app, &flow);
                        app.explain(text);
                    }
                    After::Timeline => app.news = Some(source.timeline()),
                }
            }
            continue;
        }
        let now = Instant::now();
        next = now + step;
        if !app.paused {
            source.next(app, now - last);
        }
        last = now;
    }
}

/// One frame as text.
fn frame(app: &App) -> Result<String, Failure> {
    let (width, height) = match crossterm::terminal::size() {
        Ok(size) if std::io::stdout().is_terminal() => size,
        _ => ONCE_SIZE,
    };
    text(app, width, height)
}

fn text(app: &App, width: u16, height: u16) -> Result<String, Failure> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).map_err(Failure::failed)?;
    terminal.draw(|frame| draw::draw(app, frame)).map_err(Failure::failed)?;
    let buffer = terminal.backend().buffer();
    let mut out = String::new();
    for row in buffer.content().chunks(usize::from(width.max(1))) {
        let line: String = row.iter().map(|cell| cell.symbol()).collect();
        out += line.trim_end();
        out.push('\n');
    }
    Ok(out.trim_end().to_owned() + "\n")
}

#[cfg(test)]
mod tests;
