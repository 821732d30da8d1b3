//! What `sluice top` shows now, and what a key does to it. No terminal in here.

use std::collections::{BTreeMap, VecDeque};

use crossterm::event::{KeyCode, KeyModifiers};
use sluice_wire::snapshot::{Flow, Job, Label, Link, Snapshot};

/// Samples of a flow's rates that are kept.
const HISTORY: usize = 120;
/// Characters of a filter.
const MAX_FILTER: usize = 40;
/// Flows with a history.
const MAX_FLOWS: usize = 4096;

/// What fills the screen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Screen {
    /// Jobs, and the flows of the selected one.
    #[default]
    Jobs,
    Flows,
    Links,
    /// Why one flow has its rate, as text.
    Explained,
    Help,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    #[default]
    Rate,
    Name,
    /// Distance between ordered and delivered; for jobs the least progress.
    Error,
}

/// What a key does to the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum After {
    Stay,
    Quit,
    /// Ask why this flow has its rate, and show it.
    Explain(String),
    /// Write a timeline of the last minute.
    Timeline,
}

/// How a replay stands.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Playing {
    /// Slots after the first.
    pub at: u64,
    pub slots: u64,
    /// Slots a slot's time.
    pub speed: f64,
}

/// The state of the view.
#[derive(Debug, Default)]
pub struct App {
    pub snapshot: Snapshot,
    /// Why there is none newer.
    pub lost: Option<String>,
    pub screen: Screen,
    pub sort: Sort,
    pub paused: bool,
    /// Only the selected job is shown, in full.
    pub open: bool,
    pub colors: bool,
    pub selected: usize,
    /// Only jobs and flows in whose names this stands.
    pub filter: String,
    /// Keys go into the filter.
    pub typing: bool,
    /// What the last key has brought.
    pub news: Option<String>,
    /// Why the flow asked about has its rate.
    pub explained: String,
    /// It is a file that is played.
    pub playing: Option<Playing>,
    wanted: Option<Label>,
    history: BTreeMap<String, VecDeque<(u64, u64)>>,
}

impl App {
    /// An empty view; the job is selected when it appears.
    pub fn new(job: Option<&str>, colors: bool) -> App {
        App { wanted: job.map(Label::new), colors, ..App::default() }
    }

    /// Takes an answer of the daemon.
    pub fn take(&mut self, snapshot: Snapshot) {
        let mut history = std::mem::take(&mut self.history);
        for flow in snapshot.flows.iter().take(MAX_FLOWS) {
            let mut samples = history.remove(&flow.id).unwrap_or_default();
            if samples.len() >= HISTORY {
                samples.pop_front();
            }
            samples.push_back((flow.ordered_bps.unwrap_or(0), flow.delivered_bps.unwrap_or(0)));
            self.history.insert(flow.id.clone(), samples);
        }
        self.snapshot = snapshot;
        self.lost = None;
        if let Some(wanted) = &self.wanted
            && let Some(row) = self.jobs().iter().position(|job| job.id == *wanted)
        {
            self.selected = row;
            self.wanted = None;
        }
        self.clamp();
    }

    /// What follows is of another time.
    pub fn forget(&mut self) {
        self.history.clear();
    }

    /// Shows why a flow has its rate, or why that cannot be said.
    pub fn explain(&mut self, text: String) {
        self.explained = text;
        self.screen = Screen::Explained;
    }

    /// Is one of these texts what the filter looks for?
    fn passes(&self, texts: &[&str]) -> bool {
        self.filter.is_empty() || texts.iter().any(|text| text.contains(&self.filter))
    }

    /// The daemon did not answer.
    pub fn lost(&mut self, why: &str) {
        self.lost = Some(why.lines().next().unwrap_or_default().to_owned());
    }

    /// Jobs in the order shown.
    pub fn jobs(&self) -> Vec<&Job> {
        // On other screens the filter is about flows.
        let shown = |job: &&Job| {
            job.ended_unix_ns.is_none() && (self.screen != Screen::Jobs || self.passes(&[job.id.as_str()]))
        };
        let mut jobs: Vec<&Job> = self.snapshot.jobs.iter().filter(shown).collect();
        match self.sort {
            Sort::Rate => jobs.sort_by_key(|job| std::cmp::Reverse(job.ordered_bps)),
            Sort::Name => jobs.sort_by(|a, b| a.id.cmp(&b.id)),
            Sort::Error => {
                jobs.sort_by(|a, b| a.progress_ratio.unwrap_or(2.0).total_cmp(&b.progress_ratio.unwrap_or(2.0)))
            }
        }
        jobs
    }

