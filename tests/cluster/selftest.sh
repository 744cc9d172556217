#!/usr/bin/env bash
# Tests slurm.sh and torture.py with a stand-in for a training run: whatever happens to it, it must count to its goal,
# and never go back further than to its last checkpoint.
#
#   selftest.sh DIR [torture.py's options...]
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd -P)
[ $# -ge 1 ] || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2; exit 2; }
folder=$1
shift
"$here/slurm.sh" start "$folder"
trap '"$here/slurm.sh" stop "$folder"' EXIT
folder=$(cd "$folder" && pwd -P)
export SLURM_CONF=$folder/slurm.conf
rm -rf "$folder/count" && mkdir "$folder/count"
goal=400
printf '#!/bin/bash\nexec python3 %s %s %s\n' "$here/counter.py" "$folder/count" "$goal" >"$folder/job.sh"
array=$(sbatch --parsable --requeue --array=0-3 --open-mode=append --signal=B:TERM@60 --time=30 --output="$folder/count/%a.out" "$folder/job.sh")
status=0
python3 "$here/torture.py" "$folder" "$array" "$@" || status=$?
for index in 0 1 2 3; do
    awk -v goal=$goal -v index_=$index '
        /^begin at/ { from = $3 + 0; if (from > last || last - from > 20) { print "task " index_ ": begins at " from " after " last; bad = 1 }; last = from; next }
        /^[0-9]+$/ { if ($1 != last + 1) { print "task " index_ ": " $1 " after " last; bad = 1 }; last = $1 }
        END { if (last != goal) { print "task " index_ ": ends at " last ", not at " goal; bad = 1 }; exit bad }
    ' "$folder/count/$index.log" || status=1
done
[ $status = 0 ] && echo "every task counted to $goal without a gap"
exit $status
