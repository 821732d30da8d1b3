//! What every cable carries, and how long the slowest of them and of the groups takes.

use super::fabric::Fabric;
use sluice_formats::quantity::{Capacity, Rational};

/// What each cable carries, in parts of M or in trees.
pub struct Loads(pub Vec<Rational>);

/// The longest time over cables and groups, and where.
pub struct Slowest {
    /// Load over capacity.
    pub time: Rational,
    /// Name of the link or group.
    pub place: String,
}

impl Loads {
    pub fn new(fabric: &Fabric<'_>) -> Loads {
        Loads(vec![Rational::ZERO; fabric.cables.len()])
    }
    /// More on a cable.
    pub fn add(&mut self, cable: usize, amount: &Rational) {
        self.0[cable] += amount;
    }
    /// Adds `part` of another's loads.
    pub fn add_scaled(&mut self, other: &Loads, part: &Rational) {
        for (load, more) in self.0.iter_mut().zip(&other.0).filter(|(_, more)| !more.is_zero()) {
            *load += &(more * part);
        }
    }

    /// The cable or group that takes longest.
    pub fn slowest(&self, fabric: &Fabric<'_>) -> Slowest {
        let mut slowest = Slowest { time: Rational::ZERO, place: "no link".into() };
        let mut consider = |load: &Rational, capacity: &Capacity, place: &dyn Fn() -> String| {
            let Some(time) = capacity.finite().and_then(|capacity| load.checked_div(capacity)) else { return };
            if time > slowest.time {
                slowest = Slowest { time, place: place() };
            }
        };
        for (cable, load) in fabric.cables.iter().zip(&self.0).filter(|(_, load)| !load.is_zero()) {
            let name = || format!("{} → {}", fabric.id(cable.from), fabric.id(cable.to));
            consider(load, &cable.capacity, &name);
        }
        for group in fabric.groups() {
            let mut load = Rational::ZERO;
            for link in &group.links {
                load += &self.of_link(fabric, *link);
            }
            consider(&load, &group.capacity, &|| format!("group {}", group.name));
        }
        slowest
    }

    /// What one of the parallel links carries: a cable's load divides as their capacities do, or evenly over those
    /// without limit.
    pub fn of_link(&self, fabric: &Fabric<'_>, link: usize) -> Rational {
        let of = &fabric.topology.links()[link];
        let Some(place) = fabric.cable(of.from, of.to) else { return Rational::ZERO };
        let (cable, load) = (&fabric.cables[place], &self.0[place]);
        if cable.links.len() == 1 || load.is_zero() {
            return load.clone();
        }
        let share = match (cable.capacity.finite(), of.capacity.finite()) {
            (Some(all), Some(own)) => own.checked_div(all),
            (None, Some(_)) => None,
            (_, None) => {
                let free = |link: &&usize| fabric.topology.links()[**link].capacity.finite().is_none();
                Rational::new(1, cable.links.iter().filter(free).count() as i128)
            }
        };
        share.map_or(Rational::ZERO, |share| load * &share)
    }
}
