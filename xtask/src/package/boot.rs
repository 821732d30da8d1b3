//! `cargo xtask package boot`: a fresh Debian with a real systemd in a virtual machine, the packages installed there, and two
//! jobs scheduled (`boot.sh`). By hand: it takes some minutes and 300 MB from Debian. QEMU's own translator runs it, since /dev/kvm in
//! a virtual machine is not to be relied on; with one processor, since with more the translator's kernel panics now and then.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::time::Instant;

use super::{PACKAGES, deb, place};
use crate::shell::{Step, Stream, have, is_root};

/// A release whose kernel has the whole data path (6.12).
const RELEASE: &str = "trixie";
const INSTALLED: &str =
    "systemd,systemd-sysv,udev,iproute2,procps,kmod,python3-minimal,libstdc++6,linux-image-cloud-amd64,initramfs-tools";
/// Starts the script once everything else has started.
const UNIT: &str = "[Unit]\nDescription=Try the packages\nAfter=multi-user.target\n\
    [Service]\nType=oneshot\nExecStart=/root/boot.sh\n[Install]\nWantedBy=multi-user.target\n";
/// Longer than all of it takes.
const SECONDS: &str = "400";

pub(super) fn run(debs: &Path) -> Result<(), String> {
    if !is_root() {
        return Err("it needs root, to make a root".into());
    }
    if !have("qemu-system-x86_64") {
        let step =
            Step::new("apt-get", &["install", "-y", "-qq", "--no-install-recommends", "qemu-system-x86", "e2fsprogs"]);
        step.with("DEBIAN_FRONTEND", "noninteractive").run()?;
    }
    let (root, image) = (place().join("boot"), place().join("boot.ext4"));
    let at = root.display().to_string();
    if !root.join("boot").exists() {
        // The mount namespace of mmdebstrap leaves nothing behind where it fails.
        let include = format!("--include={INSTALLED}");
        Step::new("mmdebstrap", &["--variant=minbase", "--mode=root", "--format=directory", &include, RELEASE, &at])
            .run()?;
    }
    let put = |name: &str, text: &str, mode: u32| {
        let to = root.join(name);
        let made = to.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&to, text));
        let made = made.and_then(|()| fs::set_permissions(&to, fs::Permissions::from_mode(mode)));
        made.map_err(|e| format!("writing {}: {e}", to.display()))
    };
    put("root/boot.sh", include_str!("boot.sh"), 0o755)?;
    put("root/job.py", include_str!("job.py"), 0o644)?;
    put("etc/systemd/system/try.service", UNIT, 0o644)?;
    put("etc/fstab", "/dev/vda / ext4 defaults 0 0\n", 0o644)?;
    Step::new("chroot", &[&at, "systemctl", "enable", "try.service"]).run()?;
    // A login there would hang up on the script.
    Step::new("chroot", &[&at, "systemctl", "mask", "serial-getty@ttyS0.service"]).run()?;
    let inside = root.join("root/debs");
    drop(fs::remove_dir_all(&inside)); // There may be none.
    fs::create_dir_all(&inside).map_err(|e| format!("{}: {e}", inside.display()))?;
    for (name, _) in PACKAGES {
        let from = deb(debs, name, None)?;
        let file = from.file_name().ok_or("a package without a name")?;
        fs::copy(&from, inside.join(file)).map_err(|e| format!("{}: {e}", from.display()))?;
    }
    let disk = image.display().to_string();
    drop(fs::remove_file(&image)); // There may be none.
    Step::new("mke2fs", &["-q", "-t", "ext4", "-d", &at, &disk, "3G"]).run()?;
    let kernel = newest(&root.join("boot"), "vmlinuz-")?;
    let initrd = newest(&root.join("boot"), "initrd.img-")?;
    let drive = format!("file={disk},format=raw,if=virtio");
    let step = Step::new(
        "timeout",
        &[SECONDS, "qemu-system-x86_64", "-accel", "tcg,thread=single", "-cpu", "Nehalem", "-m", "2G"],
    );
    let step =
        step.args(["-smp", "1", "-nographic", "-no-reboot", "-nic", "none", "-kernel", &kernel, "-initrd", &initrd]);
    let step = step.args(["-append", "root=/dev/vda rw console=ttyS0 quiet", "-drive", &drive]);
    let (began, mut passed) = (Instant::now(), false);
    step.through(Stream::Out, |line| passed |= line.contains("boot: PASSED"))?;
    println!("boot: {:.0} s", began.elapsed().as_secs_f64());
    if passed { Ok(()) } else { Err("the last line is not `boot: PASSED`".into()) }
}

fn newest(dir: &Path, prefix: &str) -> Result<String, String> {
    let entries = fs::read_dir(dir).map_err(|e| format!("{}: {e}", dir.display()))?.flatten();
    let names = entries
        .map(|entry| entry.path())
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(prefix)));
    names.max().map(|path| path.display().to_string()).ok_or_else(|| format!("{}: no {prefix}", dir.display()))
}
