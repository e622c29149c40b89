#!/usr/bin/env bash
# Records the log of a small cell for the golden test: `record-golden.sh OHM FOLDER`, with the program to record with and
# the folder to make. Run it when a format or the apply version changes, then `OHM_BLESS=1 cargo test -p ohm-server
# golden` for what it must come to. Every kind of document and most commands are met; the server ends without a word.
set -euo pipefail

readonly OHM="$1" FOLDER="$2"
WORK="$(mktemp -d)"
readonly WORK PORT="${OHM_GOLDEN_PORT:-6499}"
export OHM_DATA_DIR="$WORK/data" OHM_SERVER="http://127.0.0.1:$PORT"
trap 'kill $(jobs -p) 2>/dev/null || true; rm -rf "$WORK"' EXIT

# Waits for a minute at most until the command succeeds.
until_so() {
  for _ in $(seq 120); do
    if "$@" >/dev/null 2>&1; then return 0; fi
    sleep 0.5
  done
  echo "not within a minute: $*" >&2
  return 1
}

state_is() {
  "$OHM" job "$1" -o json | grep -q "\"state\": \"$2\""
}

applied_beyond() {
  (($("$OHM" status -o json | sed -n 's/.*"appliedIndex": \([0-9]*\).*/\1/p' | head -1) > $1))
}

"$OHM" server --data-dir "$OHM_DATA_DIR" --listen "127.0.0.1:$PORT" --snapshot-every 30 2>"$WORK/server.log" &
readonly SERVER=$!
until_so "$OHM" status
for class in batch tas dense; do "$OHM" scheduler --class "$class" 2>"$WORK/$class.log" & done
"$OHM" health 2>"$WORK/health.log" &
"$OHM" agent --sim 3 --data-dir "$WORK/sim" --token-file "$OHM_DATA_DIR/token" 2>"$WORK/sim.log" &

cat >"$WORK/cell.yaml" <<'YAML'
apiVersion: ohm/v1
kind: Topology
metadata: {name: default}
spec: {levels: [{nodeLabel: topology.ohm/rack}, {nodeLabel: kubernetes.io/hostname}]}
---
apiVersion: ohm/v1
kind: PriorityClass
metadata: {name: high}
value: 100
---
apiVersion: ohm/v1
kind: Queue
metadata: {name: main}
spec: {nominalQuota: {cpu: 20}}
---
apiVersion: ohm/v1
kind: Queue
metadata: {name: held}
spec: {stopPolicy: Hold, maxWaitingJobs: 1}
---
apiVersion: ohm/v1
kind: ResourceFlavor
metadata: {name: any}
---
apiVersion: ohm/v1
kind: Queue
metadata: {name: flavored}
spec:
  resourceGroups:
  - coveredResources: [cpu]
    flavors:
    - {name: unknown, resources: [{name: cpu, nominalQuota: 9}]}
    - {name: any, resources: [{name: cpu, nominalQuota: 9}]}
---
apiVersion: ohm/v1
kind: SchedulingProfile
metadata: {name: dense}
spec: {like: service, base: packing, scores: [{name: PodTopologySpread, weight: 1}]}
YAML
cat >"$WORK/jobs.yaml" <<'YAML'
apiVersion: ohm/v1
kind: Job
metadata: {name: array}
spec: {queue: main, priorityClassName: high, array: 6, requests: {cpu: 500m}, command: ["true"], sim: {duration: 1s}}
---
apiVersion: ohm/v1
kind: Job
metadata: {name: gang}
spec:
  class: tas
  groups:
  - name: main
    count: 2
    spares: 1
    requests: {cpu: 1}
    topology: {required: topology.ohm/rack}
    command: ["true"]
    sim: {duration: 1h}
---
apiVersion: ohm/v1
kind: Job
metadata: {name: fails}
spec: {requests: {cpu: 1}, retries: 1, command: ["false"], sim: {duration: 200ms, exitCode: 3}}
---
apiVersion: ohm/v1
kind: Job
metadata: {name: stays}
spec: {queue: main, elastic: true, minCount: 1, count: 2, requests: {cpu: 1}, command: ["true"], sim: {duration: 1h}}
---
apiVersion: ohm/v1
kind: Job
metadata: {name: packed}
spec:
  queue: flavored
  class: dense
  count: 2
  labels: {app: packed}
  affinity:
    podAntiAffinity:
      requiredDuringSchedulingIgnoredDuringExecution:
      - {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {app: packed}}}
  topologySpreadConstraints:
  - {topologyKey: topology.ohm/rack, labelSelector: {matchLabels: {app: packed}}, maxSkew: 2}
  tolerations: [{key: only, operator: Exists, effect: NoExecute, tolerationSeconds: 60}]
  requests: {cpu: 100m}
  limits: {cpu: 200m}
  command: ["true"]
  sim: {duration: 1h}
---
apiVersion: ohm/v1
kind: Job
metadata: {name: late}
spec: {queue: held, pendingTimeoutSeconds: 1, requests: {cpu: 1}, command: ["true"]}
YAML
cat >"$WORK/drain.yaml" <<'YAML'
apiVersion: ohm/v1
kind: Queue
metadata: {name: main}
spec: {nominalQuota: {cpu: 20}, stopPolicy: HoldAndDrain}
YAML
until_so "$OHM" submit "$WORK/cell.yaml"
until_so "$OHM" submit "$WORK/jobs.yaml"
until_so state_is gang running
until_so state_is array succeeded
until_so state_is packed running
until_so state_is late failed
until_so state_is stays running
"$OHM" submit "$WORK/drain.yaml"
until_so state_is stays pending
"$OHM" submit "$WORK/cell.yaml"
until_so state_is stays running
"$OHM" scale stays 3
"$OHM" suspend gang
until_so state_is gang suspended
"$OHM" resume gang
until_so state_is gang running
awk 'BEGIN {RS = "---\n"} /name: packed/' "$WORK/jobs.yaml" | sed 's/cpu: 100m/cpu: 150m/' >"$WORK/packed.yaml"
"$OHM" submit --update "$WORK/packed.yaml"
until_so "$OHM" rollout status packed
"$OHM" rollout undo packed
"$OHM" node cordon sim-1
"$OHM" node uncordon sim-1
until_so applied_beyond 66
"$OHM" cancel stays
until_so state_is fails failed
kill -9 "$SERVER"
mkdir -p "$FOLDER"
find "$OHM_DATA_DIR" \( -name 'wal-*' -o -name 'snapshot-*' -o -name log.identity \) -exec cp {} "$FOLDER" \;
ls "$FOLDER"
