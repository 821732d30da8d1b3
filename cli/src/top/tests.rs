use crossterm::event::{KeyCode, KeyModifiers};

use super::app::{Screen, Sort};
use super::*;

const SNAPSHOT: &str = include_str!("../../tests/data/snapshot.json");

fn app() -> App {
    let mut app = App::new(None, false);
    app.take(serde_json::from_str(SNAPSHOT).expect("the committed snapshot"));
    app
}

fn press(app: &mut App, keys: &str) -> After {
    keys.chars()
        .map(|key| app.key(if key == '\n' { KeyCode::Enter } else { KeyCode::Char(key) }, KeyModifiers::NONE))
        .last()
        .unwrap_or(After::Stay)
}

#[test]
fn a_frame_fits_the_least_size_and_says_what_matters() {
    let text = text(&app(), 80, 24).expect("a frame");
    assert!(text.lines().count() <= 24 && text.lines().all(|line| line.chars().count() <= 80), "{text}");
    for word in ["active, degraded", "switch-unreachable", "eth0", "jobs by rate", "4711", "flows of 4711", "q quit"] {
        assert!(text.contains(word), "{word} in\n{text}");
    }
}

#[test]
fn a_large_frame_shows_the_next_slots() {
    let text = text(&app(), 120, 40).expect("a frame");
    assert!(text.contains("NEXT (Gbit/s)") && text.contains("1.2 1.2 0.4"), "{text}");
}

#[test]
fn below_the_least_size_one_line_says_which_is_needed() {
    let text = text(&app(), 20, 5).expect("a frame");
    assert!(text.replace('\n', " ").contains("needs 80x24"), "{text}");
    for (width, height) in [(1, 1), (79, 24), (80, 23), (300, 100)] {
        super::text(&app(), width, height).expect("any size draws");
    }
}

#[test]
fn keys_do_what_the_help_says() {
    let mut app = app();
    assert_eq!(press(&mut app, "j"), After::Stay);
    assert_eq!(app.job().map(|job| job.id.as_str()), Some("vgg-exp"));
    press(&mut app, "jjjj");
    assert_eq!(app.selected, 2, "the selection stays on the last row");
    press(&mut app, "k\n");
    assert!(app.open);
    press(&mut app, "s");
    assert_eq!(app.sort, Sort::Name);
    press(&mut app, "f");
    assert_eq!(app.screen, Screen::Flows);
    assert!(text(&app, 80, 24).expect("a frame").contains("0x1b0"));
    press(&mut app, "l");
    assert!(text(&app, 80, 24).expect("a frame").contains("leaf-1:7"));
    press(&mut app, "l?");
    assert_eq!(app.screen, Screen::Help);
    assert!(text(&app, 80, 24).expect("a frame").contains("move the selection"));
    press(&mut app, "?p");
    assert!(app.paused && app.screen == Screen::Jobs);
    assert!(text(&app, 80, 24).expect("a frame").contains("PAUSED"));
    assert_eq!(press(&mut app, "q"), After::Quit);
    assert_eq!(app.key(KeyCode::Char('c'), KeyModifiers::CONTROL), After::Quit);
}

#[test]
fn an_empty_host_and_a_lost_daemon_draw() {
    let mut empty = App::new(Some("4711"), true);
    empty.take(Default::default());
    press(&mut empty, "jk\nfls");
    assert!(text(&empty, 80, 24).expect("a frame").contains("links by"));
    let mut lost = app();
    lost.lost("error: sluiced does not answer\nhelp: …");
    assert!(text(&lost, 80, 24).expect("a frame").contains("LAST ANSWER IS OLD"));
    assert!(text(&lost, 80, 24).expect("a frame").contains("4711"), "the last state stays");
}

#[test]
fn history_is_bounded() {
    let mut app = app();
    for _ in 0..500 {
        app.take(serde_json::from_str(SNAPSHOT).expect("the committed snapshot"));
    }
    let flow = app.snapshot.flows[0].id.clone();
    assert_eq!(app.history(&flow).count(), 120);
}
