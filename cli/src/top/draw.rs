//! The frame: header, link bars, the main table, sparklines of the shown flows, one line of news.

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Borders, Cell, Paragraph, Row, Table, TableState, Wrap};
use sluice_wire::snapshot::{Flow, Severity, State};

use super::app::{App, Screen, Sort};
use crate::format::{bytes, flow_id, grouped, next_gbps, percent, rate, strip, time, word};
use crate::view::header;

/// Least size of a frame.
const MIN_SIZE: (u16, u16) = (80, 24);
/// Links shown above the jobs.
const LINKS: usize = 3;
const SPARK: usize = 24;

const HELP: &str = "\
q        quit                      j k, arrows   move the selection
Enter    open or close the job     f             all flows
l        all links                 s             order: rate, name, error
p        pause                     /             only names with this text in them
e        why this flow's rate      t             write a timeline of the last 60 s
Esc      back                      ?             this help

Of a file (--replay):
.  ,     a slot on, back           Right, Left   a second on, back
PgDn PgUp  ten seconds             g  G          begin, end
+  -     faster, slower            p, blank      pause

Strips show the next slots of the horizon, one character per slot: · nothing, █ full, ! more than full.
Sparklines show the last seconds: upper line ordered, lower line delivered, both of the same scale.
ERROR is the distance between ordered and delivered. WHY says what keeps a flow from more:
  rank, price, headroom, predecessor, successor, catch-up, floor, link-cap, loss-guard, uptake, plan,
  local-table, work-conserving, job, observe, no-demand. For one flow in full: sluice explain FLOW";

pub fn draw(app: &App, frame: &mut Frame<'_>) {
    let area = frame.area();
    if area.width < MIN_SIZE.0 || area.height < MIN_SIZE.1 {
        let text = format!("sluice top needs {}x{}, this is {}x{}", MIN_SIZE.0, MIN_SIZE.1, area.width, area.height);
        frame.render_widget(Paragraph::new(text).wrap(Wrap { trim: true }), area);
        return;
    }
    let conditions = app.snapshot.conditions.len().min(2) as u16;
    let links = app.links().iter().filter(|link| link.own).count().min(LINKS) as u16;
    let top = 3 + conditions + links;
    let [head, main, foot] =
        Layout::vertical([Constraint::Length(top), Constraint::Min(8), Constraint::Length(1)]).areas(area);
    frame.render_widget(Paragraph::new(head_lines(app, usize::from(area.width))), head);
    match app.screen {
        Screen::Help => {
            let block = Block::default().borders(Borders::TOP).title(" keys ");
            frame.render_widget(Paragraph::new(HELP).block(block).wrap(Wrap { trim: false }), main);
        }
        Screen::Explained => {
            let block = Block::default().borders(Borders::TOP).title(" why ");
            frame.render_widget(Paragraph::new(app.explained.as_str()).block(block).wrap(Wrap { trim: false }), main);
        }
        Screen::Links => links_table(app, frame, main),
        Screen::Flows => flows_table(app, frame, main, " flows ", true),
        Screen::Jobs => {
            let rows = app.jobs().len() as u16 + 2;
            let jobs = if app.open { 4 } else { rows.clamp(4, main.height / 2) };
            let [upper, lower] = Layout::vertical([Constraint::Length(jobs), Constraint::Min(4)]).areas(main);
            jobs_table(app, frame, upper);
            let title = app.job().map_or(" flows ".into(), |job| format!(" flows of {} ", job.id));
            flows_table(app, frame, lower, &title, false);
        }
    }
    frame.render_widget(Paragraph::new(foot_line(app)), foot);
}

