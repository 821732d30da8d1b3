//! How full every limit is: what links and groups carry over what they can, and which of them binds.
//!
//! A link's colour says how busy the tightest limit is that it is under, its own or that of a group. The bars below the
//! picture name the limits, the fullest first; those that are alike and equally full share a bar.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;

use sluice_formats::quantity::{Capacity, Rational};
use sluice_formats::topology::Topology;
use sluice_formats::topology::draw::escape;

use super::look::{LOADS, ROW, load_class};

const MAX_BARS: usize = 20;
/// Letters of a bar's words at most.
const MAX_WORDS: usize = 44;
/// Where bars begin, and how long the longest is.
const BARS: (f64, f64) = (310.0, 200.0);
/// How wide a picture with bars is at least.
pub const WIDTH: f64 = 660.0;

/// All links from one node to another.
struct Cable {
    capacity: Capacity,
    /// How many of them have no limit of their own.
    unlimited: i128,
}

/// Everything that limits a plan of trees on a fabric.
pub struct Limits<'a> {
    topology: &'a Topology,
    cables: HashMap<(usize, usize), Cable>,
}

/// How long each limit takes for what is carried: load over capacity.
pub struct Times {
    /// By the ends of a cable in use, that of its tightest limit; `None`: it has none.
    pub tightest: BTreeMap<(usize, usize), Option<Rational>>,
    /// The longest of all.
    pub most: Rational,
    pub bars: Vec<Bar>,
}

/// A limit, or several that are alike.
pub struct Bar {
    time: Rational,
    /// The first of them.
    name: String,
    capacity: String,
    count: usize,
}

