//! One virtual machine of QEMU: for `package boot`, which boots a whole Debian, and `kernels`, which boots many kernels.
//!
//! It has one processor, since with more the translator's kernel panics now and then. Whether /dev/kvm does what it says is
//! found by trying, never by asking: in a virtual machine it may be there and not work.

use std::fs::OpenOptions;
use std::path::Path;

use crate::shell::{Step, Stream, have};

const QEMU: &str = "qemu-system-x86_64";
const KVM: &str = "/dev/kvm";

/// Who runs the guest's instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Accelerator {
    /// The processor.
    Kvm,
    /// QEMU's own translator, some ten times slower.
    Translator,
    /// The translator, and a clock that counts the guest's instructions: to the guest a processor of even speed, which waits for
    /// nobody. Its times say what its kernel does, however long it takes.
    Counted,
}

impl Accelerator {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Accelerator::Kvm => "KVM",
            Accelerator::Translator => "translated",
            Accelerator::Counted => "translated, its clock counts instructions",
        }
    }

    const fn options(self) -> &'static [&'static str] {
        match self {
            Accelerator::Kvm => &["-accel", "kvm", "-cpu", "host"],
            Accelerator::Translator => &["-accel", "tcg,thread=single", "-cpu", "Nehalem"],
            // A nanosecond each; where nothing is to be done the clock goes on to the next timer at once.
            Accelerator::Counted => {
                &["-accel", "tcg,thread=single", "-cpu", "Nehalem", "-icount", "shift=0,sleep=off", "-rtc", "clock=vm"]
            }
        }
    }
}

/// What boots.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Machine<'a> {
    pub(crate) kernel: &'a str,
    pub(crate) initrd: &'a str,
    /// The kernel's command line, beside where its console is.
    pub(crate) append: &'a str,
    /// A raw disk, its first one.
    pub(crate) disk: Option<&'a str>,
    /// As QEMU takes it.
    pub(crate) memory: &'a str,
    /// It is ended after so long.
    pub(crate) seconds: u32,
}

impl Machine<'_> {
    fn step(&self, by: Accelerator) -> Step {
        let seconds = self.seconds.to_string();
        let append = format!("console=ttyS0 {}", self.append);
        // A kernel that panics and a guest that reboots end it, and nothing outside can be reached.
        let step = Step::new("timeout", &[&seconds, QEMU]).args(by.options().iter().copied()).args([
            "-m",
            self.memory,
            "-smp",
            "1",
        ]);
        let step = step.args(["-nographic", "-no-reboot", "-nic", "none", "-kernel", self.kernel]);
        let step = step.args(["-initrd", self.initrd, "-append", &append]);
        match self.disk {
            Some(disk) => step.args(["-drive", &format!("file={disk},format=raw,if=virtio")]),
            None => step,
        }
    }

    /// Boots it, and hands on every line that it writes to its serial console.
    ///
    /// # Errors
    /// When QEMU cannot be started, fails, or has to be ended for want of time.
    pub(crate) fn boot(&self, by: Accelerator, heard: impl FnMut(&str)) -> Result<(), String> {
        self.step(by).through(Stream::Out, heard)
    }

    /// Who can run such a machine here, and why: KVM where this one boots with it as far as the line that `said` is in.
    pub(crate) fn accelerator(&self, said: &str) -> (Accelerator, String) {
        if let Err(why) = OpenOptions::new().read(true).write(true).open(Path::new(KVM)) {
            return (Accelerator::Counted, format!("{KVM}: {why}"));
        }
        let mut up = false;
        // A machine that came up and did not end is no reason against it.
        let ended = self.boot(Accelerator::Kvm, |line| up |= line.contains(said));
        match ended {
            _ if up => (Accelerator::Kvm, format!("{KVM} works")),
            Ok(()) => (Accelerator::Counted, format!("{KVM} opens, and a guest that it runs says nothing")),
            Err(why) => {
                (Accelerator::Counted, format!("{KVM} opens, and a guest that it runs does not come up: {why}"))
            }
        }
    }
}

/// Installs QEMU where it is missing, which takes root.
pub(crate) fn ensure(further: &[&str]) -> Result<(), String> {
    if have(QEMU) {
        return Ok(());
    }
    let packages = ["install", "-y", "-qq", "--no-install-recommends", "qemu-system-x86"];
    Step::new("apt-get", &packages)
        .args(further.iter().copied())
        .with("DEBIAN_FRONTEND", "noninteractive")
        .with_root()
        .run()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_has_one_processor_no_network_and_an_end() {
        let machine = Machine { kernel: "k", initrd: "i", append: "quiet", disk: Some("d"), memory: "1G", seconds: 60 };
        let shown = machine.step(Accelerator::Translator).shown();
        for words in [
            "timeout 60 qemu-system-x86_64",
            "-accel tcg,thread=single",
            "-smp 1",
            "-nic none",
            "-no-reboot",
            "console=ttyS0 quiet",
            "file=d,format=raw,if=virtio",
        ] {
            assert!(shown.contains(words), "{words}: {shown}");
        }
        let shown = machine.step(Accelerator::Counted).shown();
        assert!(shown.contains("-icount shift=0,sleep=off -rtc clock=vm"), "{shown}");
        let machine = Machine { disk: None, ..machine };
        let shown = machine.step(Accelerator::Kvm).shown();
        assert!(shown.contains("-accel kvm -cpu host") && !shown.contains("-drive"), "{shown}");
    }
}
