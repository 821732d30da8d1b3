//! A real NCCL: two ranks on one GPU, over the socket transport, against the page. Skipped where there is no GPU,
//! no CUDA driver or no `libnccl.so.2`. `SLUICE_NCCL_LIBRARY` names another file than the loader finds.

use std::ffi::{CString, c_char, c_int, c_void};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use crate::support::*;
use sluice_progress::{PageView, Reader};
use sluice_skip::skip;

const COUNT: usize = 4 << 20;
const ROUNDS: u64 = 3;

/// `ncclUniqueId`.
#[repr(C)]
#[derive(Clone, Copy)]
struct UniqueId([c_char; 128]);

type Context = *mut c_void;

/// A library that is loaded for good.
struct Library(*mut c_void);

impl Library {
    fn open(name: &str) -> Option<Library> {
        let name = CString::new(name).ok()?;
        // SAFETY: NUL-terminated.
        let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
        (!library.is_null()).then_some(Library(library))
    }

    /// # Safety
    /// `F` is the function's type.
    unsafe fn get<F: Copy>(&self, name: &str) -> F {
        let symbol = CString::new(name).expect("no NUL");
        // SAFETY: the library is open.
        let at = unsafe { libc::dlsym(self.0, symbol.as_ptr()) };
        assert!(!at.is_null() && size_of::<F>() == size_of::<*mut c_void>(), "no {name}");
        // SAFETY: by the caller's promise.
        unsafe { std::mem::transmute_copy(&at) }
    }
}

fn nccl_name() -> String {
    std::env::var("SLUICE_NCCL_LIBRARY").unwrap_or_else(|_| "libnccl.so.2".into())
}

/// Why this cannot run here.
fn missing() -> Option<String> {
    if !std::path::Path::new("/dev/nvidia0").exists() {
        return Some("no GPU: /dev/nvidia0 is not here".into());
    }
    for name in ["libcuda.so.1".into(), nccl_name()] {
        if Library::open(&name).is_none() {
            return Some(format!("{name} cannot be loaded; SLUICE_NCCL_LIBRARY may name NCCL's file"));
        }
    }
    None
}

#[test]
#[ignore = "the process that the next test starts, one for each rank"]
fn gpu_rank() {
    let rank: c_int = std::env::var("GPU_RANK").expect("told").parse().expect("a number");
    let (cuda, nccl) = (Library::open("libcuda.so.1").expect("CUDA"), Library::open(&nccl_name()).expect("NCCL"));
    // SAFETY: the functions' types as in cuda.h and nccl.h; all places are ours and live long enough.
    unsafe {
        let (mut device, mut context, mut buffer): (c_int, Context, u64) = (0, std::ptr::null_mut(), 0);
        let bytes = COUNT * 4;
        let ok = |result: c_int, what: &str| assert_eq!(result, 0, "{what}");
        ok(cuda.get::<unsafe extern "C" fn(u32) -> c_int>("cuInit")(0), "cuInit");
        let get: unsafe extern "C" fn(*mut c_int, c_int) -> c_int = cuda.get("cuDeviceGet");
        ok(get(&mut device, 0), "cuDeviceGet");
        let retain: unsafe extern "C" fn(*mut Context, c_int) -> c_int = cuda.get("cuDevicePrimaryCtxRetain");
        ok(retain(&mut context, device), "cuDevicePrimaryCtxRetain");
        ok(cuda.get::<unsafe extern "C" fn(Context) -> c_int>("cuCtxSetCurrent")(context), "cuCtxSetCurrent");
        let allocate: unsafe extern "C" fn(*mut u64, usize) -> c_int = cuda.get("cuMemAlloc_v2");
        ok(allocate(&mut buffer, bytes), "cuMemAlloc");
        let fill: unsafe extern "C" fn(u64, u32, usize) -> c_int = cuda.get("cuMemsetD32_v2");
        ok(fill(buffer, 1 + rank as u32, COUNT), "cuMemsetD32");
        let synchronize: unsafe extern "C" fn() -> c_int = cuda.get("cuCtxSynchronize");
        let mut id = UniqueId([0; 128]);
        if rank == 0 {
            let unique: unsafe extern "C" fn(*mut UniqueId) -> c_int = nccl.get("ncclGetUniqueId");
            ok(unique(&mut id), "ncclGetUniqueId");
            println!("@{}", id.0.iter().map(|byte| format!("{:02x}", byte.cast_unsigned())).collect::<String>());
        } else {
            let mut line = String::new();
            std::io::stdin().read_line(&mut line).expect("the id");
            for (byte, pair) in id.0.iter_mut().zip(line.trim().as_bytes().chunks_exact(2)) {
                let text = std::str::from_utf8(pair).expect("hexadecimal");
                *byte = u8::from_str_radix(text, 16).expect("hexadecimal").cast_signed();
            }
        }
        let mut comm: Context = std::ptr::null_mut();
        let init: unsafe extern "C" fn(*mut Context, c_int, UniqueId, c_int) -> c_int = nccl.get("ncclCommInitRank");
        ok(init(&mut comm, 2, id, rank), "ncclCommInitRank");
        type AllReduce = unsafe extern "C" fn(u64, u64, usize, c_int, c_int, Context, Context) -> c_int;
        let all_reduce: AllReduce = nccl.get("ncclAllReduce");
        let (uint32, sum) = (3, 0);
        for _ in 0..ROUNDS {
            ok(all_reduce(buffer, buffer, COUNT, uint32, sum, comm, std::ptr::null_mut()), "ncclAllReduce");
            ok(synchronize(), "cuCtxSynchronize");
        }
        let mut back = vec![0_u32; COUNT];
        let copy: unsafe extern "C" fn(*mut u32, u64, usize) -> c_int = cuda.get("cuMemcpyDtoH_v2");
        ok(copy(back.as_mut_ptr(), buffer, bytes), "cuMemcpyDtoH");
        // 1 + 2, then doubled by each further round.
        assert!(back.iter().all(|value| *value == 3 << (ROUNDS - 1)), "the sums are right");
        println!("@done");
        let _ = std::io::stdin().read_line(&mut String::new());
        ok(nccl.get::<unsafe extern "C" fn(Context) -> c_int>("ncclCommDestroy")(comm), "ncclCommDestroy");
    }
}

