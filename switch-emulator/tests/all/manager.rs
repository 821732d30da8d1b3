//! The service manager is told that the switch serves, and waited for by nobody.

use std::os::unix::net::UnixDatagram;

use sluice_schedule::{HolderId, Rate};

use crate::support::{PATIENCE, Switch, announcement, connect, hear};

/// A manager may be busy for long, as one that loads all its units again.
#[tokio::test]
async fn a_service_manager_that_takes_nothing_holds_up_no_host_and_hears_later() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    let crowd = UnixDatagram::unbound().unwrap();
    crowd.set_nonblocking(true).unwrap();
    while crowd.send_to(b"X_CROWD=1", &path).is_ok() {}
    let text = Switch::configuration("", "127.0.0.1:0".parse().unwrap());
    let switch = Switch::told_by(&text, Some(&path));
    let mut session = connect(&switch, "h0").await;
    session.sender.announce(HolderId::of("s0"), announcement("h0", 1, 1, Rate::mbps(100)));
    hear(&mut session.receiver, |f| f.seq == 1).await;
    // Once there is room it is told.
    manager.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut buffer = [0; 256];
    let mut heard = || {
        let length = manager.recv(&mut buffer).unwrap();
        String::from_utf8_lossy(&buffer[..length]).trim_end().to_owned()
    };
    let first = std::iter::repeat_with(&mut heard).find(|word| word != "X_CROWD=1").unwrap();
    assert_eq!(first, "READY=1");
    drop(switch);
    // One with room is told at once.
    let _switch = Switch::told_by(&text, Some(&path));
    assert_eq!(heard(), "READY=1");
}
