//! Another profiler behind this one: it gets what it asked for, with handles and parents of its own. A C program, so that
//! its table, its structs and its logger are a C compiler's.

use std::ffi::{CString, c_int};
use std::path::Path;

use crate::support::*;

/// It follows groups (bit 0), collectives and operations on the network, and follows the parents it is given.
const OTHER: &str = r#"
#include <stdint.h>
#include <string.h>
struct node { int kind; struct node *parent, *group; int live; };
static struct node nodes[64];
static int used, starts, stops, states, finals, inits, wrong;
static int context;
struct descr { uint64_t type; struct node *parent; int rank; char rest[88]; };
static int init(void **ctx, uint64_t id, int *mask, const char *name, int nodes_, int ranks, int rank, void *log) {
    if (id != 0x1234 || nodes_ != 2 || ranks != 2 || rank != 0 || strcmp(name, "world")) wrong++;
    *ctx = &context; *mask = 1 | 2 | 8; inits++; return 0;
}
static int start(void *ctx, void **handle, struct descr *d) {
    struct node *n = &nodes[used++ % 64];
    if (ctx != &context || !(d->type & 15)) wrong++;  /* sends too: who asks for operations gets their parents */
    n->kind = (int)d->type; n->parent = d->parent; n->live = 1; n->group = 0;
    if (d->type == 2) memcpy(&n->group, (char *)d + 104, 8);
    if (n->parent && n->parent->kind == 0) wrong++;   /* follows it */
    *handle = n;
    starts++; return 0;
}
static int stop(struct node *n) { if (!n->live) wrong++; n->live = 0; stops++; return 0; }
static int state(struct node *n, int s, void *args) { if (!n->live) wrong++; states++; return 0; }
static int finalize(void *ctx) { if (ctx != &context) wrong++; finals++; return 0; }
struct { const char *name; void *f[5]; } ncclProfiler_v5 = { "other", { init, start, stop, state, finalize } };
int seen(int what) {
    int all[] = { inits, starts, stops, states, finals, wrong, nodes[1].group == &nodes[0], nodes[2].parent == &nodes[1] };
    return all[what];
}
"#;

fn seen(library: &Path) -> [c_int; 8] {
    let path = CString::new(library.to_str().expect("text")).expect("no NUL");
    // SAFETY: the library is loaded already; its function has this signature.
    unsafe {
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        let function = libc::dlsym(library, c"seen".as_ptr());
        assert!(!function.is_null());
        let function: unsafe extern "C" fn(c_int) -> c_int = std::mem::transmute(function);
        [0, 1, 2, 3, 4, 5, 6, 7].map(|what| function(what))
    }
}

fn through(disabled: bool) {
    let root = tempfile::tempdir().expect("a directory");
    let other = compile(root.path(), "libother.so", OTHER, &[]);
    set("SLUICE_NCCL_NEXT", &other);
    set("SLUICE_SHM_DIR", root.path());
    let nccl = Nccl::load(&library(), 5);
    let (context, mask) = nccl.init(PAIR, None);
    assert_eq!(mask, if disabled { 0b1011 } else { 0b1111 }, "what either asks for");
    let group = nccl.other(context, 1);
    let coll = nccl.coll_in(context, &all_reduce(1000, 1), group);
    let send = nccl.op(context, coll, 0, 1, true);
    nccl.state(send, 19, None);
    nccl.p2p(context, true, 1, 10, 1);
    nccl.other(context, 1 << 11); // It did not ask for this.
    nccl.stop(send);
    nccl.stop(send);
    nccl.state(send, 19, None);
    nccl.stop(group);
    assert!(group != 0 && coll != 0 && send != 0);
    if !disabled {
        let page = only(root.path());
        assert_eq!((page.enq_ops, page.errors), (2, 0));
    }
    nccl.finalize(context);
    nccl.finalize(context);
    nccl.stop(coll);
    assert_eq!(seen(&other), [1, 4, 4, 1, 1, 0, 1, 1], "inits, starts, stops, states, ends, faults, group, parent");
    assert_eq!(pages(root.path()).len(), 0);
}

#[test]
fn the_other_profiler_sees_what_it_would_see_alone() {
    alone(&[], || through(false));
}

#[test]
fn switched_off_the_other_profiler_still_runs() {
    alone(&[("SLUICE_DISABLE", "1")], || through(true));
}

#[test]
fn what_cannot_be_loaded_is_one_warning_and_sluice_runs() {
    alone(&[], || {
        let root = tempfile::tempdir().expect("a directory");
        set("SLUICE_SHM_DIR", root.path());
        set("SLUICE_NCCL_NEXT", &root.path().join("libabsent.so"));
        let nccl = Nccl::load(&library(), 6);
        for _ in 0..3 {
            assert_eq!(nccl.init(PAIR, logger()).1, 0b1110);
        }
        let lines = LINES.lock().expect("no panic");
        let warnings: Vec<_> = lines.iter().filter(|(level, ..)| *level == 2).collect();
        assert_eq!(warnings.len(), 1, "{lines:?}");
        assert!(warnings[0].2.contains("SLUICE_NCCL_NEXT") && warnings[0].2.contains("libabsent.so"), "{warnings:?}");
    });
}
