//! A slot in the thread of the flight recorder: 64 and 500 real connections over loopback, the kernel asked of as many as its part
//! of a processor allows, and the slot written. A slot of 60 ms, one percent of a core for 500: 600 µs.

use std::net::{SocketAddr, TcpListener, TcpStream};

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use sluiced::Looks;

/// Connections that stay, and the ends of the halves that connected.
struct Connected {
    _streams: Vec<(TcpStream, TcpStream)>,
    ends: Vec<(SocketAddr, SocketAddr)>,
}

fn connected(count: usize) -> Connected {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let to = listener.local_addr().expect("bound");
    let pair = |_| (TcpStream::connect(to).expect("connected"), listener.accept().expect("accepted").0);
    let streams: Vec<(TcpStream, TcpStream)> = (0..count).map(pair).collect();
    let ends = streams.iter().map(|(stream, _)| (stream.local_addr().expect("bound"), to)).collect();
    Connected { _streams: streams, ends }
}

fn bench(c: &mut Criterion) {
    // Both ends of each connection are this process's.
    nix::sys::resource::setrlimit(nix::sys::resource::Resource::RLIMIT_NOFILE, 4096, 4096).expect("descriptors");
    let dir = tempfile::tempdir().expect("a directory");
    let mut group = c.benchmark_group("flight");
    for count in [64, 500] {
        let connected = connected(count);
        let file = dir.path().join(format!("{count}.ring"));
        let mut looks = Looks::new(&file, &connected.ends).expect("a file");
        let looks = std::cell::RefCell::new(&mut looks);
        group.bench_function(format!("a slot with {count} flows"), |b| {
            b.iter_batched(
                || looks.borrow_mut().told(),
                |told| looks.borrow_mut().look(told).expect("written"),
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