#[test]
fn two_ranks_on_one_gpu_say_what_they_send() {
    if let Some(why) = missing() {
        return skip!(Thing, "{why}");
    }
    let root = tempfile::tempdir().expect("a directory");
    let mut ranks = Vec::new();
    let mut id = String::new();
    for rank in 0..2 {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--ignored", "--exact", "gpu::gpu_rank", "--nocapture", "--test-threads=1"]);
        clean(&mut command);
        command.env("GPU_RANK", rank.to_string()).env("SLUICE_SHM_DIR", root.path());
        command.env("NCCL_PROFILER_PLUGIN", library());
        // Different hosts, so that neither the check for one GPU twice nor shared memory gets in the way.
        command.env("NCCL_HOSTID", format!("host{rank}")).env("NCCL_SOCKET_IFNAME", "lo").env("NCCL_NET", "Socket");
        for name in ["NCCL_P2P_DISABLE", "NCCL_SHM_DISABLE", "NCCL_IB_DISABLE"] {
            command.env(name, "1");
        }
        command.env("NCCL_ALGO", "Ring").env("NCCL_MAX_CTAS", "2").env("NCCL_DEBUG", "WARN");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines().map_while(Result::ok);
        let mut answers = child.stdin.take().expect("piped");
        if rank == 0 {
            id = lines.find_map(|line| Some(line.split_once('@')?.1.to_owned())).expect("the id");
        } else {
            writeln!(answers, "{id}").expect("it listens");
        }
        ranks.push((child, lines, answers));
    }
    for (_, lines, _) in &mut ranks {
        assert!(lines.any(|line| line.ends_with("@done")), "a rank failed");
    }
    let view = |page: &std::path::PathBuf| Reader::open(page).and_then(|mut reader| reader.read()).expect("a page");
    let pages: Vec<PageView> = pages(root.path()).iter().map(view).collect();
    assert_eq!(pages.len(), 2);
    for page in pages {
        let bytes = ROUNDS * COUNT as u64 * 4;
        println!(
            "{} rank {:?}: {} bytes enqueued, {} connections",
            page.producer,
            page.rank,
            page.enq_bytes,
            page.peers.len()
        );
        assert_eq!((page.enq_bytes, page.enq_wire_bytes, page.enq_ops), (bytes, bytes, ROUNDS));
        assert!(page.phase_seq >= 1 && page.inflight == 0 && !page.peers.is_empty());
    }
    for (mut child, _, mut answers) in ranks {
        writeln!(answers, "end").expect("it listens");
        assert!(child.wait().expect("it ends").success());
    }
}
