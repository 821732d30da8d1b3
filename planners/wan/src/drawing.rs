//! What pictures have in common: numbers of an axis, and numbers for people.

/// Round numbers from 0 to `top`, about `wanted` of them.
pub fn ticks(top: f64, wanted: u32) -> Vec<f64> {
    let raw = top / f64::from(wanted.max(1));
    let power = 10_f64.powf(raw.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].iter().map(|factor| factor * power).find(|step| *step >= raw * 0.999);
    match step.filter(|step| *step > 0.0 && step.is_finite()) {
        Some(step) => {
            (0..=2 * wanted).map(|i| f64::from(i) * step).take_while(|value| *value <= top * 1.000_001).collect()
        }
        None => vec![0.0],
    }
}

/// Four digits that count, no zeros behind.
pub fn number(value: f64) -> String {
    let digits = (3 - value.abs().max(1e-6).log10().floor() as i32).clamp(0, 9) as usize;
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_numbers() {
        assert_eq!(ticks(100.0, 5), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(ticks(0.9, 5), [0.0, 0.2, 0.4, 0.6000000000000001, 0.8]);
        assert_eq!(ticks(0.0, 5), [0.0]);
        assert_eq!(ticks(f64::NAN, 5), [0.0]);
    }

    #[test]
    fn numbers_have_as_many_digits_as_people_read() {
        assert_eq!([0.0, 2.5, 12.345_6, 9_876.54, 0.012_346].map(number), ["0", "2.5", "12.35", "9877", "0.01235"]);
    }
}
