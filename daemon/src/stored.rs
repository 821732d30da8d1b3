//! The one writer of small files that stand for something after a restart: what was changed outside, the last starts, a
//! mode that is kept, the fleet's word.
//!
//! A file is written beside its place, synced, renamed into it, and its directory synced. So whatever moment a crash takes,
//! its place holds what was there before, or what was written, whole ([`Layer`] lets a test try every moment). Nothing of
//! it is needed to start: a reader ignores what it cannot read.
//!
//! It waits for the disk, so the deciding loop leaves it to [`Keeper`].

#[cfg(test)]
pub(crate) mod crash;

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

/// What the writer asks of a file system.
trait Layer {
    type File;
    /// An empty file under this name, whatever was there.
    fn create(&mut self, path: &Path) -> io::Result<Self::File>;
    fn write(&mut self, file: &mut Self::File, bytes: &[u8]) -> io::Result<()>;
    /// What was written to the file outlives the machine's power.
    fn sync(&mut self, file: &Self::File) -> io::Result<()>;
    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()>;
    /// So do the names in a directory.
    fn sync_names(&mut self, dir: &Path) -> io::Result<()>;
    fn remove(&mut self, path: &Path) -> io::Result<()>;
}

/// The file system.
struct Disk;

impl Layer for Disk {
    type File = File;

    fn create(&mut self, path: &Path) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o644);
        options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_CLOEXEC).open(path)
    }

    fn write(&mut self, file: &mut File, bytes: &[u8]) -> io::Result<()> {
        file.write_all(bytes)
    }

    fn sync(&mut self, file: &File) -> io::Result<()> {
        file.sync_all()
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn sync_names(&mut self, dir: &Path) -> io::Result<()> {
        File::open(dir)?.sync_all()
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }
}

/// Puts a file in the place of the one before; its directory must be there.
///
/// # Errors
/// What the file system says; then the file before is still in its place.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_on(&mut Disk, path, bytes)
}

fn replace_on<L: Layer>(layer: &mut L, path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("tmp");
    let written = layer.create(&temporary).and_then(|mut file| {
        layer.write(&mut file, bytes)?;
        layer.sync(&file)
    });
    if let Err(error) = written.and_then(|()| layer.rename(&temporary, path)) {
        let _ = layer.remove(&temporary); // On a disk that is full it would only be in the way.
        return Err(error);
    }
    layer.sync_names(directory(path))
}

/// Removes a file, so that it is not there again after a crash; one that is not there is as good.
///
/// # Errors
/// What the file system says.
pub fn remove(path: &Path) -> io::Result<()> {
    remove_on(&mut Disk, path)
}

fn remove_on<L: Layer>(layer: &mut L, path: &Path) -> io::Result<()> {
    match layer.remove(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed.and_then(|()| layer.sync_names(directory(path))),
    }
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A file of this name in a directory that is made if it is missing.
///
/// # Errors
/// What the file system says.
pub fn replace_in(dir: &Path, name: &str, bytes: &[u8]) -> io::Result<PathBuf> {
    fs::create_dir_all(dir)?;
    let path = dir.join(name);
    replace(&path, bytes).map(|()| path)
}

type Work = Box<dyn FnOnce() + Send>;

/// A thread that waits for the disk in the deciding loop's place, one piece of work after the other. It begins with the
/// first and ends with its handle.
#[derive(Debug, Default)]
pub struct Keeper {
    queue: Option<SyncSender<Work>>,
}

impl Keeper {
    /// Pieces of work that wait; they come from commands, which are rare.
    const QUEUE: usize = 8;

    /// Leaves this to the thread. False: it has too much to do already, or cannot be started; `work` is dropped.
    pub fn leave(&mut self, work: impl FnOnce() + Send + 'static) -> bool {
        let queue = self.queue.get_or_insert_with(|| {
            let (queue, works) = sync_channel::<Work>(Self::QUEUE);
            // Without the thread the queue has no other end, and nothing is left to it.
            drop(
                std::thread::Builder::new()
                    .name("keep".into())
                    .spawn(move || works.into_iter().for_each(|work| work())),
            );
            queue
        });
        queue.try_send(Box::new(work)).is_ok()
    }

    /// Leaves this to the thread and waits so long at most for what comes of it; `None`: not in this time. For who ends, and
    /// for nobody who decides.
    pub fn within<T: Send + 'static>(
        &mut self,
        time: Duration,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (done, wait) = sync_channel(1);
        let left = self.leave(move || drop(done.try_send(work()))); // Nobody may wait any more.
        left.then(|| wait.recv_timeout(time).ok()).flatten()
    }
}
