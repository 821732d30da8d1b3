//! Writers in other processes, and their pages.
//!
//! The writer always lives in another process: locks of the own one do not show, and closing a reader would drop them.

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::FromRawFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sluice_progress::{Ident, Page, Pattern, Source, Writer};

/// A forked writer process; killed and waited for when dropped.
pub struct Job {
    pub pid: i32,
}

impl Job {
    /// Forks; the child runs `act` with its page and then sleeps until it is killed. Returns once the page is ready.
    pub fn start(dir: &Path, act: impl FnOnce(&Writer)) -> Job {
        let mut pipe = [0; 2];
        // SAFETY: `pipe` holds two descriptors; the child only uses its own memory and never returns.
        unsafe {
            assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
            let pid = libc::fork();
            assert!(pid >= 0, "fork");
            if pid == 0 {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                if let Some(writer) = Page::create(dir, ident("4711")) {
                    libc::write(pipe[1], [1_u8].as_ptr().cast(), 1);
                    act(&writer);
                    libc::write(pipe[1], [1_u8].as_ptr().cast(), 1);
                    loop {
                        libc::pause();
                    }
                }
                libc::_exit(1);
            }
            libc::close(pipe[1]);
            let job = Job { pid };
            let mut byte = [0];
            File::from_raw_fd(pipe[0]).read_exact(&mut byte).expect("the child has its page");
            job
        }
    }

    pub fn kill(&self) {
        // SAFETY: the pid is that of a child not yet waited for.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, std::ptr::null_mut(), 0);
        }
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.kill();
    }
}

pub fn ident(job: &str) -> Ident {
    let mut ident = Ident::new(Source::Application);
    ident.job_id = job.into();
    ident.producer = "test 1".into();
    ident.rank = 3;
    ident.nranks = 8;
    ident.pattern = Pattern::Ring;
    ident
}

pub fn only_page(dir: &Path) -> PathBuf {
    let mut pages = pages_in(dir);
    assert_eq!(pages.len(), 1);
    pages.remove(0)
}

pub fn pages_in(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).expect("the directory is there");
    let paths = entries.map(|entry| entry.expect("an entry").path());
    paths.filter(|path| path.extension().is_some_and(|ext| ext == "sp1")).collect()
}

pub fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !done() {
        assert!(Instant::now() < end, "never happened: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A page as a finished writer of this boot would have left it.
pub fn good_page(dir: &Path) -> Vec<u8> {
    let writer = Page::create(dir, ident("x")).expect("a page");
    let bytes = fs::read(dir.join(writer.file_name())).expect("readable");
    drop(writer);
    bytes
}
