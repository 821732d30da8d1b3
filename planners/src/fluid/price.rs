//! The cheapest way to do what a block asks for at given prices of the links: what column generation adds next.

use super::closure::Closure;
use super::demand::{Block, Direction, Shape};
use super::network::Network;
use super::refusal::Refusal;
use super::steiner;
use super::tree::{Path, Route};
use super::ways::{Ways, links_to};

/// A route and what is known of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Priced {
    /// The cheapest way that was found for the block.
    pub route: Route,
    /// What a unit of the block's data costs on it.
    pub cost: f64,
    /// No route costs less than this; the cost itself if the route is the cheapest.
    pub bound: f64,
}

/// The cheapest route of a block where a unit over each link costs this much, which is never below zero. The network is
/// turned round for a block that moves inward, and the closure is that of the network at these prices.
///
/// # Errors
/// `Unreachable`.
pub fn price(network: &Network, block: &Block, edge_prices: &[f64], closure: &Closure<'_>) -> Result<Priced, Refusal> {
    match block.shape {
        Shape::Tree => cheapest_tree(block, closure),
        Shape::Paths => cheapest_paths(network, block, edge_prices),
    }
}

/// The cheapest tree of a block.
///
/// # Errors
/// `Unreachable`.
pub fn cheapest_tree(block: &Block, closure: &Closure<'_>) -> Result<Priced, Refusal> {
    let Some(found) = steiner::cheapest(closure, block.root, &block.ends) else {
        let hops = closure.network().hops(block.root);
        let far = block.ends.iter().find(|end| hops[**end as usize].is_none());
        return Err(unreachable(block, far.copied().unwrap_or(block.root)));
    };
    Ok(Priced { route: Route::Tree(found.tree), cost: found.cost, bound: found.bound })
}

/// The cheapest path to every end of a block. It needs no closure.
///
/// # Errors
/// `Unreachable`.
pub fn cheapest_paths(network: &Network, block: &Block, edge_prices: &[f64]) -> Result<Priced, Refusal> {
    let ways = Ways::from(network, block.root, edge_prices, |_| true);
    let path = |end: &u32| {
        let edges = links_to(network, &ways.came, block.root, *end).ok_or_else(|| unreachable(block, *end))?;
        Ok(Path { end: *end, edges })
    };
    let paths: Vec<Path> = block.ends.iter().map(path).collect::<Result<_, Refusal>>()?;
    let cost = block.ends.iter().map(|end| ways.cost[*end as usize]).sum();
    Ok(Priced { route: Route::Paths(paths), cost, bound: cost })
}

fn unreachable(block: &Block, end: u32) -> Refusal {
    let (origin, destination) = match block.direction {
        Direction::Out => (block.root, end),
        Direction::In => (end, block.root),
    };
    Refusal::Unreachable { origin, destination }
}