    pub fn job(&self) -> Option<&Job> {
        self.jobs().get(self.selected).copied()
    }

    /// Flows in the order shown: all, or those of the selected job.
    pub fn flows(&self) -> Vec<&Flow> {
        let of_job = match self.screen {
            Screen::Jobs => self.job().map(|job| &job.id),
            _ => None,
        };
        let shown = |flow: &&Flow| match self.screen {
            Screen::Jobs => Some(&flow.job) == of_job,
            _ => self.passes(&[&crate::format::flow_id(&flow.id), flow.job.as_str(), &flow.to]),
        };
        let mut flows: Vec<&Flow> = self.snapshot.flows.iter().filter(shown).collect();
        match self.sort {
            Sort::Rate => flows.sort_by_key(|flow| std::cmp::Reverse(flow.ordered_bps)),
            Sort::Name => flows.sort_by(|a, b| a.id.cmp(&b.id)),
            Sort::Error => {
                flows.sort_by(|a, b| b.error_ratio.unwrap_or(-1.0).total_cmp(&a.error_ratio.unwrap_or(-1.0)))
            }
        }
        flows
    }

    pub fn links(&self) -> Vec<&Link> {
        let mut links: Vec<&Link> = self.snapshot.links.iter().collect();
        links.sort_by_key(|link| !link.own);
        links
    }

    /// Ordered and delivered rates of a flow, oldest first.
    pub fn history(&self, flow: &str) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.history.get(flow).into_iter().flatten().copied()
    }

    pub fn key(&mut self, code: KeyCode, modifiers: KeyModifiers) -> After {
        self.news = None;
        if self.typing && !modifiers.contains(KeyModifiers::CONTROL) {
            match code {
                KeyCode::Enter => self.typing = false,
                KeyCode::Esc => (self.typing, self.filter) = (false, String::new()),
                KeyCode::Backspace => drop(self.filter.pop()),
                KeyCode::Char(c) if self.filter.chars().count() < MAX_FILTER => self.filter.push(c),
                _ => {}
            }
            self.clamp();
            return After::Stay;
        }
        match code {
            KeyCode::Char('c') if modifiers.contains(KeyModifiers::CONTROL) => return After::Quit,
            KeyCode::Char('q') => return After::Quit,
            KeyCode::Char('?') => self.toggle(Screen::Help),
            KeyCode::Char('f') => self.toggle(Screen::Flows),
            KeyCode::Char('l') => self.toggle(Screen::Links),
            KeyCode::Char('/') => self.typing = true,
            KeyCode::Char('t') => return After::Timeline,
            KeyCode::Char('e') if self.screen == Screen::Explained => self.toggle(Screen::Explained),
            KeyCode::Char('e') => {
                let row = if self.screen == Screen::Flows { self.selected } else { 0 };
                if let Some(flow) = self.flows().get(row) {
                    return After::Explain(flow.id.clone());
                }
            }
            KeyCode::Esc if self.screen != Screen::Jobs => self.toggle(self.screen),
            KeyCode::Esc if !self.filter.is_empty() => self.filter.clear(),
            KeyCode::Esc => self.open = false,
            KeyCode::Enter if self.screen == Screen::Jobs => self.open = !self.open,
            KeyCode::Char('p') => self.paused = !self.paused,
            KeyCode::Char('s') => {
                self.sort = match self.sort {
                    Sort::Rate => Sort::Name,
                    Sort::Name => Sort::Error,
                    Sort::Error => Sort::Rate,
                };
            }
            KeyCode::Char('j') | KeyCode::Down => self.selected = self.selected.saturating_add(1),
            KeyCode::Char('k') | KeyCode::Up => self.selected = self.selected.saturating_sub(1),
            KeyCode::Home => self.selected = 0,
            KeyCode::End => self.selected = usize::MAX,
            _ => {}
        }
        self.clamp();
        After::Stay
    }

    fn toggle(&mut self, screen: Screen) {
        self.screen = if self.screen == screen { Screen::Jobs } else { screen };
        self.selected = 0;
    }

    fn clamp(&mut self) {
        let rows = match self.screen {
            Screen::Jobs | Screen::Help | Screen::Explained => self.jobs().len(),
            Screen::Flows => self.flows().len(),
            Screen::Links => self.snapshot.links.len(),
        };
        self.selected = self.selected.min(rows.saturating_sub(1));
    }
}
