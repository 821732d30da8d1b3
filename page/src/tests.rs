//! The pages as documents: small, alone, and readable by everybody.

use std::collections::{BTreeMap, BTreeSet};

use crate::{HOST, MAX_BYTES, Page, SWITCH};

const BOTH: [(&str, Page); 2] = [("host", HOST), ("switch", SWITCH)];

/// What stands between each `before` and the next `after`.
fn between<'a>(text: &'a str, before: &str, after: &str) -> Vec<&'a str> {
    text.split(before).skip(1).filter_map(|rest| rest.split_once(after)).map(|(found, _)| found).collect()
}

fn script(page: Page) -> &'static str {
    between(page.html, "<script>", "</script>")[0]
}

#[test]
fn they_are_small_and_ask_nobody_else() {
    for (name, Page { html, policy }) in BOTH {
        assert!(html.len() <= MAX_BYTES, "{name}: {} bytes", html.len());
        for foreign in ["http://", "https://", "@import", "src=", "url(", "innerHTML", "document.write", "eval("] {
            assert!(!html.contains(foreign), "{name}: {foreign}");
        }
        // Where links and requests of the script lead: beside the page.
        for (before, after) in [("href=\"", "\""), ("fetch('", "'"), ("return '", "'")] {
            for address in between(html, before, after) {
                assert!(!address.starts_with(['/', '.']) && !address.contains("://"), "{name}: {address}");
            }
        }
        for method in ["POST", "PUT", "DELETE", "method:", "<form", "localStorage", "cookie"] {
            assert!(!html.contains(method), "{name} only reads: {method}");
        }
        assert!(!html.contains("style=\"") && !html.contains(" onclick="), "{name}: the policy would stop it");
        let parts: Vec<&str> = policy.split("; ").collect();
        assert_eq!(parts[0], "default-src 'none'");
        assert!(parts.contains(&"connect-src 'self'") && parts.contains(&"frame-ancestors 'none'"), "{policy}");
        assert_eq!(policy.matches("'sha256-").count(), 2);
        assert!(!policy.contains("unsafe") && policy.is_ascii(), "{policy}");
    }
}

#[test]
fn what_the_script_asks_for_is_there_once() {
    for (name, page) in BOTH {
        let ids = between(page.html, " id=\"", "\"");
        let set: BTreeSet<&str> = ids.iter().copied().collect();
        assert_eq!(ids.len(), set.len(), "{name}: an id stands twice");
        let asked = between(script(page), "$('", "')");
        assert!(asked.len() > 20, "{name}: {asked:?}");
        asked.iter().for_each(|id| assert!(set.contains(id), "{name}: no #{id}"));
        // And whatever is drawn by nobody has no id.
        let used = |id: &&str| {
            let quoted = [format!("'{id}'"), format!("\"{id}\"")];
            page.html.matches(quoted[0].as_str()).count() > 0
                || page.html.matches(&format!("labelledby={}", quoted[1])).count() > 0
                || page.html.contains(&format!("href=\"#{id}\""))
                || page.html.contains(&format!("#{id}{{"))
        };
        assert!(ids.iter().all(used), "{name}: {:?}", ids.iter().filter(|id| !used(id)).collect::<Vec<_>>());
    }
}

#[test]
fn headings_sections_tables_and_controls_have_names() {
    for (name, Page { html, .. }) in BOTH {
        let ids: BTreeSet<&str> = between(html, " id=\"", "\"").into_iter().collect();
        assert!(html.starts_with("<!doctype html>\n<html lang=\"en\">"), "{name}");
        assert_eq!((html.matches("<h1>").count(), html.matches("<main").count()), (1, 1), "{name}");
        let sections = html.matches("<section").count();
        assert_eq!(html.matches("<section aria-labelledby=\"h-").count(), sections, "{name}");
        assert_eq!(html.matches("<h2 id=\"h-").count(), sections, "{name}");
        between(html, "aria-labelledby=\"", "\"").iter().for_each(|id| assert!(ids.contains(id), "{name}: {id}"));
        // Every heading of a column says that it is one; what scrolls can be scrolled by keyboard, and has a name.
        assert_eq!(html.matches("<th").count(), html.matches("<th scope=").count() + html.matches("<thead").count());
        let scrolls = html.matches("class=\"scroll\"").count();
        assert_eq!(html.matches("class=\"scroll\" role=\"region\" aria-labelledby=").count(), scrolls, "{name}");
        assert_eq!(html.matches("tabindex=\"0\"").count(), scrolls, "{name}");
        assert_eq!(html.matches("tabindex").count(), scrolls + 1, "{name}: the order is the document's");
        // Controls stand in their labels.
        let body = html.split_once("<body>").map_or("", |(_, body)| body);
        for control in ["<input", "<select"] {
            for (at, _) in body.match_indices(control) {
                let before = &body[..at];
                assert!(before.matches("<label>").count() > before.matches("</label>").count(), "{name}: {control}");
            }
        }
    }
}

