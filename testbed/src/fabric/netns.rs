//! A network namespace without a name: a keeper thread holds it, runs closures in it and spawns processes into it.
//!
//! Children are spawned by the keeper and die with it, so neither a panic nor `kill -9` of this process leaves any
//! behind. `/proc/net` belongs to the process, not to the thread: inside a closure read `/proc/thread-self/net`.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::mpsc::{self, Sender};
use std::thread::JoinHandle;

use nix::sched::{CloneFlags, setns, unshare};

use super::FabricError;
use crate::sys;

type Task = Box<dyn FnOnce() + Send>;

/// A network namespace; dropping it ends the keeper and kills the processes that it spawned.
#[derive(Debug)]
pub struct NetNs {
    name: String,
    tasks: Option<Sender<Task>>,
    keeper: Option<JoinHandle<()>>,
    tid: i32,
    handle: File,
}

impl NetNs {
    /// A new, empty namespace; `name` is for messages only.
    ///
    /// # Errors
    /// Without CAP_SYS_ADMIN or without namespaces in the kernel.
    pub fn create(name: &str) -> Result<NetNs, FabricError> {
        let (tasks, inbox) = mpsc::channel::<Task>();
        let (told, hello) = mpsc::channel();
        let keeper = std::thread::Builder::new()
            .name(format!("ns-{name}"))
            .spawn(move || {
                let made = unshare(CloneFlags::CLONE_NEWNET)
                    .map_err(std::io::Error::from)
                    .and_then(|()| File::open("/proc/thread-self/ns/net"))
                    .map(|handle| (handle, nix::unistd::gettid().as_raw()));
                let failed = made.is_err();
                if told.send(made).is_err() || failed {
                    return;
                }
                for task in inbox {
                    task();
                }
            })
            .map_err(FabricError::io("starting a namespace's keeper thread"))?;
        let missing = |why: String| FabricError::Missing { what: "a new network namespace".into(), why };
        let (handle, tid) =
            hello.recv().map_err(|_| missing("its keeper thread ended".into()))?.map_err(|e| missing(e.to_string()))?;
        Ok(NetNs { name: name.into(), tasks: Some(tasks), keeper: Some(keeper), tid, handle })
    }

    /// The name for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// A thread id that rtnetlink takes as "the namespace of this process"; `nsenter --net=/proc/TID/ns/net` works too.
    pub fn tid(&self) -> i32 {
        self.tid
    }

    /// Runs `task` inside the namespace and waits for it. Tasks of one namespace run one after another.
    ///
    /// # Errors
    /// When the task panicked.
    pub fn run<R: Send + 'static>(&self, task: impl FnOnce() -> R + Send + 'static) -> Result<R, FabricError> {
        let (out, answer) = mpsc::channel();
        let guarded = move || {
            // A panic must not end the keeper: the namespace and its children would go with it.
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(task));
            if let Ok(result) = result {
                // The caller may have gone; then nobody wants the answer.
                drop(out.send(result));
            }
        };
        let gone = || FabricError::Spec(format!("a task in namespace {} panicked", self.name));
        self.tasks.as_ref().ok_or_else(gone)?.send(Box::new(guarded)).map_err(|_| gone())?;
        answer.recv().map_err(|_| gone())
    }

    /// Spawns a process inside the namespace and, if given, into the cgroup whose `cgroup.procs` is open as `procs`.
    ///
    /// # Errors
    /// When the program cannot be started.
    pub fn spawn(&self, mut command: Command, procs: Option<OwnedFd>) -> Result<Child, FabricError> {
        let program = command.get_program().to_string_lossy().into_owned();
        sys::die_with_parent(&mut command, procs);
        self.run(move || command.spawn())?
            .map_err(FabricError::io(format!("starting {program} in namespace {}", self.name)))
    }

    /// A thread of this process that lives inside the namespace, for sockets of our own.
    ///
    /// # Errors
    /// When the thread cannot be started. Entering is checked inside: `body` does not run if it fails.
    pub fn thread(&self, name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>, FabricError> {
        let handle = self.handle.try_clone().map_err(FabricError::io("copying a namespace's descriptor"))?;
        std::thread::Builder::new()
            .name(name.into())
            .spawn(move || match setns(&handle, CloneFlags::CLONE_NEWNET) {
                Ok(()) => body(),
                Err(e) => tracing::error!("entering a network namespace: {e}"),
            })
            .map_err(FabricError::io("starting a thread"))
    }
}

impl Drop for NetNs {
    fn drop(&mut self) {
        self.tasks = None;
        if let Some(keeper) = self.keeper.take() {
            // The keeper only ever ends by its channel closing; a panic inside a task was caught.
            drop(keeper.join());
        }
    }
}
