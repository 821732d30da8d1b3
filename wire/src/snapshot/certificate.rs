//! What is wrong with a process's own certificate, as conditions: in the same words whoever shows it.

use sluice_identity::{Life, Standing};

use super::ConditionCode;

/// Each condition of which a certificate can be the cause, with its sentence where it holds.
pub fn conditions(standing: &Standing) -> [(ConditionCode, Option<String>); 3] {
    let own = standing.own.as_deref().unwrap_or("this process");
    let text = |what: &str| Some(format!("the certificate of {own} {what}"));
    let (soon, over) = match standing.life {
        None | Some(Life::Good) => (None, None),
        Some(Life::Soon) => (text("has less than three tenths of its life left"), None),
        Some(Life::Over) => (None, text("is over, or not yet good")),
    };
    [
        (ConditionCode::CertExpiresSoon, soon),
        (ConditionCode::CertExpired, over),
        (ConditionCode::CertificatesUnusable, standing.fault.as_ref().map(ToString::to_string)),
    ]
}

#[cfg(test)]
mod tests {
    use sluice_identity::Fault;

    use super::*;

    #[test]
    fn each_state_of_a_certificate_is_one_condition_and_a_good_one_is_none() {
        let fault = Fault::KeyMode { path: "/k".into(), mode: 0o644 };
        let own = Some("spiffe://c/host/h0".to_owned());
        for (life, fault, expected) in [
            (None, None, None),
            (Some(Life::Good), None, None),
            (Some(Life::Soon), None, Some(ConditionCode::CertExpiresSoon)),
            (Some(Life::Over), None, Some(ConditionCode::CertExpired)),
            (Some(Life::Good), Some(fault), Some(ConditionCode::CertificatesUnusable)),
        ] {
            let all = conditions(&Standing { own: own.clone(), life, fault, ..Standing::default() });
            let holds: Vec<_> = all.into_iter().filter_map(|(code, text)| Some((code, text?))).collect();
            assert_eq!(holds.iter().map(|(code, _)| *code).next(), expected);
            assert!(
                holds.len() <= 1
                    && holds.iter().all(|(code, text)| {
                        *code == ConditionCode::CertificatesUnusable || text.contains("spiffe://c/host/h0")
                    })
            );
        }
    }
}
