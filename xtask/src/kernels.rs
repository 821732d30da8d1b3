//! `cargo xtask kernels`: what each kernel of the distribution does of what Sluice uses, tried in a virtual machine of QEMU.
//!
//! Here: which kernels, and what becomes of each. What the archive offers is `offers`, the file system that a machine begins
//! with `initramfs`, what its lines mean `judge`, and the table that they become `table`.

mod arm64;
mod initramfs;
mod judge;
mod offers;
mod table;

use std::path::{Path, PathBuf};

use crate::demo::build_release;
use crate::json::quoted;
use crate::qemu::{self, Accelerator, Machine};
use crate::record::Stamp;
use crate::shell::{Early, Step, Stream, have, is_root, target_dir};
use judge::{MARK, Seen, UP};
use offers::Offer;
pub(crate) use table::AREA;

pub(crate) const HELP: &str = "\
cargo xtask kernels [--list] [--json] [--here] [KERNEL…]
cargo xtask kernels --arm64

Fetches kernels from the distribution's archive (Debian's linux-image packages, 30 to 110 MB each, unpacked below
target/kernels and installed nowhere), boots each in QEMU with a file system of our own programs, and tries there: every tier
of enforcement, orders of 10 and 100 Mbit/s, giving a flow back, and kill -9 of the process that holds a flow. What
`sluice doctor` and `sluiced probe` forecast there must be what happens; a difference is an error. The result goes to
benchmarks/kernels.tsv and to the table of docs/kernels.md, with the day.

KVM runs the machines where it works, which is tried; else QEMU translates, and their clock counts instructions: a machine takes
minutes, and to itself is of even speed, so that its times count. Nothing of this is fetched or booted unless it is asked for.

  KERNEL    one of those that --list shows, as 6.1 or 6.12-cloud; all if none is named. One that cannot be fetched is
            skipped, told and counted; if it was named, the command fails
  --list    only say which kernels the archive offers, and how large they are
  --json    also print what was seen as JSON, a line per kernel
  --here    the kernel of this machine instead, without QEMU; needs root
  --arm64   builds the libraries that jobs load for arm64 and runs their tests there, emulated (qemu-user)

Example: cargo xtask kernels 6.1-cloud 6.12-cloud
";

/// What begins the line of a kernel that was not tried.
pub(crate) const SKIPPED: &str = "kernels: skipped: ";
/// The part of a guest's memory that its programs take is some hundred megabytes.
const MEMORY: &str = "2G";
/// Longer than the whole matrix takes: with KVM, and translated, also where others have the processor.
const SECONDS: [u32; 2] = [150, 1200];
/// A guest that KVM runs is up within this.
const TRIAL: u32 = 25;
const APPEND: &str = "quiet loglevel=1 panic=-1 PATH=/bin";
/// The same for a machine that ends as soon as it is up.
const APPEND_TRIAL: &str = "quiet loglevel=1 panic=-1 PATH=/bin sluice_trial";

/// Options of the command.
#[derive(Debug, Default, PartialEq, Eq)]
struct Wishes {
    list: bool,
    json: bool,
    here: bool,
    arm64: bool,
    kernels: Vec<String>,
}

impl Wishes {
    fn read(args: &[String]) -> Result<Wishes, String> {
        let mut wishes = Wishes::default();
        for arg in args {
            match arg.as_str() {
                "--list" => wishes.list = true,
                "--json" => wishes.json = true,
                "--here" => wishes.here = true,
                "--arm64" => wishes.arm64 = true,
                option if option.starts_with('-') => return Err(format!("no option {option:?}")),
                kernel => wishes.kernels.push(kernel.to_owned()),
            }
        }
        if (wishes.here || wishes.arm64) && !wishes.kernels.is_empty() || wishes.here && wishes.arm64 {
            return Err("--here, --arm64 and the name of a kernel exclude each other".into());
        }
        Ok(wishes)
    }
}

