#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) The Rockhopper authors
#
# Runs a graph of tasks on hosts that are reached by ssh; see docs/dag-cluster.md.
set -uo pipefail

usage() {
  cat <<'TEXT'
Usage: ssh.sh [options] WORKFLOW SERVER-HOST WORKER-HOST...

Starts an rh-dag serve and workers on the hosts, has the workflow run, prints what rh-dag load prints,
and ends all of it again. Exit status 0 if the run is complete, 1 if not, 2 for bad arguments.
WORKFLOW is a file that the last host can read.

  --address ADDR/LEN     RoCE address of the server (10.9.0.101/24). The loader and the workers have
                         the numbers that follow; none may be the kernel's
  --device DEVARGS       DPDK port of each host (net_af_packet0,iface=eth0)
  --load-device DEVARGS  that of the loader, which is on the last host beside a worker (as --device)
  --eal WORDS            EAL arguments, as "-l 2 -a 0000:3b:00.0"
  --endpoint WORDS       more options of all, as "--idle sleep --link-mtu 4300"
  --serve WORDS, --work WORDS, --load WORDS   more options of one command, as "--memory 16GiB"
  --port PORT            TCP port of the server (18519)
  --program PATH         rh-dag on the hosts (rh-dag)
  --results FOLDER       where each worker's report goes (not kept)
  --ssh WORDS            how to reach a host ("ssh -o BatchMode=yes
                         -o ServerAliveInterval=5")
TEXT
}

refuse() {
  echo "ssh.sh: $1; see ssh.sh --help" >&2
  exit 2
}

address=10.9.0.101/24 device=net_af_packet0,iface=eth0 load_device='' eal='' endpoint=''
serve='' work='' load='' port=18519 program=rh-dag results='' ssh='ssh -o BatchMode=yes -o ServerAliveInterval=5'
while [[ ${1-} == --* ]]; do
  case $1 in
    --help) usage; exit 0 ;;
    --address | --device | --load-device | --eal | --endpoint | --serve | --work | --load | --port | \
      --program | --results | --ssh)
      [ $# -ge 2 ] || refuse "$1 wants a value"
      name=${1#--}
      printf -v "${name//-/_}" %s "$2"
      shift 2
      ;;
    *) refuse "unknown option $1" ;;
  esac
done
[ $# -ge 3 ] || refuse 'a workflow, a server and at least one worker are needed'
[[ $address =~ ^(.*[.:])([0-9]+)(/[0-9]+)$ ]] || refuse "--address $address: expected is ADDR/LEN"
before=${BASH_REMATCH[1]} first=${BASH_REMATCH[2]} after=${BASH_REMATCH[3]}
workflow=$1 server=$2
workers=("${@:3}")

folder=$(mktemp -d) || exit 1
if [ -n "$results" ]; then mkdir -p "$results" || exit 1; else results=$folder; fi
# The programs on the hosts run for as long as the standard input of their ssh is open. So all of them
# end with this script, however it ends, and also when a connection breaks.
mkfifo "$folder/hold" && exec 8<>"$folder/hold" 9<"$folder/hold" || exit 1
end() {
  trap - EXIT
  trap '' HUP INT TERM
  exec 8>&-
  wait
  rm -rf "$folder"
}
trap end EXIT
trap 'exit 1' HUP INT TERM

# On a host: the program, ended by SIGTERM when the standard input ends; its exit status.
held='exec 3<&0; "$@" </dev/null & child=$!
  { read -r _ <&3; kill "$child"; } >/dev/null 2>&1 & wait "$child"'

# on HOST NUMBER DEVICE COMMAND [argument...]: rh-dag there, with the address of that number.
on() {
  local host=$1 number=$2 port_of_dpdk=$3 words
  # These options are lists of words.
  # shellcheck disable=SC2206
  words=($program ${eal:+$eal --} "$4" --device "$port_of_dpdk"
    --ip "$before$((first + number))$after" $endpoint "${@:5}")
  # The remote shell reads the words anew.
  # shellcheck disable=SC2086
  exec $ssh "$host" "sh -c ${held@Q} rh-dag ${words[*]@Q}" 8>&-
}

# Clients try until the server listens.
to=(--server "$server:$port" --json)
# shellcheck disable=SC2086
on "$server" 0 "$device" serve --port "$port" --json $serve <&9 >"$results/server.json" &
server_ssh=$!
number=2 worker_ssh=()
for host in "${workers[@]}"; do
  # shellcheck disable=SC2086
  on "$host" "$number" "$device" work "${to[@]}" --runs 1 $work <&9 >"$results/worker-$number.json" &
  worker_ssh+=($!)
  number=$((number + 1))
done
# shellcheck disable=SC2086
on "${workers[-1]}" 1 "${load_device:-$device}" load "${to[@]}" --wait $load "$workflow" <&9 &
load_ssh=$!
# Whichever of loader and server ends first: the server does so only if it has failed.
wait -n -p ended "$load_ssh" "$server_ssh"
status=$?
[ "$ended" = "$load_ssh" ] || status=1
[ "$status" -le 2 ] || status=1
# The workers have seen the end of the run, too; let them say what they did.
[ "$status" -ne 0 ] || wait "${worker_ssh[@]}"
exit "$status"
