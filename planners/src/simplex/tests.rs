//! Corners, rows added later, and a program that goes round in circles.

use super::*;

fn fraction(over: i64, under: i64) -> Rational {
    Rational::new(over, under).expect("not over zero")
}

fn row(coefficients: &[i64]) -> Vec<(usize, Rational)> {
    coefficients.iter().enumerate().map(|(variable, &coefficient)| (variable, fraction(coefficient, 1))).collect()
}

#[test]
fn a_corner_with_fractions() {
    // Maximise 3a + 2b with 2a + b ≤ 7, a + 3b ≤ 8: the corner is (13/5, 9/5).
    let mut program = Program::new(vec![fraction(3, 1), fraction(2, 1)]);
    program.add(&row(&[2, 1]), fraction(7, 1));
    program.add(&row(&[1, 3]), fraction(8, 1));
    program.solve(&Run::quiet(1)).expect("an optimum");
    assert_eq!(program.values(), [fraction(13, 5), fraction(9, 5)]);
    assert_eq!(program.objective(), fraction(57, 5));
    // A unit more of the first bound brings 7/5, of the second 1/5: 7 · 7/5 + 8 · 1/5 = 57/5.
    assert_eq!([0, 1].map(|row| program.price(row)), [fraction(7, 5), fraction(1, 5)]);
    // Two rows more, found later; the first does not bind.
    program.add(&row(&[1, 0]), fraction(3, 1));
    program.add(&row(&[1, 1]), fraction(4, 1));
    program.solve(&Run::quiet(1)).expect("an optimum");
    assert_eq!((program.values(), program.objective()), (vec![fraction(3, 1), fraction(1, 1)], fraction(11, 1)));
    let prices: Vec<Rational> = (0..4).map(|row| program.price(row)).collect();
    let bounds = [7, 8, 3, 4].map(|bound| fraction(bound, 1));
    let worth: Vec<Rational> = prices.iter().zip(&bounds).map(|(price, bound)| price * bound).collect();
    assert_eq!(worth.iter().sum::<Rational>(), fraction(11, 1));
}

#[test]
fn the_circle_of_beale_is_left() {
    // Beale's program goes round in circles under the plain rule of largest gain.
    let mut program = Program::new(vec![fraction(3, 4), fraction(-150, 1), fraction(1, 50), fraction(-6, 1)]);
    let coefficients = |values: [(i64, i64); 4]| {
        values.iter().enumerate().map(|(at, &(a, b))| (at, fraction(a, b))).collect::<Vec<_>>()
    };
    program.add(&coefficients([(1, 4), (-60, 1), (-1, 25), (9, 1)]), fraction(0, 1));
    program.add(&coefficients([(1, 2), (-90, 1), (-1, 50), (3, 1)]), fraction(0, 1));
    program.add(&row(&[0, 0, 1, 0]), fraction(1, 1));
    program.solve(&Run::quiet(1)).expect("an optimum");
    assert_eq!(program.objective(), fraction(1, 20));
}

#[test]
fn a_program_without_bound_is_refused() {
    let mut program = Program::new(vec![fraction(1, 1), fraction(1, 1)]);
    program.add(&row(&[1, -1]), fraction(1, 1));
    assert!(program.solve(&Run::quiet(1)).is_err());
}