fn head_lines(app: &App, width: usize) -> Vec<Line<'static>> {
    let snapshot = &app.snapshot;
    let color = match snapshot.daemon.state {
        State::Ok => Color::Green,
        State::Degraded => Color::Yellow,
        State::Inactive => Color::Red,
    };
    let mut lines = vec![Line::styled(header(snapshot), paint(app, color).add_modifier(Modifier::BOLD))];
    for condition in snapshot.conditions.iter().take(2) {
        let color = if condition.severity == Severity::Inactive { Color::Red } else { Color::Yellow };
        let text = format!("  {}  {}: {}", condition.severity.as_str(), condition.code.as_str(), condition.sentence);
        lines.push(Line::styled(cut(&text, width), paint(app, color)));
    }
    let (ordered, delivered) = snapshot.rates_bps();
    lines.push(Line::raw(format!(
        "  {} jobs, {} flows: ordered {}, delivered {}; slot {}, on time {}; {} of a core",
        snapshot.jobs_running(),
        snapshot.flows_of_jobs(),
        rate(Some(ordered)),
        rate(Some(delivered)),
        grouped(u64::from(snapshot.clock.slot)),
        percent(snapshot.on_time_ratio()),
        percent(snapshot.cost.cpu_ratio)
    )));
    for link in app.links().into_iter().filter(|link| link.own).take(LINKS) {
        let ratio = |bps: Option<u64>| {
            if link.capacity_bps == 0 { 0.0 } else { bps.unwrap_or(0) as f64 / link.capacity_bps as f64 }
        };
        let bar = bar(ratio(link.managed_bps), ratio(link.other_bps), 20);
        let managed = percent(link.managed_bps.map(|_| ratio(link.managed_bps)));
        let other = percent(link.other_bps.map(|_| ratio(link.other_bps)));
        let text = format!(
            "  {:<8} {:>11} [{bar}] managed {managed:>5} other {other:>5} next {}",
            link.name,
            rate(Some(link.capacity_bps)),
            strip(link.load_ratios())
        );
        lines.push(Line::raw(cut(&text, width)));
    }
    lines
}

fn jobs_table(app: &App, frame: &mut Frame<'_>, area: Rect) {
    let jobs = app.jobs();
    let rows = jobs.iter().map(|job| {
        Row::new([
            Cell::from(job.id.to_string()),
            Cell::from(job.pattern.as_str()),
            right(job.flows.to_string()),
            right(grouped(job.round)),
            right(percent(job.progress_ratio)),
            right(bytes(job.remaining_bytes)),
            right(rate(job.ordered_bps)),
            right(rate(job.delivered_bps)),
            right(time(job.round_p50_ns)),
            Cell::from(word(&job.stalled_on)),
        ])
    });
    let heads = [
        ("JOB", false),
        ("PATTERN", false),
        ("FLOWS", true),
        ("ROUND", true),
        ("DONE", true),
        ("TO SEND", true),
        ("ORDERED", true),
        ("DELIVERED", true),
        ("P50", true),
        ("STALLED ON", false),
    ];
    let widths = [12, 7, 5, 7, 6, 8, 11, 11, 8, 12];
    table(app, frame, area, " jobs ", &heads, &widths, rows.collect(), Some(app.selected));
}

fn flows_table(app: &App, frame: &mut Frame<'_>, area: Rect, title: &str, selectable: bool) {
    let flows = app.flows();
    let wide = area.width >= 110;
    let rows = flows.iter().map(|flow| {
        let mut cells = vec![
            Cell::from(short_id(flow)),
            Cell::from(word(&flow.to)),
            right(rate(flow.ordered_bps)),
            right(rate(flow.delivered_bps)),
            right(percent(flow.error_ratio)),
            Cell::from(word(&flow.why)),
        ];
        if wide {
            cells.push(Cell::from(next_gbps(&flow.next_bps, 5)));
        }
        cells.push(Cell::from(sparks(app, flow)));
        Row::new(cells).height(2)
    });
    let mut heads =
        vec![("FLOW", false), ("TO", false), ("ORDERED", true), ("DELIVERED", true), ("ERROR", true), ("WHY", false)];
    let mut widths = vec![10, 21, 11, 11, 6, 11];
    if wide {
        heads.push(("NEXT (Gbit/s)", false));
        widths.push(24);
    }
    heads.push(("ORDERED / DELIVERED", false));
    widths.push(SPARK as u16);
    table(app, frame, area, title, &heads, &widths, rows.collect(), selectable.then_some(app.selected));
}

fn links_table(app: &App, frame: &mut Frame<'_>, area: Rect) {
    let links = app.links();
    let rows = links.iter().map(|link| {
        let overlap = (link.busy_ns > 0).then(|| link.overlap_ns as f64 / link.busy_ns as f64);
        Row::new([
            Cell::from(link.name.clone()),
            Cell::from(if link.holder.is_empty() { "this host".into() } else { link.holder.clone() }),
            right(rate(Some(link.capacity_bps))),
            right(rate(link.managed_bps)),
            right(rate(link.other_bps)),
            right(percent(overlap)),
            Cell::from(strip(link.load_ratios())),
        ])
    });
    let heads = [
        ("LINK", false),
        ("KEPT BY", false),
        ("CAPACITY", true),
        ("MANAGED", true),
        ("OTHER", true),
        ("OVERLAP", true),
        ("NEXT SLOTS", false),
    ];
    table(app, frame, area, " links ", &heads, &[16, 14, 11, 11, 11, 8, 32], rows.collect(), Some(app.selected));
}

