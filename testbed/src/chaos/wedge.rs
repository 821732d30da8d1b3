//! Stops one thread of a process from outside, as a debugger does: the others go on. So a deciding loop can be wedged in any
//! build of the daemon, with nothing in it that knows of tests.

use std::fs;
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;

use nix::sys::ptrace;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;

use crate::run::RunError;

/// A thread that stands still until this is dropped, or this process ends.
#[derive(Debug)]
pub struct Wedged {
    release: Option<Sender<()>>,
    tracer: Option<JoinHandle<()>>,
}

/// The threads of a process with this name.
fn named(pid: u32, name: &str) -> Vec<i32> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let ids = tasks.filter_map(|task| task.file_name().to_str()?.parse::<i32>().ok());
    let is =
        |tid: &i32| fs::read_to_string(format!("/proc/{pid}/task/{tid}/comm")).is_ok_and(|comm| comm.trim() == name);
    ids.filter(is).collect()
}

impl Wedged {
    /// Stops the one thread of `pid` that is called `name`, and returns when it stands.
    ///
    /// # Errors
    /// There is not exactly one, or the system refuses (needs CAP_SYS_PTRACE).
    pub fn thread(pid: u32, name: &str) -> Result<Wedged, RunError> {
        let [tid] = named(pid, name)[..] else {
            let count = named(pid, name).len();
            return Err(RunError::Plan(format!("process {pid} has {count} threads named {name}; it must have one")));
        };
        let (release, released) = mpsc::channel::<()>();
        let (told, hello) = mpsc::channel();
        // Only the thread that seized it may let it go.
        let body = move || {
            let tid = Pid::from_raw(tid);
            let stopped = ptrace::seize(tid, ptrace::Options::empty())
                .and_then(|()| ptrace::interrupt(tid))
                .and_then(|()| waitpid(tid, Some(WaitPidFlag::__WALL)));
            let failed = stopped.is_err();
            if told.send(stopped.map(drop)).is_err() || failed {
                return;
            }
            // Ends when the holder is dropped.
            let _ = released.recv();
            // It may be gone by now, with its process.
            let _ = ptrace::detach(tid, None);
        };
        let tracer = std::thread::Builder::new().name("tracer".into()).spawn(body);
        let tracer = tracer.map_err(RunError::io("starting a thread"))?;
        let stopped = hello.recv().map_err(|_| RunError::Plan("the tracer ended".into()))?;
        stopped.map_err(|errno| RunError::io(format!("stopping thread {name} of {pid}"))(errno.into()))?;
        Ok(Wedged { release: Some(release), tracer: Some(tracer) })
    }
}

impl Drop for Wedged {
    fn drop(&mut self) {
        self.release = None;
        if let Some(tracer) = self.tracer.take() {
            // It does nothing that could panic.
            drop(tracer.join());
        }
    }
}
