//! Plans of kind `sends`: the worked examples of the time model, and what each rule of the checker refuses.

use serde_json::{Value, json};
use sluice_plan::check::{Code, check};
use sluice_plan::plan::Plan;

use crate::epochs::{code, edited_send, finish, gpus, on, plan, send, star};
use crate::scene::edited;

/// An all-gather of three in a row.
pub fn row() -> Value {
    let sends = vec![
        send(0, 0, 0, 1, 0),
        send(1, 0, 1, 0, 0),
        send(1, 0, 1, 2, 0),
        send(2, 0, 2, 1, 0),
        send(0, 0, 1, 2, 2),
        send(2, 0, 1, 0, 2),
    ];
    plan(&gpus(3, &[(0, 1), (1, 2)]), "allgather", sends)
}

#[test]
fn a_relay_of_two_hops_ends_after_four_epochs() {
    // 25 kB at 25 GB/s take one epoch, the latency another: usable from epoch 2, and there by the end of epoch 3.
    assert_eq!(finish(&row()), 4);
    let mut claimed = row();
    claimed["claim"] = json!({"finish_epochs": 4, "finish_us": 4, "lower_bound": "4", "optimal": true,
        "certificate": {"kind": "distance"}});
    claimed["content"]["epoch_us"] = json!(1.0);
    assert_eq!(code(&claimed), None);
    let mut early = row();
    early["content"]["sends"][4]["epoch"] = json!(1);
    assert_eq!(code(&early), Some(Code::HopWithoutData));
    // A copy may be called one; a sum has no place in an all-gather.
    let with = |op: &str| edited_send(&row(), 4, "op", json!(op));
    assert_eq!(finish(&with("copy")), 4);
    assert_eq!(code(&with("reduce")), Some(Code::BadSend));
    // Without latency that counts (0.7 of an epoch is at most theta), one epoch a hop.
    let mut quick = row();
    quick["content"]["model"]["theta"] = json!("0.7");
    quick["content"]["sends"][4]["epoch"] = json!(1);
    quick["content"]["sends"][5]["epoch"] = json!(1);
    assert_eq!(finish(&quick), 2);
    // Half the epoch length: two epochs to push a chunk through, and two for the latency.
    let mut fine = row();
    fine["content"]["model"]["tau"] = json!("0.5us");
    fine["content"]["sends"][4]["epoch"] = json!(4);
    fine["content"]["sends"][5]["epoch"] = json!(4);
    assert_eq!(finish(&fine), 8);
    fine["content"]["sends"][4]["epoch"] = json!(3);
    assert_eq!(code(&fine), Some(Code::HopWithoutData));
    // A straggling link, and a straggling node.
    let slow = |key: Value, what: &str, value: Value| {
        let mut plan = row();
        plan["content"]["model"]["stragglers"] = json!([{ what: value }]);
        plan["content"]["model"]["stragglers"][0]
            .as_object_mut()
            .expect("one")
            .extend(key.as_object().expect("a key").clone());
        plan["content"]["sends"][4]["epoch"] = json!(3);
        plan["content"]["sends"][5]["epoch"] = json!(3);
        finish(&plan)
    };
    assert_eq!(slow(json!({"link": 2}), "alpha_add", json!(1e-6)), 6, "n1 → n2: three epochs from epoch 3 on");
    assert_eq!(slow(json!({"link": 0}), "beta_mul", json!(2)), 5, "n0 → n1: usable from epoch 3 on");
    assert_eq!(slow(json!({"node": "n0"}), "beta_mul", json!(2)), 6, "also n1 → n0");
}

#[test]
fn switches_hold_for_one_epoch_and_copy_if_they_can() {
    let topology = star(3);
    let sends = |second: u64, third: u64| {
        vec![send(0, 0, 0, 3, 0), send(0, 0, 0, 3, 1), send(0, 0, 3, 1, second), send(0, 0, 3, 2, third)]
    };
    let good = plan(&topology, "broadcast", sends(1, 2));
    assert_eq!(finish(&good), 3);
    assert_eq!(code(&plan(&topology, "broadcast", sends(1, 1))), Some(Code::HopWithoutData), "it cannot copy");
    assert_eq!(code(&plan(&topology, "broadcast", sends(1, 3))), Some(Code::HopWithoutData), "it cannot store");
    let copying = edited(&topology, |file| file["nodes"][3]["can"] = json!({"copy": true}));
    assert_eq!(finish(&plan(&copying, "broadcast", sends(1, 1).split_off(0))), 2);
    // With a free second hop what arrives at the switch is at the GPU in the very epoch in which it is sent on.
    let mut free = good.clone();
    free["content"]["model"]["free_second_hop"] = json!(true);
    assert_eq!(finish(&free), 2);
    // As hyper-edges: no switch at all, and one chunk at a time out of n0.
    let via = |to: usize, epoch: u64| {
        let mut send = send(0, 0, 0, to, epoch);
        send["via"] = json!("n3");
        send
    };
    let hyper = |sends: Vec<Value>| {
        let mut plan = plan(&topology, "broadcast", sends);
        plan["content"]["model"]["hyper_edges"] = json!(true);
        plan
    };
    assert_eq!(finish(&hyper(vec![via(1, 0), via(2, 1)])), 2);
    assert_eq!(code(&hyper(vec![via(1, 0), via(2, 0)])), Some(Code::Overload));
    assert_eq!(code(&hyper(vec![via(1, 0), send(0, 0, 3, 2, 1)])), Some(Code::BadSend));
    assert_eq!(code(&plan(&topology, "broadcast", vec![via(1, 0), via(2, 1)])), Some(Code::BadSend));
}

