#!/bin/sh
# Run by `cargo xtask package boot` in a fresh Debian once it has booted: what an operator types, and two jobs beside it. Every
# line goes to the serial console; the last one says how it went.
exec >/dev/ttyS0 2>&1
say() { echo "boot: # $*"; "$@"; }
fail() { echo "boot: FAILED: $*"; systemctl status --no-pager --lines=30 sluiced.service; journalctl --no-pager -u sluiced -n 40; poweroff; exit 1; }

echo "boot: $(uname -r), $(systemctl --version | head -1), $(. /etc/os-release && echo "$PRETTY_NAME")"
# The other host of both jobs is a network namespace behind a slow cable: a machine that is translated has to keep up with it.
ip netns add peer
ip link add name eth9 type veth peer name eth0 netns peer
ip addr add 10.77.0.1/24 dev eth9
ip link set eth9 up
ip -n peer addr add 10.77.0.2/24 dev eth0
ip -n peer link set eth0 up
ip -n peer link set lo up
tc qdisc add dev eth9 root tbf rate 20mbit burst 32kb limit 100kb

say dpkg -i /root/debs/sluice_*.deb /root/debs/sluice-switch_*.deb /root/debs/sluice-plugins_*.deb || fail "installing"
say systemctl start sluiced || fail "starting"
say systemctl is-active sluiced run-sluice-progress.mount || fail "not active"
say findmnt -no FSTYPE,OPTIONS /run/sluice/progress
say stat -c '%U %a' /run/sluice/progress
mkdir -p /etc/sluice/sluiced.d
cat >/etc/sluice/sluiced.d/site.toml <<'TOML'
[clock]
require_sync = false
[capture]
interfaces = ["eth9"]
[[links]]
name = "eth9"
gbps = 0.02
TOML
say systemctl restart sluiced || fail "restarting"
say sluice mode active --persist || fail "the mode"
ip netns exec peer python3 /root/job.py sink &
jobs=$!
for job in left right; do
    SLUICE_JOB_ID=$job RANK=0 WORLD_SIZE=2 python3 /root/job.py send &
    jobs="$jobs $!"
done
scheduled() { sluice flows --json 2>/dev/null | python3 -c '
import json, sys
flows = [f for f in json.load(sys.stdin)["flows"] if f["state"] == "managed"]
sys.exit(0 if all(any(job in f["job"] for f in flows) for job in ("left", "right")) else 1)' 2>/dev/null; }
for try in $(seq 40); do scheduled && break; sleep 2; done
scheduled || { ss -tin | head -20; sluice status; sluice jobs; sluice flows; sluice doctor; fail "two jobs are not scheduled"; }
say sluice jobs
say sluice flows
say sluice status
say systemctl reload sluiced || fail "reloading"
before=$(systemctl show -p MainPID --value sluiced)
say systemctl restart sluiced || fail "restarting under traffic"
for try in $(seq 40); do scheduled && break; sleep 2; done
scheduled || fail "not scheduled after the restart"
[ "$before" != "$(systemctl show -p MainPID --value sluiced)" ] || fail "the same process"
# By their numbers: without job control the shell takes %1 for a process group, and there is none.
kill -0 $jobs || fail "a job ended"
say systemctl start sluice-switch || fail "starting sluice-switch"
say systemctl is-active sluice-switch || fail "sluice-switch is not active"
for unit in sluiced sluice-switch; do systemd-analyze security --no-pager $unit | tail -1; done
say grep -h -E '^(Seccomp|CapEff|NoNewPrivs)' /proc/$(systemctl show -p MainPID --value sluiced)/status
# A daemon that hangs is killed by its watchdog and started again.
before=$(systemctl show -p MainPID --value sluiced)
kill -STOP "$before"
for try in $(seq 60); do [ "$(systemctl show -p MainPID --value sluiced)" != "$before" ] && [ "$(systemctl is-active sluiced)" = active ] && break; sleep 0.1; done
[ "$(systemctl show -p MainPID --value sluiced)" != "$before" ] || fail "the watchdog did nothing"
echo "boot: the watchdog restarted it"
say dpkg --purge sluice sluice-switch sluice-plugins || fail "purging"
ls -d /run/sluice /var/lib/sluice /etc/sluice /sys/fs/bpf/sluice 2>/dev/null && fail "left behind"
getent passwd sluice && fail "the user is left"
grep -w sluice /proc/sys/net/ipv4/tcp_available_congestion_control && fail "the congestion control is left"
echo "boot: PASSED"
poweroff
