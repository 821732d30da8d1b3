//! A graph of sites with collectives over it: from the planner's generator to a fabric and to a file of flows.

use serde_json::json;
use sluice_planners_wan::generate::Workload;
use sluice_planners_wan::graph::Graph;
use sluice_planners_wan::instance::Instance;
use sluice_planners_wan::refusal::Refusal;
use sluice_planners_wan::routes::Router;
use sluice_schedule::{Bytes, Nanos, Rate};

use crate::experiment::capacity::queue;
use crate::fabric::{Cable, FabricSpec};

const ABILENE: &[u8] = include_bytes!("../../../../planners/wan/data/Abilene.graphml");
/// Sites of a ring at most: what one machine is asked to carry.
const MAX_SITES: usize = 40;

/// Sites and which of them have a cable between them.
#[derive(Clone, Debug)]
pub struct Sites(Graph);

impl std::str::FromStr for Sites {
    type Err = String;
    fn from_str(text: &str) -> Result<Sites, String> {
        let ring = text.strip_prefix("ring:").and_then(|sites| sites.parse().ok());
        let graph = match (text, ring) {
            ("abilene", _) => Graph::graphml(ABILENE, "Abilene.graphml"),
            (_, Some(sites @ 3..=MAX_SITES)) => Graph::ring(sites),
            _ => return Err(format!("not a graph of sites; allowed: abilene or ring:N, of 3 to {MAX_SITES} sites")),
        };
        graph.map(Sites).map_err(|refusal| refusal.to_string())
    }
}

/// What is drawn, and what it is divided by.
#[derive(Clone, Copy, Debug)]
pub struct Asked {
    /// How many collectives.
    pub collectives: usize,
    /// Sites in the ring of each.
    pub participants: usize,
    /// The seed of capacities, rings and sizes.
    pub seed: u64,
    /// Capacities and sizes are divided by this, so that times stay.
    pub scale: f64,
    /// One-way delay of every cable.
    pub delay: Nanos,
}

/// A network with collectives over it.
#[derive(Clone, Debug)]
pub struct Network {
    /// What is built. Its links are those of the instance, by number.
    pub spec: FabricSpec,
    /// A file of flows, as `sluice plan wan` reads it.
    pub flows: String,
    /// By collective its ring: hosts in their order.
    pub rings: Vec<Vec<usize>>,
    /// By collective the bytes of all its flows.
    pub volumes: Vec<Bytes>,
}

impl Network {
    /// Draws it.
    ///
    /// # Errors
    /// What the generator refuses.
    pub fn draw(sites: &Sites, asked: &Asked) -> Result<Network, Refusal> {
        let workload = Workload::new(&sites.0, asked.collectives, asked.seed);
        let instance = Workload { participants: asked.participants, ..workload }.generate()?;
        let hosts: Vec<String> = (0..instance.nodes()).map(host).collect();
        let mut router = Router::new(instance.nodes(), instance.links());
        let pairs = (0..hosts.len()).flat_map(|src| (0..hosts.len()).map(move |dst| (src, dst)));
        let ways = pairs.filter(|(src, dst)| src != dst).map(|(src, dst)| router.route(src, dst));
        let routes = ways.collect::<Result<Vec<_>, Refusal>>()?;
        // What the longest way holds there and back, so that one connection can fill it.
        let way = asked.delay.times(2 * routes.iter().map(Vec::len).max().unwrap_or(0) as u64);
        let cable = |pair: &[sluice_planners_wan::Link]| {
            let rate = |link: &sluice_planners_wan::Link| Rate((link.capacity * 8e6 / asked.scale) as u64);
            let (ab, ba) = (rate(&pair[0]), rate(&pair[1]));
            let queue = Bytes(queue(ab.max(ba)).0.max(ab.max(ba).over(way).0));
            Cable { ab, ba, delay: asked.delay, ..Cable::plain(host(pair[0].from), host(pair[0].to), ab, queue) }
        };
        let cables = instance.links().chunks_exact(2).map(cable).collect();
        let spec = FabricSpec { hosts, cables, routes, relays: Some(Nanos::ZERO), ..FabricSpec::default() };
        let bytes = |size: f64| Bytes((size * 1e6 / asked.scale).ceil() as u64);
        let of = |k: usize| instance.flows().iter().filter(move |flow| flow.collective == k);
        let volume = |k: usize| Bytes(of(k).map(|flow| bytes(flow.size).0).sum());
        Ok(Network {
            spec,
            flows: flows(&instance, bytes),
            rings: (0..instance.collectives())
                .map(|k| of(k).take(asked.participants).map(|f| f.from).collect())
                .collect(),
            volumes: (0..instance.collectives()).map(volume).collect(),
        })
    }
}

fn host(site: usize) -> String {
    format!("h{site}")
}

fn flows(instance: &Instance, bytes: impl Fn(f64) -> Bytes) -> String {
    let flow = |(id, flow): (usize, &sluice_planners_wan::Flow)| {
        json!({"id": id, "collective": flow.collective, "group": flow.group, "order": flow.order, "src": host(flow.from),
            "dst": host(flow.to), "size": format!("{}B", bytes(flow.size).0), "path": flow.path})
    };
    let flows: Vec<_> = instance.flows().iter().enumerate().map(flow).collect();
    json!({"sluice_flows": 1, "flows": flows}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::Layout;

    fn asked(collectives: usize) -> Asked {
        Asked { collectives, participants: 4, seed: 1, scale: 10.0, delay: Nanos::ZERO }
    }

    #[test]
    fn abilene_is_drawn_as_the_method_s_page_says() {
        let network = Network::draw(&"abilene".parse().unwrap(), &asked(2)).unwrap();
        assert_eq!((network.spec.hosts.len(), network.spec.cables.len(), network.spec.routes.len()), (11, 14, 110));
        assert_eq!(network.rings, [[0, 10, 7, 2], [7, 3, 5, 10]]);
        // 22.41433169552037 MB/s over ten, and 2.6673215349608546 MB over ten, in whole bytes.
        assert_eq!(network.spec.cables[0].ab, Rate(17_931_465));
        let file: serde_json::Value = serde_json::from_str(&network.flows).unwrap();
        assert_eq!(file["flows"][0]["size"], "266733B");
        assert_eq!(file["flows"][0]["path"], json!([0, 4]));
        let layout = Layout::of(&network.spec).expect("routes that agree with each other");
        assert_eq!(layout.next[0][10], [0]);
    }

    #[test]
    fn rings_begin_where_their_first_chunk_does_and_routes_agree() {
        for sites in ["ring:3", "ring:10", "ring:40"] {
            let network = Network::draw(&sites.parse().unwrap(), &Asked { participants: 2, ..asked(1) }).unwrap();
            Layout::of(&network.spec).unwrap_or_else(|e| panic!("{sites}: {e}"));
            assert!(network.rings[0].len() == 2 && network.rings[0][0] != network.rings[0][1]);
        }
    }

    #[test]
    fn a_queue_holds_what_is_under_way() {
        let delay = Nanos::from_millis(20);
        let network = Network::draw(&"ring:8".parse().unwrap(), &Asked { delay, ..asked(1) }).unwrap();
        let cable = &network.spec.cables[0];
        // Four hops there and four back.
        assert_eq!((cable.queue, cable.delay), (cable.ab.over(Nanos::from_millis(160)), delay));
    }

    #[test]
    fn other_graphs_are_refused() {
        for bad in ["ring:2", "ring:41", "ring", "Abilene", ""] {
            assert!(bad.parse::<Sites>().unwrap_err().contains("ring:N"), "{bad}");
        }
    }
}
