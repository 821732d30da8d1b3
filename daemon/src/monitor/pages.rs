//! Processes that publish a page: finding the pages, reading them, noticing that a publisher died.

use sluice_progress::{Found, PageKey};
use sluice_schedule::{Event, Nanos, Now};

use super::processes::Process;
use super::{Monitor, ProcessKey, holders};

/// The directory is listed again after this long even if nothing seems to have changed.
const RESCAN: Nanos = Nanos::from_millis(1_000);
/// Dead publishers are looked for this often.
const REAP: Nanos = Nanos::from_millis(1_000);
/// Of a page that keeps its connections all is read anew at every such slot's edge only: what its process is changes seldom.
const WHOLE_SLOTS: u32 = 8;

impl Monitor {
    pub(super) fn find_pages(&mut self, now: Now, out: &mut Vec<Event>) {
        let modified = std::fs::metadata(self.scan.dir()).and_then(|meta| meta.modified()).ok();
        let old = self.scanned.is_none_or(|at| now.mono.minus(at) > RESCAN);
        // Once in a slot: whoever fills the directory costs a part of it and no more.
        if (self.scanning || modified != self.dir_changed || old) && self.scanned_in != Some(now.slot) {
            self.scanned_in = Some(now.slot);
            self.dir_changed = modified;
            self.scanned = Some(now.mono);
            match self.scan.step() {
                Ok(step) => {
                    self.scanning = !step.complete;
                    for found in step.found {
                        match found {
                            Found::Appeared(key) => self.page_appeared(key, out),
                            Found::Displaced(key) => {
                                self.crowd.given_pages += 1;
                                self.gone(ProcessKey::Page(key), out);
                            }
                            Found::Refused(error) => {
                                self.refused_pages += 1;
                                tracing::debug!(event = "page-refused", "{error}");
                            }
                        }
                    }
                }
                Err(_) => self.scanning = false, // No directory yet: nobody publishes.
            }
        }
        if now.mono.minus(self.reaped) > REAP {
            self.reaped = now.mono;
            for key in self.scan.reap() {
                self.gone(ProcessKey::Page(key), out);
            }
            self.forget_dormant(now.mono, out);
        }
        self.try_waiting(out);
    }

    pub(super) fn page_appeared(&mut self, key: PageKey, out: &mut Vec<Event>) {
        let Some(reader) = self.scan.page(key) else { return };
        let Some(process) = Process::of_page(reader, &self.allowed, self.environ, &*self.eyes) else { return };
        // Where the operator says in which cgroups jobs are, a page from elsewhere says nothing.
        let elsewhere = |pid| holders::cgroup_of(pid).is_none_or(|cgroup| !self.within_cgroups(&cgroup));
        if !self.cgroups.is_empty() && process.pid.is_none_or(elsewhere) {
            return;
        }
        self.appeared(ProcessKey::Page(key), process, out);
    }

    /// Reads the pages of processes that are in a round or have begun to send, at a slot's edge those of all.
    pub(super) fn read_pages(&mut self, now: Now, edge: bool, out: &mut Vec<Event>) {
        let mut broken = Vec::new();
        for (key, process) in &mut self.processes {
            let ProcessKey::Page(page) = *key else { continue };
            let woke = std::mem::take(&mut process.woke);
            if process.sight.is_dormant(now.mono) && !(edge && process.sight.is_due(now, process.turn())) {
                continue;
            }
            if !(edge || self.eager || woke || process.rounds.active) {
                continue;
            }
            let Some(reader) = self.scan.page(page) else {
                broken.push(page);
                continue;
            };
            // Mostly the counters do; not all pages are read whole at one edge.
            let turn = process.turn().wrapping_add(now.slot.0).is_multiple_of(WHOLE_SLOTS);
            let received = process.received();
            let refreshed = match &mut process.view {
                Some(view) if !(self.eager || edge && turn) => reader.refresh(view),
                _ => Ok(false),
            };
            let read = match refreshed {
                Ok(true) => {
                    process.receives_since(received);
                    continue;
                }
                Ok(false) => reader.read(),
                Err(error) => Err(error),
            };
            match read {
                Ok(view) => {
                    self.rematch |= process.update(view);
                    process.receives_since(received);
                }
                Err(error) => {
                    tracing::debug!(event = "page-broken", "{error}");
                    broken.push(page);
                }
            }
        }
        for page in broken {
            self.scan.close(page);
            self.gone(ProcessKey::Page(page), out);
        }
    }
}
