//! Bytes per directed link, read from one already open file per namespace, so that a sample costs microseconds.

use std::fs::File;
use std::io::{Read, Seek};

use super::{Fabric, FabricError};

/// Open counters of a fabric.
#[derive(Debug)]
pub struct Counters {
    /// Per namespace that is read: its file, and for each of its devices the link that leaves by it.
    files: Vec<(File, Vec<(String, usize)>)>,
    links: usize,
}

impl Counters {
    /// Opens them.
    ///
    /// # Errors
    /// When a namespace's `/proc/thread-self/net/dev` cannot be opened.
    pub fn open(fabric: &Fabric) -> Result<Counters, FabricError> {
        let mut files = Vec::new();
        for n in 0..fabric.layout.nodes.len() {
            let mine = fabric.layout.links.iter().enumerate().filter(|(_, l)| l.from.node == n);
            let devices: Vec<_> = mine.map(|(at, l)| (l.from.device.clone(), at)).collect();
            let file = fabric.node(n).ns.run(|| File::open("/proc/thread-self/net/dev"))?;
            files.push((file.map_err(FabricError::io("opening /proc/thread-self/net/dev"))?, devices));
        }
        Ok(Counters { files, links: fabric.layout.links.len() })
    }

    /// Bytes that went over each directed link since the fabric was built, in the layout's link order.
    ///
    /// The kernel counts a segmentation-offload burst with one header, so this is close to payload; compare it with
    /// [`super::FabricSpec::payload`] of the link's rate.
    ///
    /// # Errors
    /// When a namespace is gone.
    pub fn read(&mut self) -> std::io::Result<Vec<u64>> {
        let mut bytes = vec![0; self.links];
        let mut text = String::new();
        for (file, devices) in &mut self.files {
            file.rewind()?;
            text.clear();
            file.read_to_string(&mut text)?;
            for (device, value) in text.lines().filter_map(sent) {
                if let Some((_, at)) = devices.iter().find(|(name, _)| name == device) {
                    bytes[*at] = value;
                }
            }
        }
        Ok(bytes)
    }
}

/// Device and transmitted bytes of one line of `/proc/net/dev`.
fn sent(line: &str) -> Option<(&str, u64)> {
    let (device, rest) = line.split_once(':')?;
    Some((device.trim(), rest.split_whitespace().nth(8)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_a_line_and_refuses_others() {
        let line = "  eth0: 1000 10 0 0 0 0 0 0 2345 20 0 0 0 0 0 0";
        assert_eq!(sent(line), Some(("eth0", 2345)));
        assert_eq!(sent("Inter-|   Receive"), None);
        assert_eq!(sent("eth0: 1 2 3"), None);
    }
}
