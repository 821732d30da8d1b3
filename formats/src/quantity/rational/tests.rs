//! Fractions against those of a library, and the texts that are one.

use super::*;
use proptest::prelude::*;

fn of(text: &str) -> Rational {
    Rational::parse(text).expect(text)
}

#[test]
fn texts_are_read_exactly() {
    assert_eq!(of("0.1"), Rational::new(1, 10).unwrap());
    assert_eq!(of("-6/4").to_string(), "-3/2");
    assert_eq!(of("300.00").to_string(), "300");
    assert_eq!(of("123456789012345678901234567890").to_string(), "123456789012345678901234567890");
    assert_eq!(Rational::parse_json_number("2.5e-3"), Ok(of("1/400")));
    assert_eq!(Rational::parse_json_number("1E2"), Ok(of("100")));
}

#[test]
fn what_is_no_number_is_refused() {
    let long = "1".repeat(MAX_DIGITS + 1);
    for text in ["", "-", ".", "1.", ".5", "1/0", "1/-2", "1//2", "1e3", "nan", "inf", "+1", " 1", "1 ", "٣", &long] {
        assert_eq!(Rational::parse(text), Err(NotANumber), "{text}");
    }
    for text in ["1e999", "1e", "e1", "1e-99999999999999999999"] {
        assert_eq!(Rational::parse_json_number(text), Err(NotANumber), "{text}");
    }
}

#[test]
fn the_border_between_the_forms_is_invisible() {
    let most = Rational::from(i64::MAX as u64);
    let above = &most + &Rational::ONE;
    assert_eq!(above.to_string(), "9223372036854775808");
    assert_eq!(&above - &Rational::ONE, most);
    assert_eq!(above.to_u64(), Some(1 << 63));
    assert_eq!((&-&above - &Rational::ONE).to_string(), "-9223372036854775809");
    assert_eq!(&(&above * &above) / &above, above);
    assert!(above > most && -&above < Rational::ZERO);
    let tiny = above.recip().unwrap();
    assert!(tiny.is_positive() && tiny < Rational::ONE);
}

proptest! {
    #[test]
    fn it_agrees_with_big_fractions(a: i64, b in 1..=i64::MAX, c: i64, d in 1..=i64::MAX) {
        let (x, y) = (Rational::new(a, b).unwrap(), Rational::new(c, d).unwrap());
        let (p, q) = (BigRational::new(a.into(), b.into()), BigRational::new(c.into(), d.into()));
        prop_assert_eq!((&x + &y).grow(), &p + &q);
        prop_assert_eq!((&x - &y).grow(), &p - &q);
        prop_assert_eq!((&x * &y).grow(), &p * &q);
        prop_assert_eq!(x.cmp(&y), p.cmp(&q));
        if c != 0 {
            prop_assert_eq!((&x / &y).grow(), &p / &q);
        }
        prop_assert_eq!(Rational::parse(&x.to_string()), Ok(x));
    }

    #[test]
    fn any_text_is_read_or_refused(text in "[-0-9./eE]{0,12}|.{0,8}") {
        if let Ok(value) = Rational::parse(&text) {
            prop_assert_eq!(Rational::parse(&value.to_string()), Ok(value));
        }
        let _ = Rational::parse_json_number(&text);
    }
}

#[test]
fn a_setting_may_have_a_plus_an_exponent_and_a_fraction_of_decimals() {
    for (text, p, q) in
        [("0.25", 1, 4), ("1/3", 1, 3), ("1e-3", 1, 1000), (" 2.5E3 ", 2500, 1), ("1.5 / 3", 1, 2), ("+4", 4, 1)]
    {
        assert_eq!(Rational::parse_setting(text), Ok(Rational::new(p, q).expect("not over zero")), "{text}");
    }
    for text in ["", "x", "1/0", "1e400", "nan", "inf", "1e+-3", "1.2.3", "++1", "1/2/3"] {
        assert_eq!(Rational::parse_setting(text), Err(NotANumber), "{text}");
    }
}

#[test]
fn units_are_rounded_half_to_even() {
    let units = |text: &str, unit| Rational::parse_setting(text).expect("a number").to_units(unit);
    assert_eq!(units("1/3", 1_000_000_000), Some(333_333_333));
    assert_eq!([units("0.5", 1), units("1.5", 1), units("2.5", 1)], [Some(0), Some(2), Some(2)]);
    assert_eq!([units("-0.5", 1), units("-1", 1), units("1e30", 1)], [None, None, None]);
    assert_eq!(units("18446744073709551615", 1), Some(u64::MAX));
}

#[test]
fn an_exponent_that_is_too_large_either_way_is_refused() {
    // The least of all has no absolute value: without overflow checks it was taken for none.
    for exponent in ["257", "-257", "9223372036854775807", "-9223372036854775808", "-9223372036854775809"] {
        assert_eq!(Rational::parse_json_number(&format!("1e{exponent}")), Err(NotANumber), "{exponent}");
    }
    assert!(Rational::parse_json_number("1e256").is_ok() && Rational::parse_json_number("1e-256").is_ok());
}