#[test]
fn links_carry_what_they_can_in_every_window() {
    // Two chunks, one link.
    let topology = gpus(2, &[(0, 1)]);
    let two = |first: u64, second: u64| {
        let mut plan = plan(&topology, "broadcast", vec![send(0, 0, 0, 1, first), send(0, 1, 0, 1, second)]);
        plan["content"]["model"]["chunks"] = json!(2);
        plan
    };
    assert_eq!(finish(&two(0, 1)), 3);
    assert_eq!(code(&two(1, 1)), Some(Code::Overload));
    let mut bound = two(0, 1);
    bound["claim"] = json!({"finish_epochs": 3, "lower_bound": "3", "optimal": true, "certificate": {"kind": "port"}});
    assert_eq!(code(&bound), None);
    bound["claim"]["certificate"]["kind"] = json!("distance");
    assert_eq!(code(&bound), Some(Code::WrongBound));
    bound["claim"]["lower_bound"] = json!("2");
    assert_eq!(code(&bound), Some(Code::NotOptimal));
    bound["claim"]["certificate"]["kind"] = json!("gateway");
    bound["claim"]["lower_bound"] = json!("3");
    assert_eq!(code(&bound), None, "two chunks one after the other over the only link");
    // Chunks that take two epochs begin every other epoch.
    let mut slow = two(0, 1);
    slow["content"]["model"]["tau"] = json!("0.5us");
    assert_eq!(code(&slow), Some(Code::Overload));
    slow["content"]["sends"][1]["epoch"] = json!(2);
    assert_eq!(code(&slow), None);
    // A capacity that changes: two at once in epoch 0, none in epoch 1, then one each.
    let varying = edited(&topology, |file| {
        file["links"][0]["capacity_per_epoch"] = json!(["50GB/s", "0GB/s", "25GB/s"]);
    });
    assert_eq!(finish(&on(&two(0, 0), &varying)), 2);
    assert_eq!(code(&on(&two(0, 1), &varying)), Some(Code::Overload));
    assert_eq!(code(&on(&two(0, 2), &varying)), None);
    assert_eq!(code(&on(&slow, &varying)), Some(Code::UnsupportedField), "it needs chunks of one epoch");
    let mut ignoring = on(&two(0, 1), &varying);
    ignoring["ignored"] = json!(["capacity_per_epoch"]);
    assert_eq!(code(&ignoring), None);
}

#[test]
fn useless_sends_are_told() {
    let warnings = |plan: &Value| {
        let plan = Plan::read(plan.to_string().as_bytes(), "p").expect("readable");
        let report = check(&plan, None);
        assert_eq!(report.violation, None);
        report.warnings
    };
    let with = |more: &[Value]| {
        let mut plan = row();
        plan["content"]["sends"].as_array_mut().expect("sends").extend_from_slice(more);
        warnings(&plan)
    };
    let said = |count: usize, first: usize| {
        vec![format!("{count} of the sends bring nothing that anybody needs, first /content/sends/{first}")]
    };
    assert_eq!(with(&[]), Vec::<String>::new());
    // Again what is there, and back to where it comes from and on from there.
    assert_eq!(with(&[send(0, 0, 0, 1, 4)]), said(1, 6));
    assert_eq!(with(&[send(2, 0, 1, 2, 3), send(2, 0, 2, 1, 5), send(0, 0, 1, 2, 4)]), said(3, 6));
    // A switch that cannot copy sends one for each that came; what is left over came for nothing.
    let broadcast = vec![send(0, 0, 0, 3, 0), send(0, 0, 0, 3, 1), send(0, 0, 3, 1, 1), send(0, 0, 3, 2, 2)];
    let mut over = plan(&star(3), "broadcast", broadcast);
    assert_eq!(warnings(&over), Vec::<String>::new());
    over["content"]["sends"].as_array_mut().expect("sends").push(send(0, 0, 0, 3, 2));
    assert_eq!(warnings(&over), said(1, 4));
}