/// Relative luminance of `#rgb` or `#rrggbb`, as WCAG 2 has it.
fn luminance(colour: &str) -> f64 {
    let digits = colour.trim_start_matches('#');
    let wide = match digits.len() {
        3 => digits.chars().flat_map(|c| [c, c]).collect(),
        _ => digits.to_owned(),
    };
    let channel = |at: usize| {
        let value = f64::from(u8::from_str_radix(&wide[at..at + 2], 16).expect("hexadecimal")) / 255.0;
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    };
    0.2126 * channel(0) + 0.7152 * channel(2) + 0.0722 * channel(4)
}

fn contrast(a: &str, b: &str) -> f64 {
    let (a, b) = (luminance(a), luminance(b));
    (a.max(b) + 0.05) / (a.min(b) + 0.05)
}

/// The colours of the light page and of the dark one.
fn colours() -> [BTreeMap<&'static str, &'static str>; 2] {
    let style = between(HOST.html, "<style>", "</style>")[0];
    let of = |block: &'static str| -> BTreeMap<&str, &str> {
        let pairs = block.split([';', '\n']).filter_map(|pair| pair.trim().split_once(':'));
        pairs.filter(|(name, value)| name.starts_with("--") && value.starts_with('#')).collect()
    };
    let blocks = between(style, ":root{", "}");
    [of(blocks[0]), of(blocks[1])]
}

#[test]
fn text_and_marks_stand_out_in_light_and_dark() {
    let [light, dark] = colours();
    assert_eq!(light.keys().collect::<Vec<_>>(), dark.keys().collect::<Vec<_>>());
    assert!(light.len() > 20, "{light:?}");
    for (scheme, of) in [("light", &light), ("dark", &dark)] {
        let texts = [
            ("--fg", "--bg"),
            ("--fg", "--card"),
            ("--fg", "--fill"),
            ("--soft", "--bg"),
            ("--soft", "--card"),
            ("--ok", "--okbg"),
            ("--warn", "--warnbg"),
            ("--bad", "--badbg"),
            ("--info", "--infobg"),
            ("--fg", "--warnbg"),
            ("--fg", "--badbg"),
            ("--fg", "--infobg"),
        ];
        for (text, ground) in texts {
            let ratio = contrast(of[text], of[ground]);
            assert!(ratio >= 4.5, "{scheme}: {text} on {ground}: {ratio:.2}");
        }
        // Borders of controls, rings of the focus, edges of what is drawn.
        let marks = ["--edge", "--focus", "--top", "--m0", "--m1", "--m2", "--m3", "--m4", "--m5"];
        for mark in marks {
            for ground in ["--bg", "--card"] {
                let ratio = contrast(of[mark], of[ground]);
                assert!(ratio >= 3.0, "{scheme}: {mark} on {ground}: {ratio:.2}");
            }
        }
    }
    assert!((contrast("#000", "#fff") - 21.0).abs() < 1e-9);
}

#[test]
fn one_style_serves_both() {
    let style = |page: Page| between(page.html, "<style>", "</style>")[0];
    assert_eq!(style(HOST), style(SWITCH));
    for media in ["prefers-color-scheme:dark", "prefers-reduced-motion", "max-width:34rem", "forced-colors", "print"] {
        assert!(style(HOST).contains(media), "{media}");
    }
}
