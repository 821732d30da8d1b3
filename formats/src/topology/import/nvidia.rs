//! The matrix that `nvidia-smi topo -m` prints: GPUs, cards, and how each pair is connected.
//!
//! The matrix says relations, not wires. `NV4` between two GPUs are four NVLinks; where all pairs of a box have the
//! same number and their sum is more than any GPU has, the links go to an NVSwitch and each GPU has that number. The
//! other words name the closest thing a pair shares (PCIe switch, several of them, host bridge, NUMA node, the link
//! between CPUs); from these a tree of switches is built, one level per word that occurs.

use super::{Problems, capacity_parameter, empty_file, link, node, text};
use crate::problem::{E_LIMIT, E_PARSE, Problem};
use crate::topology::{File, Kind, Text, Topology};

/// GPUs and cards of one machine at most.
const MAX_DEVICES: usize = 256;
/// NVLinks of a GPU at most in any generation so far (Hopper, Blackwell).
const MAX_NVLINKS: u32 = 18;

/// Capacities of the links, by the word of the matrix.
#[derive(Clone, Debug)]
pub struct Speeds<'a> {
    /// Of one NVLink.
    pub nvlink: &'a str,
    /// From a device to the PCIe switch it shares with another (`PIX`).
    pub pix: &'a str,
    /// From there upwards to several PCIe switches (`PXB`).
    pub pxb: &'a str,
    /// To the host bridge (`PHB`).
    pub phb: &'a str,
    /// Inside a NUMA node (`NODE`).
    pub node: &'a str,
    /// Between CPUs (`SYS`).
    pub sys: &'a str,
}