#[test]
fn buffers_hold_what_is_for_others() {
    // n0's chunks 0 (for n1) and 1 (for n2), over n1: a scatter in a row.
    let topology = gpus(3, &[(0, 1), (1, 2)]);
    let relayed = |again: u64| {
        plan(&topology, "scatter", vec![send(0, 2, 0, 1, 0), send(0, 1, 0, 1, 1), send(0, 2, 1, 2, again)])
    };
    let none = edited(&topology, |file| file["nodes"][1]["buffer"] = json!("0B"));
    let one = edited(&topology, |file| file["nodes"][1]["buffer"] = json!("25kB"));
    assert_eq!(code(&on(&relayed(2), &none)), None, "sent on at once");
    assert_eq!(code(&on(&relayed(3), &none)), Some(Code::BufferFull));
    assert_eq!(code(&on(&relayed(3), &one)), None);
    let mut ignoring = on(&relayed(3), &none);
    ignoring["ignored"] = json!(["buffer"]);
    assert_eq!(code(&ignoring), None);
}

#[test]
fn pieces_are_moved_byte_by_byte() {
    let topology = gpus(3, &[(0, 1), (1, 2), (0, 2)]);
    let piece = |src, chunk, from, to, epoch, offset: u64, bytes: u64| {
        let mut send = send(src, chunk, from, to, epoch);
        (send["offset"], send["bytes"]) = (json!(offset), json!(bytes));
        send
    };
    // Half of n0's chunk for n2 straight, half over n1; the chunk for n1 when there is room.
    let pieces = |second: u64, bytes: u64| {
        let mut plan = plan(
            &topology,
            "scatter",
            vec![
                piece(0, 2, 0, 2, 0, 0, 12_500),
                piece(0, 2, 0, 1, 0, 12_500, 12_500),
                piece(0, 1, 0, 1, 0, 0, 12_500),
                piece(0, 1, 0, 1, 1, 12_500, 12_500),
                piece(0, 2, 1, 2, second, 12_500, bytes),
            ],
        );
        plan["content"]["model"]["divisible"] = json!(true);
        plan
    };
    assert_eq!(finish(&pieces(2, 12_500)), 4);
    assert_eq!(code(&pieces(1, 12_500)), Some(Code::HopWithoutData));
    assert_eq!(code(&pieces(2, 12_499)), Some(Code::MissingData));
    assert_eq!(code(&pieces(2, 12_501)), Some(Code::BadSend));
    let mut over = pieces(2, 12_500);
    over["content"]["sends"][3]["epoch"] = json!(0);
    assert_eq!(code(&over), Some(Code::Overload));
    let mut copied = pieces(2, 12_500);
    copied["content"]["sends"].as_array_mut().expect("sends").push(piece(0, 2, 1, 2, 3, 12_500, 12_500));
    assert_eq!(code(&copied), Some(Code::HopWithoutData), "it left before");
    let mut many = pieces(2, 12_500);
    many["collective"] = json!("broadcast");
    assert_eq!(code(&many), Some(Code::BadDemands), "chunks that are cut are not copied");
}

#[test]
fn tenants_have_chunks_of_their_own() {
    let topology = gpus(3, &[(0, 1), (1, 2), (0, 2)]);
    let tenant = |mut send: Value, name: &str| {
        send["tenant"] = json!(name);
        send
    };
    let sends =
        vec![tenant(send(0, 0, 0, 1, 0), "a"), tenant(send(0, 0, 0, 2, 0), "a"), tenant(send(0, 0, 0, 1, 1), "b")];
    let mut good = plan(&topology, "custom", sends);
    good["demands"] = json!({"sluice_demands": 1, "tenants": [
        {"name": "a", "collective": "broadcast", "root": "n0"},
        {"name": "b", "weight": 2, "triples": [["n0", 0, "n1"]]}]});
    assert_eq!(finish(&good), 3);
    let bad = |edit: &dyn Fn(&mut Value)| {
        let mut plan = good.clone();
        edit(&mut plan);
        code(&plan)
    };
    assert_eq!(bad(&|plan| plan["content"]["sends"][2]["tenant"] = json!("c")), Some(Code::BadSend));
    assert_eq!(
        bad(&|plan| drop(plan["content"]["sends"][2].as_object_mut().expect("one").remove("tenant"))),
        Some(Code::BadSend)
    );
    assert_eq!(bad(&|plan| plan["content"]["sends"][2]["tenant"] = json!("a")), Some(Code::MissingData));
    assert_eq!(bad(&|plan| plan["demands"]["tenants"][1]["name"] = json!("a")), Some(Code::BadDemands));
    assert_eq!(bad(&|plan| plan["demands"]["tenants"][1]["triples"][0][2] = json!("n0")), Some(Code::BadDemands));
    let rootless = |plan: &mut Value| drop(plan["demands"]["tenants"][0].as_object_mut().expect("one").remove("root"));
    assert_eq!(bad(&rootless), Some(Code::BadDemands));
    assert_eq!(bad(&|plan| plan["collective"] = json!("allgather")), Some(Code::BadDemands));
    let triple = json!(["n0", 0, "n1"]);
    assert_eq!(bad(&|plan| plan["demands"]["tenants"][1]["triples"] = json!([triple, triple])), Some(Code::BadDemands));
}
