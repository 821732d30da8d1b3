//! What is kept for rounds that wait, as the configuration says.

use super::*;

/// What the longer of two rounds into one port is ordered behind one of this many bytes.
fn behind(bytes: u64, fair_floor: f64, fair_floor_brief: f64) -> Rate {
    let site = |index, job| {
        let mut config = config(index, true);
        (config.schedule.fair_floor, config.schedule.fair_floor_brief) = (fair_floor, fair_floor_brief);
        let fabric = fabric(index, &config);
        Site::on(config, fabric, (index, 2), job)
    };
    let mut star = Star::new(vec![site(0, "a"), site(1, "b")]);
    star.run(0, 300);
    star.sites[0].begin(bytes);
    star.sites[1].begin(8_000_000);
    star.run(300, 340);
    star.sites[1].order().expect("ordered").0
}

#[test]
fn behind_a_brief_round_a_part_of_an_equal_share_is_kept_and_behind_a_long_one_nothing() {
    let (brief, long) = (1_000_000, 4_000_000); // 80 and 320 ms
    assert!(behind(brief, 0.0, 0.0) < LINK.times(0.1), "{}", behind(brief, 0.0, 0.0));
    let half = behind(brief, 0.0, 0.5);
    assert!(half > LINK.times(0.2) && half < LINK.times(0.3), "half of an equal share: {half}");
    assert!(behind(long, 0.0, 0.5) < LINK.times(0.1), "{}", behind(long, 0.0, 0.5));
}
