#!/bin/sh
# TaskProlog for Slurm: lets NCCL load Sluice's profiler, which marks rounds exactly. Lines "export NAME=value" on stdout go into
# the task's environment.
#
# In slurm.conf: TaskProlog=/etc/slurm/sluice-task-prolog.sh
#
# It never keeps a task from starting: whatever it finds, it ends with 0 and writes nothing but whole lines. It starts no
# program. A profiler that the job already asks for keeps its place behind Sluice's, which passes every call on.

# A shell function, so that nothing is said when something is missing.
sluice() {
    plugin=${SLUICE_NCCL_PLUGIN:-/usr/lib/sluice/libnccl-profiler-sluice.so}
    [ -z "${SLUICE_DISABLE:-}" ] || return 0
    # Without the library NCCL would complain in every job; without pages it would publish nothing.
    [ -r "$plugin" ] || return 0
    [ -d "${SLUICE_SHM_DIR:-/run/sluice/progress}" ] || return 0
    earlier=${NCCL_PROFILER_PLUGIN:-}
    case $earlier in
    "" | "$plugin" | sluice) ;;
    # The job wants none, or several.
    none | *,*) return 0 ;;
    */*)
        # Already behind something of the job's own making: that stays as it is.
        [ -z "${SLUICE_NCCL_NEXT:-}" ] || return 0
        # What cannot stand in one line of Slurm's protocol is left alone.
        case $earlier in *[![:graph:]]*) return 0 ;; esac
        printf 'export SLUICE_NCCL_NEXT=%s\n' "$earlier"
        ;;
    *)
        # A bare name, which NCCL completes to libnccl-profiler-NAME.so; the loader finds it the same way for us.
        [ -z "${SLUICE_NCCL_NEXT:-}" ] || return 0
        case $earlier in *[![:graph:]]*) return 0 ;; esac
        case $earlier in
        *.so | *.so.*) printf 'export SLUICE_NCCL_NEXT=%s\n' "$earlier" ;;
        *) printf 'export SLUICE_NCCL_NEXT=libnccl-profiler-%s.so\n' "$earlier" ;;
        esac
        ;;
    esac
    printf 'export NCCL_PROFILER_PLUGIN=%s\n' "$plugin"
}

sluice 2>/dev/null
exit 0
