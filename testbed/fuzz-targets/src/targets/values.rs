//! F12, F13 and F14: numbers, addresses and names as people write them, and names as they are shown.

use std::sync::LazyLock;

use serde_json::Value;
use sluice_formats::label::Label;
use sluice_formats::quantity::{Capacity, Rational, duration, latency, size};
use sluice_formats::{network, problem};
use sluice_schedule::Nanos;
use sluice_wire::snapshot::Snapshot;
use sluice_wire::text::parse_duration;

use crate::mutate::Shape;
use crate::{Seed, Target};

/// Text of one value.
pub static VALUES: Target = Target {
    name: "F12-values",
    parser: "values of flags and keys: rates, sizes, times, networks, host:port, filters, trees of settings",
    property: "what is read is written so that it is read the same",
    shape: Shape::Text(&[
        "GB/s",
        "Gbit/s",
        "KiB/s",
        "bit/s",
        "unlimited",
        "ns",
        "us",
        "ms",
        "s",
        "m",
        "h",
        "d",
        "kB",
        "GiB",
        "10.0.0.0/8",
        "fd00::/8",
        "::ffff:10.0.0.7",
        "[::1]:9604",
        "host:1",
        "info",
        "debug",
        "=",
        ",",
        "7/2",
        "1e3",
        "-",
    ]),
    run: values,
    seeds: values_seeds,
};

/// Two numbers with a blank between.
pub static RATIONALS: Target = Target {
    name: "F13-rationals",
    parser: "exact numbers: p/q, decimals, exponents",
    property: "canonical: the denominator is positive and shares no divisor; sums, products and quotients undo each other; nothing overflows",
    shape: Shape::Text(&[
        "/",
        ".",
        "e",
        "E",
        "-",
        "+",
        "0",
        "1",
        "9",
        "170141183460469231731687303715884105728",
        "1/3",
        "-7/2",
    ]),
    run: rationals,
    seeds: rationals_seeds,
};

/// Any bytes; as JSON a status document.
pub static LABELS: Target = Target {
    name: "F14-labels",
    parser: "names from outside: labels, excerpts in messages, and /metrics for any status document",
    property: "a label is 1 to 64 of its characters and stays itself; no message and no line of /metrics has a control character, every line is one of the form",
    shape: Shape::Text(&[
        "\"jobs\"",
        "\"id\"",
        "\"conditions\"",
        "\"links\"",
        "\"flows\"",
        "\"name\"",
        "\\u0000",
        "\\n",
        "\\\"",
        "{",
        "}",
    ]),
    run: labels,
    seeds: labels_seeds,
};

/// Digits of a whole number that readers take, above and below the line each. In the unit in which it was given a number has no
/// more; in another one it may have, and so may sums and products.
const DIGITS: usize = 256;

/// Do readers take this number as it is written?
fn is_readable(number: &Rational) -> bool {
    let digits = |whole: &str| whole.strip_prefix('-').unwrap_or(whole).len();
    number.to_string().split('/').all(|whole| digits(whole) <= DIGITS)
}

fn values(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok((capacity, unit)) = Capacity::parse(text) {
        if let Some(unit) = unit {
            let written = unit.write(&capacity);
            assert_eq!(Capacity::parse(&written), Ok((capacity.clone(), Some(unit))), "{written}");
        }
        let _ = (capacity.bits_per_second(), capacity.plus(&capacity));
    }
    for read in [latency(text).map(|(seconds, _)| seconds), duration(text)].into_iter().flatten() {
        if is_readable(&read) {
            assert_eq!(duration(&format!("{read} s")), Ok(read));
        }
    }
    if let Ok(bytes) = size(text)
        && is_readable(&bytes)
    {
        assert_eq!(size(&format!("{bytes}B")), Ok(bytes));
    }
    match parse_duration(text) {
        Ok(time) => {
            assert!(time <= Nanos(366 * 86_400 * 1_000_000_000));
            assert_eq!(parse_duration(&format!("{}ns", time.0)), Ok(time));
        }
        Err(why) => assert!(!why.is_empty()),
    }
    if let Some(read) = network::parse(text) {
        assert_eq!(network::parse(&network::show(&read)), Some(read));
        assert!(network::contains(&read, read.addr()));
    }
    if let Some(written) = sluiced::fuzz::host_port(text) {
        assert_eq!(sluiced::fuzz::host_port(&written).as_ref(), Some(&written));
    }
    if let Some(written) = sluiced::fuzz::log_filter(text) {
        assert_eq!(written, text);
    }
}

fn rationals(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let mut words = text.split(' ');
    let [one, two] = std::array::from_fn(|_| words.next().unwrap_or_default());
    let read = |text: &str| {
        let readers = [Rational::parse, Rational::parse_json_number, Rational::parse_setting];
        readers.into_iter().find_map(|read| read(text).ok())
    };
    let Some(a) = read(one) else { return };
    canonical(&a);
    let Some(b) = read(two) else { return };
    canonical(&b);
    let sum = &a + &b;
    assert_eq!(&sum - &b, a);
    assert_eq!(sum, &b + &a);
    canonical(&sum);
    let product = &a * &b;
    canonical(&product);
    match product.checked_div(&b) {
        Some(again) => assert_eq!(again, a),
        None => assert!(b.is_zero()),
    }
    assert_eq!(a.cmp(&b), b.cmp(&a).reverse());
    assert_eq!((&a - &b).is_negative(), a < b);
}

