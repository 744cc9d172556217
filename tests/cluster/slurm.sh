#!/usr/bin/env bash
# A Slurm cluster of two nodes on one machine, out of one folder: for tests, and for trying things out.
#
#   slurm.sh start DIR [OPTION...]    starts munged, slurmctld and two slurmd, n1 and n2, and waits until they are idle
#       --time-grace N                seconds between SIGTERM and SIGKILL when Slurm ends a job (default 10; Slurm's own is 30)
#       --requeue-wait N              seconds that a requeued job waits before it may start (default 120, Slurm's own; at least 5)
#       --cpus N                      processors that each node pretends to have (default 1); a job gets a whole node in any case
#   slurm.sh wait DIR [SECONDS]       until both nodes are idle (default: at most 60 seconds)
#   slurm.sh kill-node DIR n1         as if the node lost power: its slurmd, and the jobs on it, get SIGKILL
#   slurm.sh start-node DIR n1        its power is back: slurmd starts and reports a reboot
#   slurm.sh hurry DIR                requeued jobs may start in three seconds; prints which
#   slurm.sh stop DIR                 ends the daemons and all jobs; the folder remains, with the logs
#
# Clients find the cluster by SLURM_CONF=DIR/slurm.conf.
# A job in the partition "urgent" preempts one in "work", the default, which is then requeued. Each node pretends to have one GPU.
# The script must run as root, with Debian's packages slurm-wlm and munge. It writes below DIR only; the daemons listen on loopback only.
# Clusters in different folders do not disturb each other. "start" forgets the jobs of a cluster that has been stopped.
set -euo pipefail

die() { echo "slurm.sh: $*" >&2; exit 1; }
usage() { sed -n '2,/^set /s/^# \{0,1\}//p' "$0" >&2; exit 2; }

PATH=$PATH:/usr/sbin:/sbin

