//! Which socket is which flow: every connection of a process meets the row that the data path has for it.

use sluice_schedule::{Event, FlowSpec, JobSpec, Pattern};

use super::Monitor;
use super::roles::Connection;
use crate::fabric::Way;

impl Monitor {
    /// Gives every socket to the process that names it, and tells the brain which flows there are.
    pub(super) fn match_sockets(&mut self, out: &mut Vec<Event>) {
        self.uncaptured = 0;
        for (key, process) in &mut self.processes {
            // A library may learn how its ranks talk only with the first operation.
            if let Some(job) = self.jobs.get_mut(&process.job)
                && job.pattern == Pattern::Unknown
                && process.pattern != Pattern::Unknown
            {
                job.pattern = process.pattern;
                out.push(Event::JobSeen(JobSpec { job: process.job, pattern: job.pattern }));
            }
            let plan = self.jobs.get(&process.job).and_then(|job| job.following.plan());
            let connections = process.connections(&self.fabric, plan);
            for connection in connections {
                if !connection.sends {
                    // Before a plan was read, the same connection may have been taken for one that sends.
                    if let Some(socket) = self.sockets.at_mut(&connection.tuple).filter(|_| plan.is_some())
                        && socket.process == Some(*key)
                        && let Some(spec) = socket.told.take()
                    {
                        out.push(Event::FlowClosed(spec.flow));
                        process.resplit |= process.rounds.active;
                    }
                    continue;
                }
                let Some(socket) = self.sockets.at_mut(&connection.tuple) else {
                    tracing::debug!(event = "not-captured", tuple = ?connection.tuple, "a job's connection has no row");
                    self.uncaptured += 1;
                    continue;
                };
                // A page speaks only for sockets of its owner.
                if let Some(uid) = process.uid.filter(|uid| *uid != socket.uid) {
                    tracing::debug!(
                        event = "foreign-socket",
                        page = uid,
                        socket = socket.uid,
                        "a page names another user's socket"
                    );
                    continue;
                }
                let Some(Way { path, forks }) = self.fabric.way(socket.flow, &socket.tuple) else { continue };
                let to = self.fabric.host_of(socket.tuple.remote_ip());
                let Connection { role, preds, watches, share, terms, .. } = connection;
                let (flow, job) = (socket.flow, process.job);
                let connection = Some(socket.tuple.connection());
                let spec = FlowSpec { flow, job, to, role, path, preds, watches, share, terms, connection, forks };
                socket.process = Some(*key);
                if socket.told.as_ref() != Some(&spec) {
                    out.push(Event::FlowOpened(spec.clone()));
                    if socket.told.is_none() && process.rounds.active {
                        // It joins a round that is under way: the split is made again.
                        process.resplit = true;
                    }
                    socket.told = Some(spec);
                }
            }
        }
    }
}
