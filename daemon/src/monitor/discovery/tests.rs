//! Real sockets of this process: found by their ends, by their process, and whose they are said to be.

use std::net::{TcpListener, TcpStream};

use sluice_skip::skip;

use super::*;

struct Pair {
    tuple: Tuple,
    stream: TcpStream,
    _listener: TcpListener,
}

fn pair() -> Pair {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback");
    let stream = TcpStream::connect(listener.local_addr().expect("bound")).expect("connects");
    let tuple = Tuple::of(stream.local_addr().expect("bound"), stream.peer_addr().expect("connected"));
    Pair { tuple, stream, _listener: listener }
}

fn wait(discovery: &mut Discovery, wanted: impl Fn(&News) -> bool) -> Option<News> {
    let began = std::time::Instant::now();
    while began.elapsed() < Duration::from_secs(20) {
        let mut news = Vec::new();
        discovery.news(&mut news);
        if let Some(found) = news.into_iter().find(&wanted) {
            return Some(found);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    None
}

#[test]
fn a_connection_is_found_by_its_ends_and_by_its_process() {
    if let Err(why) = sock_diag::open() {
        return skip!(Kernel, "no sock_diag here: {why}");
    }
    let pair = pair();
    let mut discovery = Discovery::new(Settings::default());
    discovery.start(crate::privilege::eyes::own(), Box::new(|| ()));
    let (pid, netns) = (std::process::id(), crate::monitor::namespaces::of(std::process::id()).expect("alive"));
    let nobody = Tuple { remote: (pair.tuple.remote.0, 1), ..pair.tuple };
    discovery.ask(Nanos::ZERO, pid, netns, vec![nobody, pair.tuple]);
    let Some(News::Known(known)) = wait(&mut discovery, |news| matches!(news, News::Known(_))) else {
        panic!("no answer");
    };
    let cookie = sluice_ebpf::cookie(&pair.stream).expect("SO_COOKIE");
    // SAFETY: getuid has no precondition.
    let uid = unsafe { libc::getuid() };
    assert_eq!(known, [Known { cookie, place: Place { netns, tuple: pair.tuple }, uid, pid }]);
    discovery.ask_rest(Nanos::ZERO, pid);
    let Some(News::Held(of, held)) = wait(&mut discovery, |news| matches!(news, News::Held(..))) else {
        panic!("no answer");
    };
    assert!(of == pid && held.iter().any(|held| held.known == known[0]), "{held:?}");
}

#[test]
fn the_process_behind_a_socket_is_found() {
    let pair = pair();
    let netlink = match sock_diag::open() {
        Ok(netlink) => netlink,
        Err(why) => return skip!(Kernel, "no sock_diag here: {why}"),
    };
    let sockets = sock_diag::dump(&netlink).expect("the kernel tells of sockets");
    let Some(seen) = sockets.iter().find(|seen| Tuple::of_v6(seen.local, seen.remote) == pair.tuple) else {
        return skip!(Kernel, "sock_diag shows no sockets here");
    };
    let inode = u64::from(seen.inode);
    let mut wanted = holders::Wanted::from([(inode, seen.uid)]);
    assert_eq!(
        holders::holders(&*crate::privilege::eyes::own(), &mut wanted),
        HashMap::from([(inode, std::process::id())])
    );
    let mut nobodys = holders::Wanted::from([(inode, u32::MAX)]);
    assert_eq!(holders::holders(&*crate::privilege::eyes::own(), &mut nobodys), HashMap::new());
}

#[test]
fn the_operator_may_say_by_port_what_is_a_jobs() {
    let tuple = Tuple { local: ([0; 16], 40_000), remote: ([0; 16], 5_007) };
    let settings = Settings { ports: vec![5_000..=5_010], ..Settings::default() };
    let found = identify(&settings, &*crate::privilege::eyes::own(), std::process::id(), &tuple).expect("alive");
    assert_eq!((found.declared, found.environ.job_id.as_str()), (true, "port-5007"));
    let elsewhere = Tuple { remote: ([0; 16], 6_000), ..tuple };
    assert_eq!(
        identify(&settings, &*crate::privilege::eyes::own(), std::process::id(), &elsewhere),
        Some(Identity::default())
    );
}

#[test]
fn where_the_operator_names_cgroups_no_process_elsewhere_is_a_jobs() {
    let elsewhere = cgroups::ROOTS.iter().map(|root| PathBuf::from(root).join("no-such-slice")).collect();
    let settings = Settings { cgroups: elsewhere, environ: true, ..Settings::default() };
    assert_eq!(
        identify(&settings, &*crate::privilege::eyes::own(), std::process::id(), &Tuple::default()),
        Some(Identity::default())
    );
}
