//! A container on a host of a fabric, as far as the kernel knows containers: a process in network, pid and mount
//! namespaces of its own, joined to its host by a cable and routed behind the host's address.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use super::layout::container_address;
use super::setup::ip;
use super::{Fabric, FabricError, NetNs};

/// Says that it is in its namespaces, waits for its network, then becomes the program.
const BEGIN: &str = "echo ready; read -r line; exec \"$@\"";
/// Goes on in the network namespace of a process.
const WITHIN: &str = "exec nsenter --net=/proc/$0/ns/net ip -batch -";

impl Fabric {
    /// Runs a program in a new container on this host, with the host's cgroup for jobs. The host must be one of
    /// [`super::FabricSpec::containers`]; its standard output stays to be read.
    ///
    /// # Errors
    /// Without `unshare` and `nsenter` (util-linux), or the right to make namespaces.
    pub fn run_in_container(&self, host: usize, command: &Command) -> Result<Child, FabricError> {
        let node = &self.hosts[host];
        let mut unshare = Command::new("unshare");
        unshare.args(["--net", "--pid", "--mount", "--fork", "--kill-child", "--mount-proc", "sh", "-c", BEGIN, "sh"]);
        unshare.arg(command.get_program()).args(command.get_args());
        unshare.envs(command.get_envs().filter_map(|(key, value)| Some((key, value?))));
        unshare.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = node.ns.spawn(unshare, Some(self.cgroups.jobs(host).procs()?))?;
        let joined = self.join(host, &mut child);
        if joined.is_err() {
            // Either fails when it has ended by itself.
            drop(child.kill());
            drop(child.wait());
        }
        joined.map(|()| child)
    }

    fn join(&self, host: usize, child: &mut Child) -> Result<(), FabricError> {
        let absent = |why: &str| FabricError::Missing { what: "a container".into(), why: why.into() };
        let mut out = child.stdout.take().ok_or_else(|| absent("its output is not read"))?;
        let mut line = String::new();
        // Byte by byte: what follows is the program's, and its reader's.
        BufReader::with_capacity(1, &mut out)
            .read_line(&mut line)
            .map_err(FabricError::io("reading a container's output"))?;
        child.stdout = Some(out);
        if line.trim() != "ready" {
            return Err(absent("unshare (util-linux) cannot make it"));
        }
        let (node, pid) = (&self.hosts[host], child.id());
        let (outside, inside) = (container_address(host, 1), container_address(host, 2));
        ip(
            &node.ns,
            &format!(
                "link add name ct0 type veth peer name eth0 netns {pid}\naddr add {outside}/24 dev ct0\n\
                 link set ct0 gso_max_size {}\nlink set ct0 up\n",
                self.spec.gso_max.0
            ),
        )?;
        within(
            &node.ns,
            pid,
            format!(
                "link set lo up\naddr add {inside}/24 dev eth0\nlink set eth0 up\nroute add default via {outside}\n"
            ),
        )?;
        let mut stdin = child.stdin.take().ok_or_else(|| absent("its input is not ours"))?;
        stdin.write_all(b"go\n").map_err(FabricError::io("starting a container's program"))
    }
}

/// Runs lines of `ip` in the network namespace of a process.
fn within(ns: &NetNs, pid: u32, lines: String) -> Result<(), FabricError> {
    let ran = ns.run(move || {
        let mut nsenter = Command::new("sh");
        nsenter
            .args(["-c", WITHIN, &pid.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let mut child = nsenter.spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(lines.as_bytes())?;
        }
        child.wait_with_output()
    })?;
    let output = ran.map_err(FabricError::io("starting nsenter"))?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    let failed = FabricError::Tool { tool: "ip", node: format!("a container on {}", ns.name()), output: said };
    if output.status.success() { Ok(()) } else { Err(failed) }
}