#[allow(clippy::too_many_arguments, reason = "one table, called three times from here")]
fn table(
    app: &App,
    frame: &mut Frame<'_>,
    area: Rect,
    title: &str,
    heads: &[(&str, bool)],
    widths: &[u16],
    rows: Vec<Row<'_>>,
    selected: Option<usize>,
) {
    let head =
        |&(text, number): &(&str, bool)| if number { right(text.to_owned()) } else { Cell::from(text.to_owned()) };
    let title = format!("{title}by {} ", sort_word(app.sort));
    let widget = Table::new(rows, widths.iter().map(|&width| Constraint::Length(width)))
        .header(Row::new(heads.iter().map(head)).style(Style::new().add_modifier(Modifier::BOLD)))
        .block(Block::default().borders(Borders::TOP).title(title))
        .highlight_symbol("> ")
        .row_highlight_style(Style::new().add_modifier(Modifier::BOLD));
    let mut state = TableState::default().with_selected(selected);
    frame.render_stateful_widget(widget, area, &mut state);
}

fn foot_line(app: &App) -> Line<'static> {
    let keys = match &app.playing {
        None => "q quit  ? help  Enter job  f flows  l links  s order  / find  e why  p pause".to_owned(),
        Some(playing) => format!(
            "slot {} of {} x{}  q quit  ? help  p pause  . , step  arrows 1 s  + - speed",
            grouped(playing.at + 1),
            grouped(playing.slots),
            playing.speed
        ),
    };
    match (&app.lost, &app.news) {
        (Some(why), _) => Line::styled(format!("LAST ANSWER IS OLD: {why}"), paint(app, Color::Red)),
        (None, Some(news)) => Line::styled(news.clone(), paint(app, Color::Cyan)),
        (None, None) if app.typing => Line::raw(format!("/{}_   Enter keeps it, Esc drops it", app.filter)),
        (None, None) if app.paused => Line::styled(format!("PAUSED  {keys}"), paint(app, Color::Yellow)),
        (None, None) if !app.filter.is_empty() => Line::raw(format!("/{}  {keys}", app.filter)),
        (None, None) => Line::raw(keys),
    }
}

/// Two lines of the same scale: ordered above delivered.
fn sparks(app: &App, flow: &Flow) -> ratatui::text::Text<'static> {
    let samples: Vec<(u64, u64)> = app.history(&flow.id).collect();
    let samples = samples.get(samples.len().saturating_sub(SPARK)..).unwrap_or_default();
    let most = samples.iter().map(|&(ordered, delivered)| ordered.max(delivered)).max().unwrap_or(0).max(1) as f64;
    let line = |read: fn(&(u64, u64)) -> u64, color| {
        Line::from(Span::styled(strip(samples.iter().map(|sample| read(sample) as f64 / most)), paint(app, color)))
    };
    vec![line(|sample| sample.0, Color::Cyan), line(|sample| sample.1, Color::Green)].into()
}

fn short_id(flow: &Flow) -> String {
    let id = flow_id(&flow.id);
    let digits = id.chars().count();
    if digits > 10 { format!("…{}", id.chars().skip(digits - 8).collect::<String>()) } else { id }
}

fn bar(managed: f64, other: f64, width: usize) -> String {
    let cells = |ratio: f64| ((ratio.clamp(0.0, 1.0) * width as f64).round() as usize).min(width);
    let managed = cells(managed);
    let other = cells(other).min(width - managed);
    format!("{}{}{}", "#".repeat(managed), "=".repeat(other), " ".repeat(width - managed - other))
}

fn sort_word(sort: Sort) -> &'static str {
    match sort {
        Sort::Rate => "rate",
        Sort::Name => "name",
        Sort::Error => "error",
    }
}

fn right(text: String) -> Cell<'static> {
    Cell::from(Line::raw(text).alignment(Alignment::Right))
}

fn paint(app: &App, color: Color) -> Style {
    if app.colors { Style::new().fg(color) } else { Style::new() }
}

fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    text.chars().take(width.saturating_sub(1)).chain(['…']).collect()
}