pub(crate) fn run(args: &[String]) -> Result<(), Early> {
    if args.iter().any(|arg| arg == "--help" || arg == "-h") {
        print!("{HELP}");
        return Err(Early::Helped);
    }
    let wishes = Wishes::read(args).map_err(|why| Early::Usage(format!("{why}\n\n{HELP}")))?;
    if wishes.arm64 {
        return Ok(arm64::run()?);
    }
    if wishes.here {
        let programs = Programs::build()?;
        return Ok(finish(&[here(&programs)?], &[], true, wishes.json)?);
    }
    let offered = offers::offers()?;
    if wishes.list {
        for Offer { label, package, bytes, .. } in &offered {
            println!("{label:<12} {package} ({:.0} MB)", *bytes as f64 / 1e6);
        }
        return Ok(());
    }
    let chosen = choose(&offered, &wishes.kernels).map_err(Early::Usage)?;
    Ok(boot(&chosen, !wishes.kernels.is_empty(), wishes.json)?)
}

fn choose<'a>(offered: &'a [Offer], names: &[String]) -> Result<Vec<&'a Offer>, String> {
    if names.is_empty() {
        return Ok(offered.iter().collect());
    }
    let known = || offered.iter().map(|offer| offer.label.as_str()).collect::<Vec<_>>().join(", ");
    let one = |name: &String| {
        let found = offered.iter().find(|offer| offer.label == *name);
        found.ok_or_else(|| format!("no kernel {name:?}; the archive offers: {}", known()))
    };
    names.iter().map(one).collect()
}

/// What runs in every machine.
struct Programs {
    matrix: PathBuf,
    daemon: PathBuf,
    cli: PathBuf,
}

impl Programs {
    fn build() -> Result<Programs, String> {
        // As they are installed; and a machine that is translated takes as long as its programs have instructions.
        Step::cargo(&["build", "--release", "--locked", "-p", "sluice-ebpf", "--example", "kernel_features"]).run()?;
        build_release()?;
        let built = target_dir().join("release");
        Ok(Programs {
            matrix: built.join("examples/kernel_features"),
            daemon: built.join("sluiced"),
            cli: built.join("sluice"),
        })
    }
}

/// Boots each of them; a kernel that cannot be fetched is skipped, told and counted, and missed if they were `named`.
fn boot(chosen: &[&Offer], named: bool, json: bool) -> Result<(), String> {
    if !have("apt-get") || !have("dpkg") {
        return Err(
            "nothing was tried: kernels come from a Debian archive, by apt-get and dpkg, which are not here".into()
        );
    }
    qemu::ensure(&[])?;
    let programs = Programs::build()?;
    let (mut seen, mut skipped, mut by) = (Vec::new(), Vec::new(), None);
    for offer in chosen {
        let unpacked = match offer.unpack() {
            Ok(unpacked) => unpacked,
            Err(why) => {
                println!("{SKIPPED}{}: {why}", offer.label);
                skipped.push(format!("{}: {why}", offer.label));
                continue;
            }
        };
        let initrd = unpacked.dir.join("initrd.cpio");
        initramfs::write(&programs, &unpacked.modules, &initrd)?;
        let (kernel, initrd) = (unpacked.kernel.display().to_string(), initrd.display().to_string());
        let machine = Machine {
            kernel: &kernel,
            initrd: &initrd,
            append: APPEND,
            disk: None,
            memory: MEMORY,
            seconds: SECONDS[1],
        };
        let by = *by.get_or_insert_with(|| {
            let trial = Machine { append: APPEND_TRIAL, seconds: TRIAL, ..machine };
            let (by, why) = trial.accelerator(UP);
            println!("kernels: machines are run by: {} ({why})", by.name());
            by
        });
        let machine = Machine { seconds: SECONDS[usize::from(by != Accelerator::Kvm)], ..machine };
        let mut lines = Vec::new();
        let ended = machine.boot(by, |line| lines.extend(judge::row(line)));
        if let Err(why) = ended {
            // What it told until then says more.
            eprintln!("xtask: {}: {why}", offer.release);
        }
        seen.push(Seen { kernel: offer.release.clone(), by: by.name().to_owned(), rows: lines });
    }
    finish(&seen, &skipped, named, json)
}

