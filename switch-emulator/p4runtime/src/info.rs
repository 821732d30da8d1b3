//! The P4Info of the program, as a compiler would write it but for its numbers: for the mock server, and for a switch
//! that was given the compiled program by other means.

use sluice_wire::udp::LANES;

use crate::ids::Kind;
use crate::names;
use crate::pb::p4::config::v1::match_field::Match;
use crate::pb::p4::config::v1::{
    Action, ActionRef, Counter, CounterSpec, MatchField, P4BitTypeSpec, P4BitstringLikeTypeSpec, P4DataTypeSpec,
    P4Info, PkgInfo, Preamble, Register, Table, action, p4_bitstring_like_type_spec, p4_data_type_spec,
};

/// Registers of each lane, one a port.
const PORTS: i32 = sluice_pipeline::PORTS as i32;
/// Registers that tell repeats from news.
const SEEN: i32 = sluice_pipeline::SEEN as i32;

/// The P4Info. Numbers are those of their kinds' ranges, counted in the order of the program's text.
pub fn info() -> P4Info {
    let actions = vec![
        action(1, &names::NO_ACTION),
        action(2, &names::BIND),
        action(3, &names::NO_ROUTE),
        action(4, &names::FORWARD),
        action(5, &names::CHOOSE),
        action(6, &names::LINK),
        action(7, &names::SET_SLOT),
    ];
    // The table that other tests reach for first stands first.
    let tables = vec![
        table(1, &names::LPM, &actions),
        table(2, &names::ECMP, &actions),
        table(3, &names::EDGE, &actions),
        table(4, &names::LINKS, &actions),
        table(5, &names::GUARD, &actions),
    ];
    let counters = [
        names::DROPS,
        names::SENT,
        names::ANNOUNCEMENTS,
        names::DUPLICATES,
        names::PROBES,
        names::REJECTED,
        names::OTHER_UNIT,
    ];
    let lanes = [names::EVEN, names::ODD];
    let lanes = lanes.iter().flat_map(|name| (0..LANES).map(move |lane| (format!("{name}{lane}"), PORTS)));
    let registers = lanes.chain([(names::SEEN.to_owned(), SEEN)]);
    P4Info {
        pkg_info: Some(PkgInfo { name: "sluice".into(), version: "1".into(), arch: "v1model".into() }),
        actions,
        tables,
        counters: (1..).zip(&counters).map(|(number, of)| counter(number, of)).collect(),
        registers: (1..).zip(registers).map(|(number, (name, size))| register(number, &name, size)).collect(),
    }
}

fn preamble(kind: Kind, number: u32, name: &str) -> Option<Preamble> {
    let alias = name.rsplit('.').next().unwrap_or(name).into();
    Some(Preamble { id: kind.prefix() << 24 | number, name: name.into(), alias })
}

fn action<const N: usize>(number: u32, of: &names::Action<N>) -> Action {
    let params = (1..).zip(&of.params);
    let params = params.map(|(id, field)| action::Param { id, name: field.name.into(), bitwidth: field.bits as i32 });
    Action { preamble: preamble(Kind::Action, number, of.name), params: params.collect() }
}

fn table<const N: usize>(number: u32, of: &names::Table<N>, actions: &[Action]) -> Table {
    let fields = (1..).zip(&of.fields).map(|(id, field)| MatchField {
        id,
        name: field.name.into(),
        bitwidth: field.bits as i32,
        r#match: Some(Match::MatchType(of.matched as i32)),
    });
    let known = || actions.iter().filter_map(|action| action.preamble.as_ref());
    let possible = of.actions.iter().filter_map(|name| known().find(|action| action.name == *name));
    Table {
        preamble: preamble(Kind::Table, number, of.name),
        match_fields: fields.collect(),
        action_refs: possible.map(|action| ActionRef { id: action.id }).collect(),
        direct_resource_ids: Vec::new(),
        size: of.size.into(),
    }
}

fn counter(number: u32, of: &names::Counter) -> Counter {
    let spec = Some(CounterSpec { unit: of.unit as i32 });
    Counter { preamble: preamble(Kind::Counter, number, of.name), spec, size: of.size.into() }
}

