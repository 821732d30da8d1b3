use proptest::prelude::*;
use prost::Message as _;

use super::*;

/// A path with these steps, of which the interface has this name.
fn at(steps: &[&str], interface: &str) -> pb::Path {
    let element = |step: &&str| {
        let key = if step.ends_with("interface") { vec![(KEY.to_owned(), interface.to_owned())] } else { vec![] };
        pb::PathElem { name: (*step).to_owned(), key: key.into_iter().collect() }
    };
    pb::Path { elem: steps.iter().map(element).collect(), ..pb::Path::default() }
}

fn said(prefix: Option<pb::Path>, path: pb::Path, value: Value) -> Vec<Result<Reading, Malformed>> {
    let val = Some(pb::TypedValue { value: Some(value) });
    let update = vec![pb::Update { path: Some(path), val }];
    readings(&pb::Notification { timestamp: 7, prefix, update }).collect()
}

fn reading(interface: &str, out_octets: u64) -> Result<Reading, Malformed> {
    Ok(Reading { interface: interface.to_owned(), out_octets, taken: Nanos(7) })
}

#[test]
fn the_path_may_be_parted_anywhere() {
    for parted in 0..=STEPS.len() {
        let (prefix, path) = (at(&STEPS[..parted], "eth1/1"), at(&STEPS[parted..], "eth1/1"));
        assert_eq!(said(Some(prefix), path, Value::UintVal(9)), [reading("eth1/1", 9)], "after {parted}");
    }
    assert_eq!(said(None, path("swp1"), Value::UintVal(9)), [reading("swp1", 9)]);
    let modules = ["openconfig-interfaces:interfaces", "interface", "state", "x:counters", "out-octets"];
    assert_eq!(said(None, at(&modules, "swp1"), Value::UintVal(9)), [reading("swp1", 9)]);
}

#[test]
fn other_paths_are_passed_over() {
    let others: [&[&str]; 5] = [
        &[],
        &STEPS[..4],
        &["interfaces", "interface", "state", "counters", "in-octets"],
        &["interfaces", "interface", "state", "counters", "out-octets", "more"],
        &["components", "interface", "state", "counters", "out-octets"],
    ];
    for other in others {
        assert!(said(None, at(other, "swp1"), Value::UintVal(9)).is_empty(), "{other:?}");
        assert!(said(Some(at(other, "swp1")), pb::Path::default(), Value::UintVal(9)).is_empty(), "{other:?}");
    }
    assert_eq!(readings(&pb::Notification::default()).count(), 0);
}

#[test]
fn numbers_come_in_many_clothes() {
    let most = u64::MAX.to_string();
    for (value, octets) in [
        (Value::UintVal(u64::MAX), u64::MAX),
        (Value::IntVal(12), 12),
        (Value::StringVal("12".into()), 12),
        (Value::JsonVal(b" 12\n".to_vec()), 12),
        (Value::JsonVal(b"0".to_vec()), 0),
        (Value::JsonIetfVal(format!("\"{most}\"").into()), u64::MAX),
    ] {
        assert_eq!(said(None, path("swp1"), value.clone()), [reading("swp1", octets)], "{value:?}");
    }
}

#[test]
fn what_is_wrong_is_told() {
    let value = |value, found: &str| {
        let wrong = Malformed::Value { interface: "swp1".into(), found: found.into() };
        assert_eq!(said(None, path("swp1"), value), [Err(wrong)]);
    };
    value(Value::IntVal(-1), "-1");
    for text in ["", "+1", "-1", "1.5", "1e3", "\"", "\"1", "null", "{}", "18446744073709551616"] {
        value(Value::JsonVal(text.as_bytes().to_vec()), &format!("{text:?}"));
        value(Value::StringVal(text.to_owned()), &format!("{text:?}"));
    }
    value(Value::JsonIetfVal(vec![b'x'; 100_000]), &format!("{:?}", "x".repeat(SHOWN)));
    for name in ["".to_owned(), "x".repeat(NAME + 1)] {
        assert_eq!(said(None, path(&name), Value::UintVal(1)), [Err(Malformed::Name(name.len()))]);
    }
    let update = vec![pb::Update { path: Some(path("swp1")), val: None }];
    let early = pb::Notification { timestamp: -5, prefix: None, update };
    assert_eq!(readings(&early).collect::<Vec<_>>(), [Err(Malformed::Timestamp(-5))]);
    let valueless = pb::Notification { timestamp: 5, ..early };
    let told = readings(&valueless).next().unwrap().unwrap_err().to_string();
    let text = "gnmi-malformed: out-octets of interface \"swp1\" is of a kind that is not read here; allowed";
    assert!(told.starts_with(text), "{told}");
}

fn response() -> impl Strategy<Value = pb::SubscribeResponse> {
    let name = || prop::sample::select(STEPS.to_vec()).prop_map(str::to_owned);
    let element = (name(), any::<Option<String>>())
        .prop_map(|(name, key)| pb::PathElem { name, key: key.map(|key| (KEY.to_owned(), key)).into_iter().collect() });
    let path = prop_oneof![
        any::<String>().prop_map(|name| path(&name)),
        prop::collection::vec(element, 0..7).prop_map(|elem| pb::Path { elem, ..pb::Path::default() }),
    ];
    let value = prop_oneof![
        any::<u64>().prop_map(Value::UintVal),
        any::<i64>().prop_map(Value::IntVal),
        any::<String>().prop_map(Value::StringVal),
        prop::collection::vec(any::<u8>(), 0..30).prop_map(Value::JsonIetfVal),
    ];
    let update = (path, prop::option::of(value)).prop_map(|(path, value)| pb::Update {
        path: Some(path),
        val: value.map(|value| pb::TypedValue { value: Some(value) }),
    });
    (any::<i64>(), prop::collection::vec(update, 0..5)).prop_map(|(timestamp, update)| {
        let notification = pb::Notification { timestamp, prefix: None, update };
        pb::SubscribeResponse { response: Some(pb::subscribe_response::Response::Update(notification)) }
    })
}

proptest! {
    /// Whatever a target sends is read, or told to be wrong, and never more than one thing is made of one update.
    #[test]
    fn mutated_responses_are_answered(
        response in response(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..5),
    ) {
        let mut bytes = response.encode_to_vec();
        for (at, value) in changes {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        let Ok(response) = pb::SubscribeResponse::decode(bytes.as_slice()) else { return Ok(()) };
        if let Some(pb::subscribe_response::Response::Update(notification)) = response.response {
            let told: Vec<_> = readings(&notification).map(|item| item.map_err(|error| error.to_string())).collect();
            prop_assert!(told.len() <= notification.update.len());
        }
    }
}
