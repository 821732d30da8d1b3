//! `sluice top`: the live view. It polls the daemon, keeps a short history of rates, and draws; keys change only what
//! is shown.

mod app;
mod draw;

use std::io::IsTerminal;
use std::time::{Duration, Instant};

use crossterm::event::{self, Event, KeyEventKind};
use ratatui::Terminal;
use ratatui::backend::TestBackend;

use crate::args::TopArgs;
use crate::client::Client;
use crate::failure::Failure;
use crate::global::Global;
use crate::output;
use app::{After, App};

/// Size of the frame that `--once` prints where stdout is no terminal.
const ONCE_SIZE: (u16, u16) = (120, 40);

pub fn run(global: &Global, args: &TopArgs) -> Result<(), Failure> {
    let client = Client::new(global)?;
    let mut app = App::new(args.job.as_deref(), output::colors(global));
    if args.once || !std::io::stdout().is_terminal() {
        app.take(client.snapshot()?);
        return output::print(&frame(&app)?);
    }
    // Refused before the screen is taken over: the message stays readable.
    app.take(client.snapshot()?);
    let mut terminal = ratatui::try_init()?;
    let result = watch(&mut terminal, &client, &mut app, Duration::from_secs_f64(1.0 / f64::from(args.hz)));
    ratatui::restore();
    result
}

fn watch(
    terminal: &mut ratatui::DefaultTerminal,
    client: &Client<'_>,
    app: &mut App,
    step: Duration,
) -> Result<(), Failure> {
    let mut next = Instant::now() + step;
    loop {
        terminal.draw(|frame| draw::draw(app, frame))?;
        let left = next.saturating_duration_since(Instant::now());
        if event::poll(left)? {
            if let Event::Key(key) = event::read()?
                && key.kind == KeyEventKind::Press
                && app.key(key.code, key.modifiers) == After::Quit
            {
                return Ok(());
            }
            continue;
        }
        next = Instant::now() + step;
        if !app.paused {
            match client.snapshot() {
                Ok(snapshot) => app.take(snapshot),
                Err(failure) => app.lost(&failure.to_string()),
            }
        }
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