# Sets $dir and $conf. A socket's path has at most 107 bytes; slurm.conf knows no quotes.
use_folder() {
    dir=$(cd "$1" 2>/dev/null && pwd -P) || die "there is no folder $1"
    [[ $dir =~ ^[A-Za-z0-9/._+-]+$ ]] || die "the path $dir has characters that Slurm's configuration cannot hold; use another folder"
    [ ${#dir} -le 64 ] || die "the path $dir is too long for the sockets in it; use a folder of at most 64 characters"
    conf=$dir/slurm.conf
    export SLURM_CONF=$conf
}

need_cluster() { [ -f "$conf" ] || die "there is no cluster in $dir; begin with: slurm.sh start $dir"; }
need_node() { [[ ${1:-} =~ ^n[12]$ ]] || die "the nodes are n1 and n2, not '${1:-}'"; }

# The daemons that hold log $1 open. A slurmstepd overwrites its environment and its arguments, but holds the log of its node.
# Whoever else reads the log (tail -f) is none of them.
daemons() {
    local fd pid
    { find /proc/[0-9]*/fd -lname "$dir/log/$1.log" 2>/dev/null || true; } | while read -r fd; do
        pid=${fd#/proc/}; pid=${pid%%/*}
        case $(readlink "/proc/$pid/exe" 2>/dev/null || true) in
            *slurm* | *munged*) echo "$pid" ;;
        esac
    done | sort -un
}

# Processes of jobs on node $1: descendants of the steps, and what has left that tree (a daemon's double fork) but kept its environment.
job_processes() {
    local steps files
    steps=$(daemons "$1" | tr '\n' ' ')
    ps -e -o pid=,ppid= | awk -v roots="$steps" '
        { parent[$1] = $2 }
        END {
            split(roots, list, " "); for (i in list) root[list[i]] = 1
            for (pid in parent) {
                at = parent[pid]
                for (depth = 0; depth < 100 && at > 1; depth++) { if (at in root) { print pid; break }; at = parent[at] }
            }
        }'
    files=$(grep -lzxF "SLURMD_NODENAME=$1" /proc/[0-9]*/environ 2>/dev/null || true)
    [ -z "$files" ] || { grep -lzxF "SLURM_CONF=$conf" $files 2>/dev/null || true; } | cut -d/ -f3
}

# Nobody may report what happens to the others: first all daemons of the node stop, then everything dies.
kill_node() {
    local round pids
    # Half a minute: what was killed may be in the middle of a write.
    for ((round = 0; round < 300; round++)); do
        pids=$(daemons "$1")
        [ -z "$pids" ] || kill -STOP $pids 2>/dev/null || true
        pids=$(job_processes "$1"; daemons "$1")
        [ -n "$pids" ] || return 0
        kill -KILL $pids 2>/dev/null || true
        sleep 0.1
    done
    die "processes of node $1 do not end: $(echo $pids)"
}

# SIGKILL, because nothing is to be saved: no state outlives "stop".
kill_daemons() {
    local pids
    pids=$(daemons "$1")
    [ -z "$pids" ] || kill -KILL $pids 2>/dev/null || true
}

stop_all() {
    kill_daemons slurmctld
    kill_node n1
    kill_node n2
    kill_daemons munged
    rm -f "$dir/munge/socket" "$dir/munge/socket.lock"
}

start_node() { SLURM_CONF=$conf slurmd "${@:2}" -N "$1" >>"$dir/log/start.log" 2>&1 </dev/null || die "slurmd -N $1 does not start; see $dir/log/start.log"; }

# Until both nodes are idle, $1 seconds at most.
wait_idle() {
    local second
    for ((second = 0; second <= $1 * 2; second++)); do
        if [ "$(sinfo -h -N -p work -o %T 2>/dev/null | tr '\n' ' ')" = "idle idle " ]; then return 0; fi
        sleep 0.5
    done
    sinfo -N -p work >&2 || true
    return 1
}

# The first of three neighbouring free ports, below those that the kernel gives to outgoing connections.
free_ports() {
    local try base port
    for try in $(seq 50); do
        base=$((20000 + (RANDOM % 3000) * 4))
        for port in $base $((base + 1)) $((base + 2)); do
            if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then continue 2; fi
        done
        echo "$base"
        return 0
    done
    die "no free ports between 20000 and 32000"
}

need_packages() {
    local missing=()
    command -v munged >/dev/null || missing+=(munge)
    for program in slurmctld slurmd sbatch squeue scontrol; do
        command -v "$program" >/dev/null || { missing+=(slurm-wlm); break; }
    done
    [ ${#missing[@]} = 0 ] || die "packages are missing: ${missing[*]}; as root: apt-get install -y ${missing[*]}"
    command -v ps >/dev/null || die "a package is missing: procps"
    [ "$(id -u)" = 0 ] || die "slurmctld and slurmd must be started as root"
}

write_configuration() {
    local base host
    base=$(free_ports)
    host=$(hostname -s)
    # cred_expire is also how long a requeued job waits. SlurmdTimeout: how long a dead node counts as alive; much less, and a busy machine's
    # nodes are taken for dead. config_overrides: nodes are as configured here, not as the hardware is.
    cat >"$conf" <<END
ClusterName=loopback
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$base
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket,cred_expire=$requeue_wait
CredType=cred/munge
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool/%n
SlurmctldPidFile=$dir/run/slurmctld.pid
SlurmdPidFile=$dir/run/%n.pid
SlurmctldLogFile=$dir/log/slurmctld.log
SlurmdLogFile=$dir/log/%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SlurmctldTimeout=30
SlurmdTimeout=10
MessageTimeout=10
KillWait=$time_grace
MinJobAge=300
ReturnToService=2
JobRequeue=1
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=5,bf_interval=5,batch_sched_delay=1
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((base + 1)) CPUs=$cpus RealMemory=1048576 Gres=gpu:1
NodeName=n2 NodeHostname=$host NodeAddr=127.0.0.1 Port=$((base + 2)) CPUs=$cpus RealMemory=1048576 Gres=gpu:1
PartitionName=work Nodes=n1,n2 Default=YES PriorityTier=1 PreemptMode=REQUEUE OverSubscribe=EXCLUSIVE DefaultTime=60
PartitionName=urgent Nodes=n1,n2 PriorityTier=10 PreemptMode=OFF OverSubscribe=EXCLUSIVE DefaultTime=60
END
    # A pretended GPU needs a device file that exists; nobody opens it.
    echo "Name=gpu File=/dev/null" >"$dir/gres.conf"
}

number() { [[ ${2:-} =~ ^[0-9]+$ ]] && [ "$2" -ge "$3" ] || die "$1 needs a number of at least $3, not '${2:-}'"; }

start() {
    local time_grace=10 requeue_wait=120 cpus=1
    while [ $# -gt 0 ]; do
        case $1 in
            --time-grace) number "$1" "${2:-}" 1; time_grace=$2 ;;
            --requeue-wait) number "$1" "${2:-}" 5; requeue_wait=$2 ;;
            --cpus) number "$1" "${2:-}" 1; cpus=$2 ;;
            *) die "unknown option $1" ;;
        esac
        shift 2
    done
    need_packages
    [ -z "$(daemons slurmctld; daemons n1; daemons n2)" ] || die "a cluster runs in $dir already; stop it first: slurm.sh stop $dir"
    stop_all
    (cd "$dir" && rm -rf state spool munge run log && mkdir -p state spool/n1 spool/n2 munge run log)
    chmod 755 "$dir/munge"
    (umask 077 && head -c 128 /dev/urandom >"$dir/munge/key")
    write_configuration

    trap 'code=$?; [ $code = 0 ] || { trap - EXIT; stop_all; exit $code; }' EXIT
    # --force: the folder may be one that a group can write to.
    munged --force --num-threads=1 --key-file="$dir/munge/key" --socket="$dir/munge/socket" --pid-file="$dir/run/munged.pid" \
        --seed-file="$dir/munge/seed" --log-file="$dir/log/munged.log" >"$dir/log/start.log" 2>&1 </dev/null \
        || die "munged does not start; see $dir/log/start.log"
    slurmctld -c >>"$dir/log/start.log" 2>&1 </dev/null || die "slurmctld does not start; see $dir/log/start.log"
    start_node n1
    start_node n2
    wait_idle 60 || die "the nodes are not idle after a minute; see $dir/log"
    echo "export SLURM_CONF=$conf"
}

# Jobs that were requeued and wait for their begin time. One line for each: its id.
# Not at once: the node revokes the credentials that are as old as the requeue, to the second, and a job that starts in that second FAILS with
# "Job credential revoked". That is what Slurm's two minutes are for; three seconds suffice when all clocks are one.
hurry() {
    local job reason restarts eligible
    squeue -h -t PENDING -O "JobArrayID:64,Reason:32,RestartCnt:16,EligibleTime:32" | while read -r job reason restarts eligible; do
        [ "$reason" = BeginTime ] && [ "${restarts:-0}" -gt 0 ] || continue
        [ "$(date -d "$eligible" +%s 2>/dev/null || echo 9999999999)" -gt $(($(date +%s) + 3)) ] || continue
        # It may have started, or been cancelled, since.
        if scontrol update JobId="$job" StartTime=now+3 >/dev/null 2>&1; then echo "$job"; fi
    done
}

[ $# -ge 2 ] || usage
what=$1
[ "$what" != start ] || mkdir -p "$2"
use_folder "$2"
shift 2
case $what in
    start) start "$@" ;;
    wait) need_cluster; wait_idle "${1:-60}" || die "the nodes are not idle after ${1:-60} seconds" ;;
    kill-node) need_cluster; need_node "$@"; kill_node "$1" ;;
    start-node)
        need_cluster; need_node "$@"
        [ -z "$(daemons "$1")" ] || die "node $1 runs already"
        start_node "$1" -b ;;
    hurry) need_cluster; hurry ;;
    stop) stop_all ;;
    *) usage ;;
esac
