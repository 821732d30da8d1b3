//! F15 and F35: what processes and routers say, to a daemon that reads other people's processes and packets.

use sluice_schedule::Bytes;

use crate::mutate::Shape;
use crate::{Seed, Target};

/// A byte that chooses a file, then its content.
pub static PROC: Target = Target {
    name: "F15-proc",
    parser: "/proc: environments, cgroups, counters of interfaces",
    property: "job and part are labels; a plan has an absolute path of at most 4096 bytes and at most 4096 ranks; no more payload than bytes",
    shape: Shape::ChosenText(&[
        "SLUICE_JOB_ID=",
        "SLURM_JOB_ID=",
        "DMLC_ROLE=worker",
        "DMLC_PS_ROOT_URI=",
        "DMLC_PS_ROOT_PORT=",
        "MASTER_ADDR=",
        "MASTER_PORT=",
        "TORCHELASTIC_RUN_ID=none",
        "PMIX_NAMESPACE=",
        "RANK=",
        "WORLD_SIZE=",
        "SLUICE_PLAN=/",
        "SLUICE_PLAN_RANKS=",
        "\0",
        "0::/",
        "eth0:",
        "\n",
    ]),
    run: proc,
    seeds: proc_seeds,
};

/// An IPv4 packet.
pub static HOPS: Target = Target {
    name: "F35-hop-answers",
    parser: "ICMP: a router's word that a probe's hop limit ended",
    property: "only of TCP over IPv4; ends and number are those of the quoted packet",
    shape: Shape::Bytes,
    run: hops,
    seeds: hops_seeds,
};

/// Bytes of a plan's path, and ranks by name, at most.
const PLAN: usize = 4096;

fn proc(bytes: &[u8]) {
    let Some((choice, rest)) = bytes.split_first() else { return };
    let text = String::from_utf8_lossy(rest);
    match choice % 3 {
        0 => {
            let said = sluiced::fuzz::environ(rest);
            for label in &said.labels {
                let known = |c: char| c.is_ascii_alphanumeric() || "._:/@+-\\~".contains(c);
                assert!(label.len() <= 64 && label.chars().all(known), "{label:?}");
            }
            if let Some((path, ranks)) = said.plan {
                assert!(path.is_absolute() && path.as_os_str().len() <= PLAN && ranks.len() <= PLAN);
            }
        }
        1 => {
            if let Some(path) = sluiced::fuzz::cgroup(&text) {
                let line = format!("0::{}", path.display());
                assert!(text.lines().any(|known| known == line), "{line:?}");
            }
        }
        _ => {
            for (name, received, sent) in sluiced::fuzz::net_dev(&text) {
                // What the kernel counted, as one of the lines of this name has it.
                let counted = |line: &str| {
                    let (known, rest) = line.split_once(':')?;
                    let fields: Vec<u64> = rest.split_whitespace().map_while(|field| field.parse().ok()).collect();
                    (known.trim() == name).then_some([Bytes(*fields.first()?), Bytes(*fields.get(8)?)])
                };
                let less = |[all_in, all_out]: [Bytes; 2]| received <= all_in && sent <= all_out;
                assert!(text.lines().filter_map(counted).any(less), "{name:?}: {received:?} and {sent:?}");
            }
        }
    }
}

fn hops(packet: &[u8]) {
    let Some((router, ends, id)) = sluiced::fuzz::hop_answer(packet) else { return };
    assert!(router.is_ipv4() && ends.iter().all(std::net::SocketAddr::is_ipv4));
    // The quoted header begins where the ICMP header of eight bytes ends.
    let quoted = &packet[usize::from(packet[0] & 0xf) * 4 + 8..];
    assert_eq!((quoted[9], u16::from_be_bytes([quoted[4], quoted[5]])), (6, id));
    let tcp = &quoted[usize::from(quoted[0] & 0xf) * 4..];
    assert_eq!([ends[0].port(), ends[1].port()], [[tcp[0], tcp[1]], [tcp[2], tcp[3]]].map(u16::from_be_bytes));
}

fn proc_seeds() -> Vec<Seed> {
    let torch = "PATH=/bin\0MASTER_ADDR=n0\0MASTER_PORT=29500\0TORCHELASTIC_RUN_ID=llama\0RANK=5\0WORLD_SIZE=8\0";
    let ps = "DMLC_ROLE=worker\0DMLC_PS_ROOT_URI=10.0.0.1\0DMLC_PS_ROOT_PORT=9000\0SLUICE_PLAN=/plans/a b.json\0SLUICE_PLAN_RANKS=n2,n0\0";
    let cgroup = "12:cpu,cpuacct:/a\n1:name=systemd:/b\n0::/system.slice/job (1) x.service\n";
    let dev = "Inter-|   Receive                                                |  Transmit\n face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed\n    lo: 1000 10 0 0 0 0 0 0 1000 10 0 0 0 0 0 0\n  eth0: 5000000 4000 0 0 0 0 0 0 7000000 5000 0 0 0 0 0 0\n";
    vec![
        Seed::of(0, "torch", torch),
        Seed::of(0, "ps-lite", ps),
        Seed::of(1, "cgroup", cgroup),
        Seed::of(2, "net-dev", dev),
    ]
}

fn hops_seeds() -> Vec<Seed> {
    // IPv4 of ICMP; time exceeded in transit; IPv4 of TCP with its first eight bytes.
    let header = |protocol: u8, options: usize| {
        let mut header =
            vec![0x45 + options as u8, 0, 0, 0, 0x12, 0x34, 0, 0, 64, protocol, 0, 0, 10, 9, 0, 1, 10, 0, 0, 1];
        header.resize(20 + 4 * options, 0);
        header
    };
    let tcp = [0x9c, 0x40, 0x13, 0x88, 0, 0, 0, 9];
    let answer =
        |options: usize| [header(1, options), vec![11, 0, 0, 0, 0, 0, 0, 0], header(6, options), tcp.to_vec()].concat();
    vec![Seed::new("plain", answer(0)), Seed::new("options", answer(2))]
}