fn register(number: u32, name: &str, size: i32) -> Register {
    let bit = p4_bitstring_like_type_spec::TypeSpec::Bit(P4BitTypeSpec { bitwidth: 64 });
    let bits = p4_data_type_spec::TypeSpec::Bitstring(P4BitstringLikeTypeSpec { type_spec: Some(bit) });
    let type_spec = Some(P4DataTypeSpec { type_spec: Some(bits) });
    Register { preamble: preamble(Kind::Register, number, name), type_spec, size }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pb::p4::config::v1::counter_spec::Unit;

    const PROGRAM: &str = include_str!("../../p4/sluice.p4");

    /// The last word of a name: what the program's text has at its declaration.
    fn short(name: &str) -> &str {
        name.rsplit('.').next().unwrap()
    }

    fn declared(action: &Action) -> String {
        let params = action.params.iter().map(|param| format!("bit<{}> {}", param.bitwidth, param.name));
        let name = &action.preamble.as_ref().unwrap().name;
        format!("action {}({})", short(name), params.collect::<Vec<_>>().join(", "))
    }

    /// The text from a table's declaration to its end.
    fn body(name: &str) -> &'static str {
        let from = PROGRAM.find(&format!("table {} {{", short(name))).expect(name);
        PROGRAM[from..].split("\n    }").next().unwrap()
    }

    #[test]
    fn actions_have_the_parameters_of_the_program() {
        for action in info().actions {
            let declared = declared(&action);
            assert!(declared == "action NoAction()" || PROGRAM.contains(&declared), "{declared}");
        }
    }

    #[test]
    fn tables_have_the_keys_actions_and_sizes_of_the_program() {
        let actions = info().actions;
        for table in info().tables {
            let name = table.preamble.unwrap().name;
            let text = body(&name);
            let matched = if name == names::LPM.name { "lpm" } else { "exact" };
            let keys: String = table.match_fields.iter().map(|key| format!("{}: {matched}; ", key.name)).collect();
            assert!(keys.is_empty() != text.contains(&format!("key = {{ {keys}}}")), "{name}: {keys}");
            let named = |of: &ActionRef| {
                let mut preambles = actions.iter().filter_map(|action| action.preamble.as_ref());
                format!("{};", short(&preambles.find(|action| action.id == of.id).unwrap().name))
            };
            let possible = table.action_refs.iter().map(named).collect::<Vec<_>>().join(" ");
            assert!(text.contains(&format!("actions = {{ {possible} }}")), "{name}: {possible}");
            let size = if table.size == i64::from(PORTS) { "PORTS".to_owned() } else { table.size.to_string() };
            assert!(table.size == 1 || text.contains(&format!("size = {size};")), "{name}: {size}");
        }
        for field in ["bit<16> group;", "bit<16> bucket;", "bit<32> destination;"] {
            assert!(PROGRAM.contains(field), "{field}");
        }
    }

    #[test]
    fn counters_and_registers_are_those_of_the_program() {
        for counter in info().counters {
            let unit = match Unit::try_from(counter.spec.unwrap().unit) {
                Ok(Unit::Packets) => "packets",
                Ok(Unit::Both) => "packets_and_bytes",
                other => panic!("{other:?}"),
            };
            let size = if counter.size == i64::from(PORTS) { "PORTS".to_owned() } else { counter.size.to_string() };
            let name = counter.preamble.unwrap().name;
            let declared = format!("counter({size}, CounterType.{unit}) {};", short(&name));
            assert!(PROGRAM.contains(&declared), "{declared}");
        }
        for lane in 0..LANES {
            assert!(PROGRAM.contains(&format!("CELLS({lane})")));
        }
        for register in ["register<bit<64>>(PORTS) even_##n;", "register<bit<64>>(PORTS) odd_##n;"] {
            assert!(PROGRAM.contains(register), "{register}");
        }
        assert!(PROGRAM.contains("register<bit<64>>(SEEN) seen;"));
    }
}
