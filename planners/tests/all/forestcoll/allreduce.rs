//! The linear program of all-reduce: its value, and forests that reach it on shared links.

use crate::forestcoll::checker::{bandwidths, big, check, least_bandwidth, loads};
use crate::forestcoll::fabrics::{a100, heterogeneous, mi250, tangled};
use num_bigint::BigInt;
use num_rational::BigRational;
use sluice_formats::quantity::Rational;
use sluice_planners::Run;
use sluice_planners::forestcoll::{AllReduce, Direction, Fabric, all_reduce, optimum};

/// What an all-reduce promises: the same amounts per root in both forests, their loads together within all links.
pub fn check_both(fabric: &Fabric, planned: &AllReduce) -> Result<(), String> {
    let [inwards, outwards] = planned.forests.as_slice() else { return Err("not two forests".into()) };
    if (inwards.direction, outwards.direction) != (Direction::In, Direction::Out) || inwards.u != outwards.u {
        return Err("not one forest in and one out".into());
    }
    let mut amounts = [vec![0; fabric.compute], vec![0; fabric.compute]];
    for (forest, amounts) in planned.forests.iter().zip(&mut amounts) {
        check(fabric, forest)?;
        forest.trees.iter().for_each(|tree| amounts[tree.root as usize] += tree.weight);
    }
    if amounts[0] != amounts[1] {
        return Err(format!("roots differ: {amounts:?}"));
    }
    let total = BigRational::from(BigInt::from(amounts[0].iter().sum::<u64>()));
    if total != big(&planned.sum_x) * big(&inwards.u) {
        return Err(format!("{total} trees at U = {} are not {}", inwards.u, planned.sum_x));
    }
    let (into, out) = (loads(inwards), loads(outwards));
    for (hop, bandwidth) in bandwidths(fabric) {
        let load = into.get(&hop).unwrap_or(&0) + out.get(&hop).unwrap_or(&0);
        if BigRational::from(BigInt::from(load)) > bandwidth * big(&inwards.u) {
            return Err(format!("link {hop:?} carries {load}"));
        }
    }
    Ok(())
}

/// Σ x_v of the phases one after the other.
fn phases(fabric: &Fabric, inverse_x: &Rational) -> Rational {
    &Rational::new(fabric.compute as i128, 2).expect("not over zero") / inverse_x
}

/// Between twice the phases one after the other and the cut bound.
fn check_value(fabric: &Fabric, planned: &AllReduce) {
    let best = optimum(fabric, false, &Run::quiet(1)).expect("an optimum");
    let phases = phases(fabric, &best.inverse_x);
    let bound = least_bandwidth(fabric);
    assert!(phases <= planned.sum_x && big(&planned.sum_x) <= bound, "{phases} {} {bound}", planned.sum_x);
}

#[test]
fn random_fabrics() {
    let mut better = 0;
    for seed in 0..24 {
        let plain = if seed % 2 == 0 {
            tangled(2 + seed % 5, seed % 3, 6, seed as u64)
        } else {
            heterogeneous(2 + seed % 4, seed as u64)
        };
        let fabric = Fabric { weights: Vec::new(), ..plain };
        let planned = all_reduce(&fabric, false, &Run::quiet(1)).expect("a plan");
        check_both(&fabric, &planned).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        check_value(&fabric, &planned);
        let best = optimum(&fabric, false, &Run::quiet(1)).expect("an optimum");
        better += usize::from(planned.sum_x > phases(&fabric, &best.inverse_x));
    }
    assert!(better > 2, "only {better} fabrics gain by the program");
}

#[test]
fn one_box() {
    let fabric = a100(1);
    let planned = all_reduce(&fabric, false, &Run::quiet(1)).expect("a plan");
    check_both(&fabric, &planned).expect("the checker agrees");
    check_value(&fabric, &planned);
}

#[test]
fn too_large_is_said() {
    let refusal = all_reduce(&mi250(4), false, &Run::quiet(1)).expect_err("64 GPUs are too many");
    assert_eq!(refusal.code(), "PROGRAM_TOO_LARGE");
}