impl<'a> Limits<'a> {
    pub fn new(topology: &'a Topology) -> Limits<'a> {
        let mut cables: HashMap<(usize, usize), Cable> = HashMap::new();
        for link in topology.links() {
            let none = || Cable { capacity: Capacity::Finite(Rational::ZERO), unlimited: 0 };
            let cable = cables.entry((link.from, link.to)).or_insert_with(none);
            cable.capacity = cable.capacity.plus(&link.capacity);
            cable.unlimited += i128::from(link.capacity.finite().is_none());
        }
        Limits { topology, cables }
    }

    /// Is there a link from the one node to the other?
    pub fn has(&self, ends: (usize, usize)) -> bool {
        self.cables.contains_key(&ends)
    }

    /// What one of parallel links carries: as much of the cable's load as it has of its capacity; those without limit
    /// share all of it evenly.
    fn of_link(&self, link: usize, loads: &BTreeMap<(usize, usize), Rational>) -> Option<Rational> {
        let link = self.topology.links().get(link)?;
        let (load, cable) = (loads.get(&(link.from, link.to))?, self.cables.get(&(link.from, link.to))?);
        let share = match (cable.capacity.finite(), link.capacity.finite()) {
            (Some(all), Some(own)) => own.checked_div(all)?,
            (None, Some(_)) => return None,
            (_, None) => Rational::new(1, cable.unlimited)?,
        };
        Some(load * &share)
    }

    /// What these loads, by the ends of cables, make of the limits.
    pub fn times(&self, loads: &BTreeMap<(usize, usize), Rational>) -> Times {
        let mut times = Times { tightest: BTreeMap::new(), most: Rational::ZERO, bars: Vec::new() };
        let mut alike: HashMap<(Rational, String), usize> = HashMap::new();
        let mut bar = |time: &Rational, capacity: &Capacity, class: String, name: String| {
            let capacity = self.topology.unit().write(capacity);
            let place = *alike.entry((time.clone(), format!("{class} {capacity}"))).or_insert(times.bars.len());
            match times.bars.get_mut(place) {
                Some(bar) => bar.count += 1,
                None => times.bars.push(Bar { time: time.clone(), name, capacity, count: 1 }),
            }
        };
        for (ends, load) in loads {
            let capacity = self.cables.get(ends).map(|cable| &cable.capacity);
            let time = capacity.and_then(Capacity::finite).and_then(|capacity| load.checked_div(capacity));
            if let (Some(time), Some(capacity)) = (&time, capacity) {
                let [from, to] = [ends.0, ends.1].map(|node| &self.topology.nodes()[node]);
                let class = format!("{} {}", from.kind.word(), to.kind.word());
                bar(time, capacity, class, format!("{} → {}", from.id, to.id));
            }
            times.tightest.insert(*ends, time);
        }
        for group in self.topology.groups() {
            let mut load = Rational::ZERO;
            for part in group.links.iter().filter_map(|link| self.of_link(*link, loads)) {
                load += &part;
            }
            let Some(time) = group.capacity.finite().and_then(|capacity| load.checked_div(capacity)) else { continue };
            if time.is_zero() {
                continue;
            }
            bar(&time, &group.capacity, format!("group of {}", group.links.len()), group.name.to_string());
            for link in group.links.iter().filter_map(|link| self.topology.links().get(*link)) {
                if let Some(tightest) = times.tightest.get_mut(&(link.from, link.to)) {
                    *tightest = Some(tightest.take().map_or_else(|| time.clone(), |other| other.max(time.clone())));
                }
            }
        }
        times.bars.sort_by(|a, b| b.time.cmp(&a.time));
        times.most = times.bars.first().map_or(Rational::ZERO, |bar| bar.time.clone());
        times
    }
}

/// How busy a limit is beside the busiest, from 0 to 1; of a plan that is wrong it may be nothing at all.
pub fn busy(time: &Rational, most: &Rational) -> f64 {
    let busy = time.checked_div(most).filter(|_| most.is_positive()).map_or(0.0, |busy| busy.to_f64());
    if busy.is_finite() { busy.clamp(0.0, 1.0) } else { 0.0 }
}

/// How high the bars are, their heading included.
pub fn height(bars: &[Bar]) -> f64 {
    let rows = bars.len().min(MAX_BARS + 1);
    if rows == 0 { 0.0 } else { ROW * (rows as f64 + 1.5) }
}

/// A bar per limit, from `top` on, as long as it is full beside the fullest.
pub fn draw(out: &mut String, bars: &[Bar], top: f64) {
    let Some(fullest) = bars.first() else { return };
    let _ = writeln!(
        out,
        "<g>\n<text x=\"16\" y=\"{:.1}\" fill=\"#3c4753\">how full every limit is, beside the fullest: that one binds</text>",
        top + ROW * 0.6
    );
    for (row, bar) in bars.iter().take(MAX_BARS).enumerate() {
        let y = top + ROW * (row as f64 + 1.6);
        let busy = busy(&bar.time, &fullest.time);
        let like = if bar.count > 1 { format!(" and {} like it", bar.count - 1) } else { String::new() };
        let room = MAX_WORDS.saturating_sub(like.chars().count());
        let mut name: String = bar.name.chars().take(room).collect();
        if name.len() < bar.name.len() {
            name.pop();
            name.push('…');
        }
        let _ = writeln!(
            out,
            "<g><title>{}</title><text x=\"16\" y=\"{y:.1}\">{}</text><rect x=\"{:.1}\" y=\"{:.1}\" width=\"{:.1}\" \
             height=\"{:.1}\" fill=\"{}\"/><text x=\"{:.1}\" y=\"{y:.1}\">{:.1} % of {}</text></g>",
            escape(&bar.name),
            escape(&(name + &like)),
            BARS.0,
            y - ROW * 0.6,
            (BARS.1 * busy).max(1.0),
            ROW * 0.7,
            LOADS[load_class(busy)],
            BARS.0 + BARS.1 + 10.0,
            busy * 100.0,
            escape(&bar.capacity),
        );
    }
    if bars.len() > MAX_BARS {
        let y = top + ROW * (MAX_BARS as f64 + 1.6);
        let _ =
            writeln!(out, "<text x=\"16\" y=\"{y:.1}\">and {} more that are less full</text>", bars.len() - MAX_BARS);
    }
    out.push_str("</g>\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fabric(links: &str, groups: &str) -> Topology {
        let nodes = ["a", "b", "c"].map(|id| format!(r#"{{"id":"{id}","kind":"gpu"}}"#)).join(",");
        let text = format!(r#"{{"sluice_topology":1,"nodes":[{nodes}],"links":[{links}],"groups":[{groups}]}}"#);
        Topology::read(text.as_bytes(), "t").expect("valid")
    }
    fn loads(list: &[((usize, usize), i64)]) -> BTreeMap<(usize, usize), Rational> {
        list.iter().map(|(ends, load)| (*ends, Rational::new(*load, 1).expect("a number"))).collect()
    }
    fn number(p: i64, q: i64) -> Option<Rational> {
        Rational::new(p, q)
    }

    #[test]
    fn a_group_binds_where_it_takes_longest_and_colours_its_links() {
        let fabric = fabric(
            r#"{"from":"a","to":"b","capacity":"4"},{"from":"b","to":"c","capacity":"4"},
               {"from":"c","to":"a","capacity":"unlimited"},{"from":"c","to":"b","capacity":"3"}"#,
            r#"{"name":"bus","links":[["a","b"],["c","a"]],"capacity":"2"},
               {"name":"idle","links":[["c","b"]],"capacity":"1"}"#,
        );
        let times = Limits::new(&fabric).times(&loads(&[((0, 1), 1), ((1, 2), 1), ((2, 0), 2)]));
        assert_eq!(times.tightest[&(0, 1)], number(3, 2), "the bus carries 3 at 2");
        assert_eq!(times.tightest[&(2, 0)], number(3, 2), "no limit of its own");
        assert_eq!(times.tightest[&(1, 2)], number(1, 4));
        assert_eq!(Some(times.most), number(3, 2));
        let bars: Vec<(&str, usize)> = times.bars.iter().map(|bar| (&*bar.name, bar.count)).collect();
        assert_eq!(bars, [("bus", 1), ("a → b", 2)], "two links are alike, and what is idle has no bar");
        let mut out = String::new();
        draw(&mut out, &times.bars, 0.0);
        assert!(out.contains(">bus</text>") && out.contains("100.0 % of 2<") && out.contains("16.7 % of 4<"), "{out}");
        assert!(out.contains("a → b and 1 like it"), "{out}");
    }

    #[test]
    fn parallel_links_divide_a_load_as_their_capacities_do_or_evenly() {
        let pair = |first: &str, second: &str| {
            let link = |capacity: &str| format!(r#"{{"from":"a","to":"b","capacity":"{capacity}"}}"#);
            let links = [link(first), link(second)].join(",");
            let fabric = fabric(&links, r#"{"name":"one","links":[["a","b",1]],"capacity":"1"}"#);
            Limits::new(&fabric).times(&loads(&[((0, 1), 6)])).tightest[&(0, 1)].clone()
        };
        assert_eq!(pair("1", "2"), number(4, 1), "two thirds of 6 at 1");
        assert_eq!(pair("unlimited", "unlimited"), number(3, 1));
        assert_eq!(pair("2", "unlimited"), number(6, 1), "all goes over the one without limit");
        assert_eq!(pair("unlimited", "2"), None, "nothing goes over the limited one");
    }

    #[test]
    fn of_many_limits_the_fullest_have_bars() {
        let bars: Vec<Bar> = (0..30)
            .map(|i| Bar {
                time: number(30 - i, 1).expect("a number"),
                name: format!("limit {i}"),
                capacity: "1".into(),
                count: 1,
            })
            .collect();
        let mut out = String::new();
        draw(&mut out, &bars, 0.0);
        assert_eq!(out.matches("<rect ").count(), MAX_BARS);
        assert!(out.contains("and 10 more that are less full"));
        assert!(height(&bars) > height(&bars[..3]) && height(&[]) == 0.0);
        assert_eq!(busy(&number(-3, 1).expect("a number"), &Rational::ZERO), 0.0, "a plan that is wrong");
    }
}