impl Default for Speeds<'_> {
    /// NVLink 3 and 4 at 25 GB/s each way, everything else as one PCIe 4.0 ×16 port, 32 GB/s.
    fn default() -> Self {
        let port = "32GB/s";
        Speeds { nvlink: "25GB/s", pix: port, pxb: port, phb: port, node: port, sys: port }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Relation {
    Itself,
    NvLinks(u32),
    /// How far up the tree the pair meets, 0 the closest.
    Meets(usize),
}

/// The words from the closest to the farthest and what the switches of that level are called.
const LEVELS: [(&str, &str); 5] =
    [("PIX", "pcie"), ("PXB", "pxb"), ("PHB", "bridge"), ("NODE", "numa"), ("SYS", "sys")];

struct Matrix {
    names: Vec<Text>,
    rows: Vec<Vec<Relation>>,
}

/// Reads the matrix of one machine; ids are the words of the matrix in lower case (`gpu0`, `nic0`).
///
/// # Errors
/// `E_PARSE` with the line, `E_RANGE` for a speed nobody can read.
pub fn nvidia_smi(bytes: &[u8], file: &str, speeds: &Speeds<'_>) -> Result<Topology, Problems> {
    let parameters = [
        ("nvlink", speeds.nvlink),
        ("pix", speeds.pix),
        ("pxb", speeds.pxb),
        ("phb", speeds.phb),
        ("node", speeds.node),
        ("sys", speeds.sys),
    ];
    for (name, speed) in parameters {
        capacity_parameter(name, speed)?;
    }
    let matrix = matrix(text(bytes, file)?).map_err(|errors| errors.in_file(file))?;
    let mut made = empty_file();
    for name in &matrix.names {
        made.nodes.push(node(name.clone(), if name.starts_with("gpu") { Kind::Gpu } else { Kind::Nic }));
    }
    nvlinks(&matrix, speeds.nvlink, &mut made);
    tree(&matrix, [speeds.pix, speeds.pxb, speeds.phb, speeds.node, speeds.sys], &mut made);
    Topology::build(made, file)
}

fn matrix(text: &str) -> Result<Matrix, Problems> {
    let plain = without_escapes(text);
    let mut lines = plain.lines().enumerate();
    let device = |word: &str| {
        let digits =
            word.strip_prefix("GPU").or_else(|| word.strip_prefix("NIC")).or_else(|| word.strip_prefix("mlx5_"));
        digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
    };
    let header = lines.by_ref().map(|(_, line)| line).find(|line| line.split_whitespace().next().is_some_and(device));
    let Some(header) = header else {
        let error = Problem::new(E_PARSE, "", "no matrix in this text").allowed("the output of `nvidia-smi topo -m`");
        return Err(error.help("run `nvidia-smi topo -m` and give its whole output").into());
    };
    let words: Vec<&str> = header.split_whitespace().take_while(|word| device(word)).take(MAX_DEVICES + 1).collect();
    if words.len() > MAX_DEVICES {
        return Err(Problem::new(E_LIMIT, "", "too many devices").allowed(format!("at most {MAX_DEVICES}")).into());
    }
    let names: Vec<Text> = words.iter().map(|word| word.to_lowercase().into()).collect();
    let mut rows: Vec<Vec<Relation>> = Vec::new();
    for (number, line) in lines {
        let mut parts = line.split_whitespace();
        let Some(first) = parts.next().filter(|first| device(first)) else { continue };
        if rows.len() == words.len() {
            break;
        }
        let at = |message: String| Problem::new(E_PARSE, format!("line {}", number + 1), message);
        if first != words[rows.len()] {
            return Err(at("the rows are not in the order of the columns".into())
                .found(first)
                .allowed(words[rows.len()])
                .into());
        }
        let row: Option<Vec<Relation>> = parts.take(words.len()).map(relation).collect();
        let row = row.filter(|row| row.len() == words.len());
        let allowed = "X, NV1 …, PIX, PXB, PHB, NODE or SYS for every column";
        rows.push(row.ok_or_else(|| at(format!("row {first} is not read")).found(line.trim()).allowed(allowed))?);
    }
    if rows.len() < words.len() {
        let (found, allowed) = (format!("{} rows", rows.len()), format!("{} rows", words.len()));
        return Err(Problem::new(E_PARSE, "", "the matrix ends early").found(found).allowed(allowed).into());
    }
    for (i, row) in rows.iter().enumerate() {
        for (j, relation) in row.iter().enumerate() {
            if *relation != rows[j][i] || (*relation == Relation::Itself) != (i == j) {
                let message = format!("{} and {} do not agree how they are connected", names[i], names[j]);
                return Err(Problem::new(E_PARSE, "", message)
                    .allowed("a symmetric matrix with X where a device meets itself")
                    .into());
            }
        }
    }
    Ok(Matrix { names, rows })
}

/// Terminals get the header underlined; files get the escape sequences.
fn without_escapes(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut parts = text.split('\u{1b}');
    out.push_str(parts.next().unwrap_or(""));
    for part in parts {
        let end = part.find(|c: char| c.is_ascii_alphabetic()).map_or(part.len(), |at| at + 1);
        out.push_str(part.get(end..).unwrap_or(""));
    }
    out
}

fn relation(word: &str) -> Option<Relation> {
    if word == "X" {
        return Some(Relation::Itself);
    }
    if let Some(links) = word.strip_prefix("NV") {
        return links.parse().ok().filter(|links| (1..=1024).contains(links)).map(Relation::NvLinks);
    }
    LEVELS.iter().position(|(level, _)| *level == word).map(Relation::Meets)
}

fn nvlinks(matrix: &Matrix, speed: &str, made: &mut File) {
    let count = |i: usize, j: usize| match matrix.rows[i][j] {
        Relation::NvLinks(links) => links,
        _ => 0,
    };
    let n = matrix.names.len();
    let speed = Text::from(speed);
    let linked: Vec<usize> = (0..n).filter(|i| (0..n).any(|j| count(*i, j) > 0)).collect();
    let same = linked.first().zip(linked.get(1)).map_or(0, |(i, j)| count(*i, *j));
    let regular = linked.iter().all(|i| linked.iter().all(|j| i == j || count(*i, *j) == same));
    let needed = same.saturating_mul(linked.len().saturating_sub(1) as u32);
    let mut add = |a: &Text, b: &Text, links: u32| {
        let mut entry = link(a.clone(), b.clone(), speed.clone(), true);
        entry.count = (links > 1).then_some(links);
        made.links.push(entry);
    };
    if regular && needed > MAX_NVLINKS {
        let switch = Text::from("nvswitch");
        made.nodes.push(node(switch.clone(), Kind::Switch));
        linked.iter().for_each(|i| add(&matrix.names[*i], &switch, same));
        return;
    }
    for i in 0..n {
        for j in i + 1..n {
            if count(i, j) > 0 {
                add(&matrix.names[i], &matrix.names[j], count(i, j));
            }
        }
    }
}

/// Joins what meets at each level, from the closest to the farthest, under a switch of that level.
fn tree(matrix: &Matrix, speeds: [&str; 5], made: &mut File) {
    let n = matrix.names.len();
    // For each device the part it belongs to so far, and for each part its topmost node.
    let mut part: Vec<usize> = (0..n).collect();
    let mut top: Vec<Text> = matrix.names.clone();
    for (level, (_, name)) in LEVELS.iter().enumerate() {
        let mut merged: Vec<usize> = (0..n).collect();
        for i in 0..n {
            for j in 0..i {
                if matches!(matrix.rows[i][j], Relation::Meets(meets) if meets <= level) || part[i] == part[j] {
                    let (from, to) = (merged[i].max(merged[j]), merged[i].min(merged[j]));
                    merged.iter_mut().filter(|of| **of == from).for_each(|of| *of = to);
                }
            }
        }
        let mut number = 0;
        for whole in 0..n {
            let mut parts: Vec<usize> = (0..n).filter(|i| merged[*i] == whole).map(|i| part[i]).collect();
            parts.sort_unstable();
            parts.dedup();
            if parts.len() < 2 {
                continue;
            }
            let switch = Text::from(format!("{name}{number}"));
            number += 1;
            made.nodes.push(node(switch.clone(), Kind::Switch));
            for below in &parts {
                made.links.push(link(top[*below].clone(), switch.clone(), speeds[level].into(), true));
            }
            top[whole] = switch;
        }
        part = merged;
    }
}
