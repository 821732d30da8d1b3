//! Equal paths in a run: leaves with two up-links, of which a flow takes one, switches that say which, and redraws.
//!
//! A host learns of it only by asking the leaf; until then a flow's path has a gap.

use sluice_schedule::message::{Announcement, Connection, Route};
use sluice_schedule::units::{FlowId, HolderId, LinkId};
use sluice_schedule::{Event, Hop};

use crate::Mutant;
use crate::setup::host_id;
use crate::situations::Situation;
use crate::world::World;

/// Slots in which every flow is asked for again, and what that takes.
pub const LEARNING: u64 = 20;
/// A question that was lost so often in a row is asked again later than that, up to 64 slots.
const LOST_OFTEN: u32 = 4;

impl World {
    /// The fabric sends a flow by the leaf's other up-link from now on; nobody is told.
    pub fn redraw(&mut self, at: usize) {
        let kernel = &mut self.cluster.kernel;
        let Some(twin) = self.cluster.twins.get(&kernel.flows[at].path[1]).copied() else { return };
        kernel.flows[at].path[1] = twin;
        kernel.share();
        let sends = self.cluster.kernel.sending(at);
        self.seen(if sends { Situation::PathChangedInRound } else { Situation::PathChanged });
    }

    /// A switch answers what it is asked, by where the fabric sends the flow now.
    pub fn say_routes(&mut self, holder: usize, from: usize, asked: &Announcement) {
        for question in &asked.routes {
            let kernel = &self.cluster.kernel;
            let Some(at) = kernel.find(question.flow) else { continue };
            assert_eq!(question.connection, connection(at));
            let link = kernel.cables[kernel.flows[at].path[1]].link;
            if let Some(switch) = &mut self.cluster.holders[holder].switch {
                switch.route_known(host_id(from), Route { flow: question.flow, link });
            }
        }
    }

    /// A host's brain has learned which link a flow takes, or that this is not known any more.
    pub fn routed(&mut self, host: usize, flow: FlowId, holder: HolderId, link: Option<LinkId>) {
        let Some(at) = self.cluster.kernel.find(flow) else { return };
        let open = self.cluster.daemons[host].known.contains_key(&flow);
        let (up, capacity) =
            (link.map(LinkId::port), self.cluster.kernel.cables[self.cluster.kernel.flows[at].path[1]].capacity);
        let for_ever = self.mutant == Some(Mutant::PathsForEver);
        let spec = &mut self.cluster.specs[at];
        if for_ever && spec.path.len() == self.cluster.kernel.flows[at].path.len() {
            return;
        }
        assert!(spec.forks.contains(&holder) && up.is_none_or(|up| up >= 100), "{flow} {holder} {link:?}");
        spec.path.retain(|hop| hop.holder != Some(holder) || hop.link.port() < 100);
        if let Some(link) = link {
            spec.path.insert(1, Hop { link, capacity, holder: Some(holder) });
        }
        let spec = spec.clone();
        if open {
            self.wake(host, vec![Event::FlowOpened(spec)]);
        }
        self.seen(if link.is_some() { Situation::RouteLearned } else { Situation::RouteForgotten });
    }

    /// Is a flow's path the one that its host knows?
    fn is_known(&self, at: usize) -> bool {
        let kernel = &self.cluster.kernel;
        let real = kernel.flows[at].path.iter().map(|&cable| kernel.cables[cable].link);
        self.cluster.specs[at].path.iter().map(|hop| hop.link).eq(real)
    }

    /// Can its host know no better? It asks nobody, being of a version that does not; it is cut off; or what it asked was lost
    /// so often that it asks again much later.
    fn is_excused(&self, at: usize) -> bool {
        let flow = &self.cluster.kernel.flows[at];
        let lost = self.measures.asked.get(&flow.id).is_some_and(|asked| *asked > LOST_OFTEN);
        let lasting = self.options.lasting.map(|lasting| host_id(lasting.host));
        self.cluster.daemons[flow.host].older || lost || Some(flow.from) == lasting
    }

    /// Does a flow take a link that its host cannot know of? What it is ordered is then promised elsewhere.
    pub fn strays(&self, at: usize) -> bool {
        !self.is_known(at) && self.is_excused(at)
    }

    /// Invariant 16: in the calm every flow's path is known to the host that sends it.
    pub fn check_routes(&mut self) {
        let flows = &self.cluster.kernel.flows;
        let unknown = |at: &usize| flows[*at].row.is_some() && !self.is_known(*at) && !self.is_excused(*at);
        if let Some(at) = (0..flows.len()).find(unknown) {
            let spec = &self.cluster.specs[at];
            let what = format!("the path of {} is not {:?}", spec.flow, spec.path);
            self.blame(16, what);
        }
    }
}

/// What the n-th flow's packets show.
pub fn connection(n: usize) -> Connection {
    let end = |last, port| std::net::SocketAddr::from(([10, 0, 0, last], port));
    Connection { source: end(1, n as u16), destination: end(2, 80), protocol: 6 }
}
