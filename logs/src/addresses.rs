//! Texts without the addresses in them: what a library says of a failed connection often names the other host.

use std::net::{IpAddr, SocketAddr};

/// What stands in the place of an address.
const HIDDEN: &str = "(address)";

/// The text with every IP address, with or without a port or a scheme before it, left out. Names stay: they are from the
/// configuration.
pub fn without_addresses(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let length = rest.find(|c: char| !is_of_address(c)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(length);
        match hide(word) {
            Some((before, behind)) => out.extend([before, HIDDEN, behind]),
            None => out.push_str(word),
        }
        // One character that is in no address, if there is one.
        let next = after.chars().next().map_or(0, char::len_utf8);
        let (between, following) = after.split_at(next);
        out.push_str(between);
        rest = following;
    }
    out
}

const fn is_of_address(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | ':' | '[' | ']' | '/' | '%' | '-' | '_')
}

/// What stands before and behind the address in a word, if there is one.
fn hide(word: &str) -> Option<(&str, &str)> {
    let scheme = word.find("://").map_or(0, |at| at + 3);
    let (before, rest) = word.split_at(scheme);
    let path = rest.find('/').unwrap_or(rest.len());
    let (host, behind) = rest.split_at(path);
    let is = |text: &str| {
        let plain = text.trim_start_matches('[').trim_end_matches(']');
        let plain = plain.split('%').next().unwrap_or_default();
        text.parse::<SocketAddr>().is_ok() || plain.parse::<IpAddr>().is_ok()
    };
    // A sentence goes on behind it; "::" at the end may be the address's own.
    let whole = std::iter::successors(Some(host), |text| text.strip_suffix([':', '.'])).find(|text| is(text))?;
    let end = host.strip_prefix(whole).unwrap_or_default();
    if behind.is_empty() { Some((before, end)) } else { Some((before, behind)) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn addresses_go_and_all_else_stays() {
        for (text, is) in [
            ("http://10.0.0.7:9604: no answer for 2 s", "http://(address): no answer for 2 s"),
            ("10.0.0.7:9604: Connection refused (os error 111)", "(address): Connection refused (os error 111)"),
            ("[fd00::7]:9604 closed, fd00::8 too.", "(address) closed, (address) too."),
            ("from ::ffff:10.0.0.7, fe80::1%eth0/64", "from (address), (address)/64"),
            (
                "http://leaf7:9604: the other end closed the session",
                "http://leaf7:9604: the other end closed the session",
            ),
            ("1::: gone. ::: gone", "(address): gone. (address): gone"),
            ("version 1.2.3, at 12:04:59, 3 of 7: é", "version 1.2.3, at 12:04:59, 3 of 7: é"),
            ("", ""),
        ] {
            assert_eq!(without_addresses(text), is);
        }
    }

    proptest! {
        #[test]
        fn no_address_survives_wherever_it_stands(
            before in "[a-zé ]{0,9}", v4 in any::<[u8; 4]>(), v6 in any::<[u16; 8]>(), port in 1u16..,
        ) {
            let (v4, v6) = (IpAddr::from(v4), IpAddr::from(v6));
            for address in [v4.to_string(), v6.to_string(), SocketAddr::new(v4, port).to_string(), SocketAddr::new(v6, port).to_string()] {
                let text = format!("{before} {address}: gone ({address})");
                let hidden = without_addresses(&text);
                prop_assert!(!hidden.contains(&address), "{} of {}", hidden, text);
                prop_assert_eq!(hidden.matches(HIDDEN).count(), 2);
            }
            let text = format!("{before}{before}");
            prop_assert_eq!(without_addresses(&text), text);
        }
    }
}