/// The same on this machine's own kernel.
fn here(programs: &Programs) -> Result<Seen, String> {
    if !is_root() {
        return Err("--here needs root, for network namespaces and eBPF".into());
    }
    let mut rows = vec![judge::row(&format!("{MARK}machine: up = yes")).ok_or("no row")?];
    let matrix = programs.matrix.display().to_string();
    let bin = programs.cli.parent().unwrap_or(Path::new("/")).display().to_string();
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap_or_default());
    for args in [&[][..], &["daemon"][..], &["forecasts"][..]] {
        Step::new(&matrix, args).with("PATH", &path).through(Stream::Out, |line| rows.extend(judge::row(line)))?;
    }
    rows.extend(judge::row(&format!("{MARK}machine: done = yes")));
    let release = rows.iter().find(|row| row.feature == "release").ok_or("the kernel says no release")?;
    // Without what its maker has added.
    let kernel = release.value.split('-').next().unwrap_or_default().to_owned();
    Ok(Seen { kernel, by: "this machine".into(), rows })
}

/// Writes down what was seen, and says what is wrong with it.
fn finish(seen: &[Seen], skipped: &[String], named: bool, json: bool) -> Result<(), String> {
    let mut red = Vec::new();
    for one in seen {
        let faults = judge::faults(one);
        println!("kernels: {} ({}): {} rows, {} faults", one.kernel, one.by, one.rows.len(), faults.len());
        red.extend(faults.into_iter().map(|fault| format!("{}: {fault}", one.kernel)));
        if json {
            let rows = one.rows.iter().map(|row| format!("{}: {}", quoted(&row.feature), quoted(&row.value)));
            let rows = rows.collect::<Vec<_>>().join(", ");
            println!("{{\"kernel\": {}, \"by\": {}, \"rows\": {{{rows}}}}}", quoted(&one.kernel), quoted(&one.by));
        }
    }
    if !seen.is_empty() {
        let stamp = Stamp::now()?;
        table::record(seen, &stamp.date, &stamp.commit)?;
    }
    println!("kernels: {} tried, {} skipped, {} faults", seen.len(), skipped.len(), red.len());
    verdict(seen.len(), skipped, named, &red)
}

/// What all of it comes to.
fn verdict(tried: usize, skipped: &[String], named: bool, red: &[String]) -> Result<(), String> {
    let mut wrong = Vec::new();
    if tried == 0 {
        wrong.push("no kernel was tried".to_owned());
    }
    if named && !skipped.is_empty() {
        wrong.push(format!("named and not tried:\n  {}", skipped.join("\n  ")));
    }
    if !red.is_empty() {
        wrong.push(format!("not as it should be:\n  {}", red.join("\n  ")));
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_excludes_each_other_or_is_unknown_is_refused() {
        let read = |line: &str| Wishes::read(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>());
        let kernels = vec!["6.1".to_owned(), "6.12-cloud".to_owned()];
        assert_eq!(read("6.1 --json 6.12-cloud"), Ok(Wishes { json: true, kernels, ..Wishes::default() }));
        for line in ["--fast", "--here 6.1", "--arm64 6.1", "--here --arm64"] {
            assert!(read(line).is_err(), "{line}");
        }
    }

    #[test]
    fn a_kernel_that_is_not_offered_is_named_with_those_that_are() {
        let offered = [offers::Offer::of("linux-image-6.1.0-56-cloud-amd64", 5).expect("a kernel")];
        assert_eq!(choose(&offered, &[]).map(|all| all.len()), Ok(1));
        let refused = choose(&offered, &["6.2".to_owned()]).expect_err("not offered");
        assert!(refused.contains("6.2") && refused.contains("6.1-cloud"), "{refused}");
    }

    #[test]
    fn a_kernel_that_was_named_has_to_be_tried() {
        let skipped = ["6.1: the archive does not answer".to_owned()];
        assert_eq!(verdict(5, &skipped, false, &[]), Ok(()));
        assert_eq!(verdict(5, &[], true, &[]), Ok(()));
        let missed = verdict(1, &skipped, true, &[]).expect_err("it was named");
        assert!(missed.contains("6.1: the archive does not answer"), "{missed}");
        assert!(verdict(0, &skipped, false, &[]).is_err() && verdict(0, &[], false, &[]).is_err());
        let red = ["6.12: struct_ops: nothing is told of it".to_owned()];
        assert!(verdict(2, &[], false, &red).is_err_and(|why| why.contains("struct_ops")));
    }
}
