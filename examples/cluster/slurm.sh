#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
#
# Runs a graph of tasks in a Slurm job; see docs/dag-cluster.md:
#   RH_DEVICE=net_af_packet0,iface=eth0 sbatch --nodes=5 slurm.sh WORKFLOW
# The first node has the server, each other one a worker, the last one also the loader.
#
#SBATCH --job-name=rh-dag
#SBATCH --nodes=3
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#
# Of the environment:
#   RH_DEVICE       DPDK port of each node (net_af_packet0,iface=eth0); RH_LOAD_DEVICE: the loader's
#   RH_ADDRESS      RoCE address of the server (10.9.0.101/24). The others have the numbers that follow;
#                   none may be the kernel's
#   RH_EAL          EAL arguments, as "-l 2 -a 0000:3b:00.0"
#   RH_ENDPOINT     more options of all; RH_SERVE, RH_WORK, RH_LOAD: of one command
#   RH_PROGRAM      rh-dag on the nodes (rh-dag)
#   RH_RESULTS      folder of what they print (rh-dag-JOB)
set -uo pipefail

fail() {
  echo "slurm.sh: $1" >&2
  exit 1
}

[ $# -eq 1 ] || { echo 'Usage: sbatch [--nodes=N] slurm.sh WORKFLOW' >&2; exit 2; }
[ "${SLURM_JOB_NUM_NODES:-0}" -ge 2 ] || fail 'a job of 2 nodes at least is needed (sbatch --nodes=N)'
address=${RH_ADDRESS:-10.9.0.101/24}
[[ $address =~ ^(.*[.:])([0-9]+)(/[0-9]+)$ ]] || fail "RH_ADDRESS=$address: expected is ADDR/LEN"
export RH_BEFORE=${BASH_REMATCH[1]} RH_FIRST=${BASH_REMATCH[2]} RH_AFTER=${BASH_REMATCH[3]}
export RH_DEVICE=${RH_DEVICE:-net_af_packet0,iface=eth0}
export RH_PROGRAM=${RH_PROGRAM:-rh-dag} RH_EAL=${RH_EAL-} RH_ENDPOINT=${RH_ENDPOINT-}
results=${RH_RESULTS:-rh-dag-$SLURM_JOB_ID}
mkdir -p "$results" || exit 1
others=$((SLURM_JOB_NUM_NODES - 1))

# node NUMBER COMMAND [argument...]: what each task runs, with the address NUMBER + its rank.
node() {
  local address=$RH_BEFORE$((RH_FIRST + $1 + SLURM_PROCID))$RH_AFTER
  # These variables are lists of words.
  # shellcheck disable=SC2086
  exec $RH_PROGRAM ${RH_EAL:+$RH_EAL --} "$2" --device "$RH_DEVICE" --ip "$address" --json \
    $RH_ENDPOINT "${@:3}"
}
export -f node

# --overlap: the loader shares its node with a worker. A worker that is lost must not end the others.
step() {
  srun --overlap --kill-on-bad-exit=0 --wait=0 --input=none --ntasks-per-node=1 "$@"
}

# However this ends, so do the steps; the server ends by the signal as it has nothing else to wait for.
end() {
  trap - EXIT
  trap '' HUP INT TERM
  for number in 0 1 2; do
    scancel --quiet --signal=TERM "$SLURM_JOB_ID.$number" 2>/dev/null
  done
  wait
}
trap end EXIT
trap 'exit 1' HUP INT TERM

# The system chooses the port, as a node may have several jobs. This is step 0. The log of an earlier
# job in the same folder names a port, too, and the step that empties it is slower than the loop below.
: >"$results/server.log" || exit 1
# shellcheck disable=SC2086
step --nodes=1 --ntasks=1 --relative=0 bash -c 'node 0 serve "$@"' rh-dag --port 0 ${RH_SERVE-} \
  >"$results/server.json" 2>"$results/server.log" &
server=$!
until port=$(sed -n 's/.*listening on TCP port \([0-9]*\)$/\1/p' "$results/server.log") && [ -n "$port" ]; do
  kill -0 "$server" 2>/dev/null || fail "the server has ended: $(tail -n 1 "$results/server.log")"
  sleep 0.1
done
to=(--server "$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1):$port")

# shellcheck disable=SC2086
step --nodes="$others" --ntasks="$others" --relative=1 --output="$results/worker-%t.json" \
  --error="$results/worker-%t.log" bash -c 'node 2 work "$@"' rh-dag "${to[@]}" --runs 1 ${RH_WORK-} &
workers=$!
# shellcheck disable=SC2086
RH_DEVICE=${RH_LOAD_DEVICE:-$RH_DEVICE} step --nodes=1 --ntasks=1 --relative="$others" \
  bash -c 'node 1 load "$@"' rh-dag "${to[@]}" --wait ${RH_LOAD-} "$1" >"$results/result.json" &
load=$!
wait -n -p ended "$load" "$server"
status=$?
[ "$ended" = "$load" ] || fail "the server has ended: $(tail -n 1 "$results/server.log")"
cat "$results/result.json"
# The workers have seen the end of the run, too; let them say what they did.
[ "$status" -ne 0 ] || wait "$workers"
exit "$status"
