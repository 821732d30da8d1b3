//! RDMA devices of this host: what moves by them never passes a socket, so Sluice neither manages nor measures it.

use std::fmt;
use std::path::Path;

/// Where the kernel lists them.
pub const DEVICES: &str = "/sys/class/infiniband";
/// Devices that are looked at; hosts have ten or so.
const MAX_DEVICES: usize = 64;

/// One device, with what its ports say.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Device {
    /// As `mlx5_0`.
    pub name: String,
    /// What lies below: `InfiniBand`, or `Ethernet` for RoCE; empty: not known.
    pub link_layer: String,
    /// Some port of it is up.
    pub active: bool,
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let layer = if self.link_layer.is_empty() { "RDMA" } else { &self.link_layer };
        write!(f, "{} ({layer}, {})", self.name, if self.active { "up" } else { "down" })
    }
}

/// The devices below `root`, by name; what cannot be read is not there.
pub fn devices(root: &Path) -> Vec<Device> {
    let device = |entry: std::fs::DirEntry| {
        let mut device = Device { name: printable(&entry.file_name().to_string_lossy()), ..Device::default() };
        for port in std::fs::read_dir(entry.path().join("ports")).into_iter().flatten().flatten() {
            let read = |name: &str| std::fs::read_to_string(port.path().join(name)).unwrap_or_default();
            // As "4: ACTIVE".
            device.active |= read("state").contains("ACTIVE");
            if device.link_layer.is_empty() {
                device.link_layer = printable(read("link_layer").trim());
            }
        }
        device
    };
    let mut all: Vec<Device> =
        std::fs::read_dir(root).into_iter().flatten().flatten().take(MAX_DEVICES).map(device).collect();
    all.sort();
    all
}

fn printable(text: &str) -> String {
    sluice_formats::problem::printable(text, 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_read_with_what_lies_below_and_whether_they_are_up() {
        let dir = tempfile::tempdir().expect("a directory");
        assert_eq!(devices(&dir.path().join("none")), []);
        for (name, layer, state) in [("mlx5_1", "Ethernet", "1: DOWN"), ("mlx5_0", "InfiniBand", "4: ACTIVE")] {
            let port = dir.path().join(name).join("ports/1");
            std::fs::create_dir_all(&port).expect("made");
            std::fs::write(port.join("link_layer"), format!("{layer}\n")).expect("written");
            std::fs::write(port.join("state"), format!("{state}\n")).expect("written");
        }
        std::fs::create_dir_all(dir.path().join("odd\u{1b}")).expect("made");
        let found: Vec<String> = devices(dir.path()).iter().map(Device::to_string).collect();
        assert_eq!(found[..2], ["mlx5_0 (InfiniBand, up)", "mlx5_1 (Ethernet, down)"]);
        assert!(found[2].ends_with("(RDMA, down)") && !found[2].contains('\u{1b}'), "{found:?}");
    }
}
