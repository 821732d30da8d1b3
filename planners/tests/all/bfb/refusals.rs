//! Every refusal from a small bad input, with code and place.

use serde_json::{Value, json};
use sluice_formats::topology::r#gen::star;
use sluice_plan::plan::Collective;
use sluice_planners::Run;
use sluice_planners::direct::make;

use crate::bfb::{edited, instance, kautz, links};

#[test]
fn each_refusal_names_its_place() {
    let good = kautz(2, 6);
    let with = |edit: fn(&mut Value)| edited(&good, edit);
    let cases = [
        (star(&["1", "1", "1"]).expect("valid"), "UNSUPPORTED_FIELD", "/nodes/3/kind"),
        (with(|file| file["nodes"][2]["kind"] = json!("memory")), "UNSUPPORTED_FIELD", "/nodes/2/kind"),
        (with(|file| file["nodes"][1]["weight"] = json!(2)), "UNSUPPORTED_FIELD", "/nodes/1/weight"),
        (with(|file| file["nodes"][1]["can"] = json!({"copy": false})), "UNSUPPORTED_FIELD", "/nodes/1/can"),
        (with(|file| file["nodes"][4]["buffer"] = json!("4MiB")), "UNSUPPORTED_FIELD", "/nodes/4/buffer"),
        (
            with(|file| file["groups"] = json!([{"name": "g", "links": [["h0", "h5"]], "capacity": "1Gbit/s"}])),
            "UNSUPPORTED_FIELD",
            "/groups",
        ),
        (
            with(|file| file["links"][3]["capacity_per_epoch"] = json!(["1Gbit/s", "0Gbit/s"])),
            "UNSUPPORTED_FIELD",
            "/links/3/capacity_per_epoch",
        ),
        (with(|file| file["links"][3]["capacity"] = json!("unlimited")), "InvalidLinkParameter", "/links/3/capacity"),
        (links("cut", 3, [(0, 1), (1, 0), (1, 2)]), "NotStronglyConnected", "/nodes/2"),
        (links("one", 1, []), "EmptyTopology", "/nodes"),
    ];
    for (topology, code, at) in cases {
        let made =
            instance(&topology, Collective::AllGather, None).and_then(|instance| make(&instance, &Run::quiet(1)));
        let errors = made.map(|_| ()).expect_err(at);
        let first = &errors.all()[0];
        assert_eq!((errors.code(), first.key.as_str()), (code, at), "{errors}");
        assert!(!first.allowed.is_empty() || first.message.contains("allowed"), "{errors}");
    }
    for (collective, units, code) in
        [(Collective::Broadcast, None, "E_RANGE"), (Collective::AllGather, Some(0), "InvalidChunking")]
    {
        let made = instance(&good, collective, units).and_then(|instance| make(&instance, &Run::quiet(1)));
        assert_eq!(made.map(|_| ()).expect_err(code).code(), code);
    }
}