fn canonical(number: &Rational) {
    let text = number.to_string();
    if is_readable(number) {
        assert_eq!(Rational::parse(&text).as_ref(), Ok(number), "{text}");
    }
    let denominator = number.denominator().to_string();
    assert!(!denominator.starts_with(['-', '0']), "{text}");
    assert_eq!(number.is_integer(), denominator == "1");
    assert_eq!(text.contains('/'), denominator != "1");
    assert_eq!(Rational::from_big(number.numerator(), number.denominator()).as_ref(), Some(number));
    if let Some(again) = number.recip() {
        assert_eq!(again.recip().as_ref(), Some(number));
    }
    let _ = (number.to_u64(), number.to_f64(), number.to_units(u64::MAX), number.parts());
}

/// A status document as a daemon makes it.
static OWN: LazyLock<Snapshot> =
    LazyLock::new(|| serde_json::from_str(SNAPSHOT).unwrap_or_else(|error| panic!("a document of our own: {error}")));
const SNAPSHOT: &str = include_str!("../../../../cli/tests/data/snapshot.json");

fn is_label(text: &str) -> bool {
    let known = |c: char| c.is_ascii_alphanumeric() || "._:/@+-\\~".contains(c);
    (1..=Label::MAX_BYTES).contains(&text.len()) && text.chars().all(known)
}

fn labels(bytes: &[u8]) {
    let label = Label::of(bytes);
    assert!(is_label(label.as_str()), "{label:?}");
    assert_eq!(Label::new(label.as_str()), label, "a label stays itself");
    assert!(bytes.is_empty() || is_label(&sluiced::fuzz::label(bytes)));
    let text = String::from_utf8_lossy(bytes);
    let told = problem::Problem::new(problem::E_PARSE, &*text, "wrong").found(&*text).allowed("right");
    let told = told.in_file("f").to_string();
    assert!(!told.chars().any(|c| c.is_control() && c != '\n'), "{told:?}");
    if let Ok(snapshot) = serde_json::from_slice::<Snapshot>(bytes) {
        // What the daemon says of itself is nobody else's word.
        let daemon = OWN.daemon.clone();
        exposition(&sluiced::fuzz::metrics(&Snapshot { daemon, ..snapshot }));
    }
}

/// Prometheus' classic text form: remarks, and lines of a name, labels and a number.
fn exposition(page: &str) {
    assert!(page.len() <= 2 << 20, "{} bytes of metrics", page.len());
    for line in page.lines() {
        assert!(!line.chars().any(char::is_control), "{line:?}");
        if line.starts_with('#') {
            continue;
        }
        let (name, value) = line.rsplit_once(' ').expect("a value");
        assert!(value.parse::<f64>().is_ok(), "{line:?}");
        assert!(name.starts_with("sluice") || name.starts_with("process"), "{line:?}");
    }
}

fn values_seeds() -> Vec<Seed> {
    let values = [
        "300GB/s",
        "7/2 Gbit/s",
        "unlimited",
        "0.5us",
        "1.5 h",
        ".5m",
        "500ms",
        "60",
        "100MB",
        "1GiB",
        "10.0.0.0/8",
        "fd00::7",
        "[fd00::1]:9605",
        "gpu-17:9605",
        "info,sluiced::monitor=debug",
    ];
    // As many digits as readers take, in units in which there are no more of them and in some in which there are.
    let (long, below) = ("9".repeat(DIGITS), "0".repeat(DIGITS - 2));
    let long =
        [format!("{long}/1{below}1 GB/s"), format!("0.{below}1GB/s"), format!("1/{long}ns"), format!("{long}TiB")];
    let all = values.into_iter().map(str::to_owned).chain(long);
    all.enumerate().map(|(at, value)| Seed::new(format!("value-{at:02}"), value)).collect()
}

fn rationals_seeds() -> Vec<Seed> {
    let pairs = [
        "1/3 -7/2",
        "0 1",
        "0.1 2.5e1",
        "1e-256 9e256",
        "+3 4/0.5",
        "170141183460469231731687303715884105727/2 -1/170141183460469231731687303715884105728",
        "-170141183460469231731687303715884105728 18446744073709551616",
    ];
    pairs.iter().enumerate().map(|(at, pair)| Seed::new(format!("pair-{at}"), *pair)).collect()
}

fn labels_seeds() -> Vec<Seed> {
    // Without its blanks, so that edits meet something.
    let snapshot: Value = serde_json::from_str(SNAPSHOT).expect("JSON of our own");
    vec![
        Seed::new("plain", "gpu-17"),
        Seed::new("hostile", "\u{1b}[31m\n\"\u{202e}x"),
        Seed::new("long", "x".repeat(100)),
        Seed::new("snapshot", snapshot.to_string()),
    ]
}
