//! `cargo xtask image`: a container image of the three programs and the libraries that they load, without an engine or a registry.
//!
//! The root is laid out first, which `deploy/image/Containerfile` takes too; umoci packs it as one layer of an OCI layout. There
//! is no shell and no package manager in it: nothing to patch but Sluice and glibc.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::shell::{Early, Step, have, output, root, target_dir};

pub(crate) const HELP: &str = "\
cargo xtask image [--from DIR]

Lays out target/image/rootfs from sluiced, sluice-switch and sluice in DIR (target/release) with the libraries that they load,
and packs it as target/image/oci, an OCI layout with the tag of this version, which skopeo copies to where it is wanted:
skopeo copy oci:target/image/oci:VERSION docker://REGISTRY/sluice:VERSION. Needs umoci (Debian: umoci).

With an engine instead: podman build -f deploy/image/Containerfile target/image
";

const PROGRAMS: [&str; 3] = ["sluiced", "sluice-switch", "sluice"];
/// Who there is in the image. The programs run as root of their container (deploy/kubernetes), or as who is told.
const PASSWD: &str = "root:x:0:0:root:/:/usr/sbin/nologin\nsluice:x:65532:65532:sluice:/:/usr/sbin/nologin\n";
const GROUP: &str = "root:x:0:\nsluice:x:65532:\n";

pub(crate) fn run(args: &[String]) -> Result<(), Early> {
    if args.iter().any(|arg| arg == "--help" || arg == "-h") {
        print!("{HELP}");
        return Err(Early::Helped);
    }
    let from = match args {
        [] => target_dir().join("release"),
        [flag, dir] if flag == "--from" => PathBuf::from(dir),
        _ => return Err(Early::Usage(format!("unknown arguments\n\n{HELP}"))),
    };
    let place = target_dir().join("image");
    let rootfs = place.join("rootfs");
    lay_out(&from, &rootfs)?;
    if !have("umoci") {
        let why = format!("umoci is not here (apt-get install umoci); the root is in {}", rootfs.display());
        return Err(why.into());
    }
    Ok(pack(&rootfs, &place.join("oci"))?)
}

fn lay_out(from: &Path, rootfs: &Path) -> Result<(), String> {
    let failed = |path: &Path| {
        let path = path.display().to_string();
        move |error: std::io::Error| format!("{path}: {error}")
    };
    if rootfs.exists() {
        fs::remove_dir_all(rootfs).map_err(failed(rootfs))?;
    }
    for dir in ["etc/sluice", "run/sluice", "var/lib/sluice", "tmp", "usr/bin"] {
        fs::create_dir_all(rootfs.join(dir)).map_err(failed(rootfs))?;
    }
    let mut libraries = BTreeSet::new();
    for program in PROGRAMS {
        let path = from.join(program);
        if !path.is_file() {
            let how = "cargo build --release --locked -p sluiced -p sluice-switch -p sluice";
            return Err(format!("{} is not there: {how}", path.display()));
        }
        let to = rootfs.join("usr/bin").join(program);
        fs::copy(&path, &to).map_err(failed(&path))?;
        fs::set_permissions(&to, fs::Permissions::from_mode(0o755)).map_err(failed(&to))?;
        libraries.extend(loaded(&output("ldd", &[&path.display().to_string()])?));
    }
    for library in libraries {
        let to = rootfs.join(library.trim_start_matches('/'));
        if let Some(dir) = to.parent() {
            fs::create_dir_all(dir).map_err(failed(dir))?;
        }
        // Links are followed: the name is what the loader looks for.
        fs::copy(&library, &to).map_err(failed(Path::new(&library)))?;
        fs::set_permissions(&to, fs::Permissions::from_mode(0o755)).map_err(failed(&to))?;
    }
    let settings = root().join("deploy/sluiced.toml");
    let settings = fs::read_to_string(&settings).map_err(failed(&settings))?;
    for (path, text) in [("etc/passwd", PASSWD), ("etc/group", GROUP), ("etc/sluice/sluiced.toml", &settings)] {
        fs::write(rootfs.join(path), text).map_err(failed(rootfs))?;
    }
    fs::set_permissions(rootfs.join("tmp"), fs::Permissions::from_mode(0o1777)).map_err(failed(rootfs))
}

/// The paths of what `ldd` found, the loader itself included; what the kernel brings is no file.
pub(crate) fn loaded(ldd: &str) -> impl Iterator<Item = String> + '_ {
    ldd.lines().filter_map(|line| {
        let line = line.trim();
        let path = line.split_once(" => ").map_or(line, |(_, path)| path).split(' ').next()?;
        path.starts_with('/').then(|| path.to_owned())
    })
}

fn pack(rootfs: &Path, layout: &Path) -> Result<(), String> {
    if layout.exists() {
        fs::remove_dir_all(layout).map_err(|error| format!("{}: {error}", layout.display()))?;
    }
    let version = env!("CARGO_PKG_VERSION");
    let (layout, rootfs) = (layout.display().to_string(), rootfs.display().to_string());
    let image = format!("{layout}:{version}");
    let labels = [
        format!("org.opencontainers.image.version={version}"),
        "org.opencontainers.image.title=Sluice".to_owned(),
        "org.opencontainers.image.description=Schedules the network flows of distributed training".to_owned(),
        "org.opencontainers.image.licenses=MIT OR Apache-2.0".to_owned(),
    ];
    Step::new("umoci", &["init", "--layout", &layout]).run()?;
    Step::new("umoci", &["new", "--image", &image]).run()?;
    Step::new("umoci", &["insert", "--image", &image, &rootfs, "/"]).run()?;
    let config = Step::new("umoci", &["config", "--image", &image, "--config.entrypoint", "/usr/bin/sluiced"]);
    let config = config.args(["--config.user", "0:0", "--config.env", "PATH=/usr/bin"]);
    config.args(labels.iter().flat_map(|label| ["--config.label", label])).run()?;
    println!("{image}: an OCI layout; skopeo copy oci:{image} docker://REGISTRY/sluice:{version}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_files_with_the_names_that_are_looked_for() {
        let ldd = "\tlinux-vdso.so.1 (0x00007ffd)\n\tlibgcc_s.so.1 => /lib/x86_64-linux-gnu/libgcc_s.so.1 (0x00007f)\n\
                   \tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f)\n\t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let is =
            ["/lib/x86_64-linux-gnu/libgcc_s.so.1", "/lib/x86_64-linux-gnu/libc.so.6", "/lib64/ld-linux-x86-64.so.2"];
        assert_eq!(loaded(ldd).collect::<Vec<_>>(), is);
        assert_eq!(loaded("\tstatically linked\n").count(), 0);
    }

    #[test]
    fn the_containerfile_takes_the_same_root_and_starts_the_same_program() {
        let text = fs::read_to_string(root().join("deploy/image/Containerfile")).expect("a recipe");
        for line in
            ["FROM scratch", "COPY rootfs/ /", "USER 0:0", "ENTRYPOINT [\"/usr/bin/sluiced\"]", "ENV PATH=/usr/bin"]
        {
            assert!(text.lines().any(|own| own == line), "{line}");
        }
    }
}
