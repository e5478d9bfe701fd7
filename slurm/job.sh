# What the batch scripts share. Sourced, with the working folder at the repository's; defines functions only.
#
#   start_attempt FOLDER           log folder of this attempt, FOLDER/logs/latest, and the variables that the ranks read
#   on_every_node ARGUMENTS...     python ARGUMENTS on every GPU of every node, under torchrun; returns its exit code
#   preflight FOLDER               look at every node first; PREFLIGHT=0 skips it
#   end_attempt FOLDER CODE        requeue, give up, or end; prints what a failed rank said last. Does not return.

# key FILE NAME: the value of NAME in a JSON file with one key a line; nothing where there is none.
key() { [[ -f $1 ]] && sed -n "s/^ *\"$2\": \"\{0,1\}\([^\",]*\)\"\{0,1\},\{0,1\}\$/\1/p" "$1" || true; }

start_attempt() {
  local folder="$1" end
  attempt="${SLURM_JOB_ID}_${SLURM_RESTART_COUNT:-0}"
  logs="$(mkdir -p "$folder/logs" && cd "$folder/logs" && pwd -P)/$attempt"
  mkdir -p "$logs"
  ln -sfn "$attempt" "$folder/logs/latest"
  step_before="$(key "$folder/state.json" step)"
  export PIVOTRL_LOGS="$logs" PIVOTRL_STOP_FILE="$logs/stop"
  rm -f "$PIVOTRL_STOP_FILE"
  # Newer Slurm says the end of the job itself. Without a time limit squeue says NONE or N/A, which is no date.
  end="${SLURM_JOB_END_TIME:-}"
  [[ -n $end ]] || end="$(date -d "$(squeue -h -j "$SLURM_JOB_ID" -o %e 2>/dev/null)" +%s 2>/dev/null || true)"
  [[ $end =~ ^[0-9]+$ ]] && (( end > $(date +%s) )) && export PIVOTRL_DEADLINE="$end"
  # Recent collectives of every rank, written where they run into their time-out: torch's flight recorder. The recorder
  # reads its size by either name, and the process group by the older one.
  export TORCH_FR_BUFFER_SIZE=20000 TORCH_NCCL_TRACE_BUFFER_SIZE=20000
  export TORCH_NCCL_ENABLE_MONITORING=1 TORCH_NCCL_DUMP_ON_TIMEOUT=1 TORCH_FR_DUMP_TEMP_FILE="$logs/nccl_trace_rank_"
  # One hardware queue, so that kernels start in the order that Megatron's sequence parallelism counts on.
  export CUDA_DEVICE_MAX_CONNECTIONS=1
  MASTER_ADDR="$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)"
  export MASTER_ADDR
  MASTER_PORT=$(( 10000 + SLURM_JOB_ID % 10000 * 2 )) # below the ports that the kernel hands out; a job's own
  # Slurm signals the batch script only (--signal=B:USR1@N; TERM where it is preempted): the ranks see a file.
  trap 'ask_to_stop USR1' USR1
  trap 'ask_to_stop TERM' TERM
  echo "attempt $attempt on $SLURM_JOB_NODELIST, $(date '+%Y-%m-%d %H:%M:%S'): logs in $logs"
}

ask_to_stop() {
  echo "signal $1: the ranks finish their step and save"
  touch "$PIVOTRL_STOP_FILE"
}

on_every_node() {
  local step code=0 container=()
  if [[ -n ${CONTAINER_IMAGE:-} ]]; then
    container=(--container-image="$CONTAINER_IMAGE" --container-workdir="$PWD" --no-container-mount-home)
    [[ -n ${CONTAINER_MOUNTS:-} ]] && container+=(--container-mounts="$CONTAINER_MOUNTS")
  fi
  MASTER_PORT=$(( MASTER_PORT + 1 ))
  export MASTER_PORT
  # --kill-on-bad-exit: one node's failure ends all. --cpu-bind=none: a task is a whole node, not one core.
  (
    set -o pipefail
    srun --nodes="$SLURM_NNODES" --ntasks="$SLURM_NNODES" --ntasks-per-node=1 --kill-on-bad-exit=1 --cpu-bind=none \
      "${container[@]}" bash slurm/node.sh "$@" 2>&1 | tee -a "$logs/job.log"
  ) &
  step=$!
  # A trapped signal ends `wait` early; the step goes on.
  while kill -0 "$step" 2>/dev/null; do wait "$step" || true; done
  wait "$step" || code=$?
  return "$code"
}

preflight() { [[ ${PREFLIGHT:-1} == 0 ]] || on_every_node -m pivotrl.cluster.preflight --folder "$1"; }

# The rank that ended badly first: its exit file, "SECONDS CODE LOG".
first_failure() { cat "$logs"/exit_* 2>/dev/null | sort -n | awk '$2 != 0' | head -n 1; }

end_attempt() {
  local folder="$1" code="$2" step idle log status
  trap - USR1 TERM
  if (( code != 0 )); then
    read -r _ status log <<<"$(first_failure)" || true
    {
      if [[ -n ${log:-} ]]; then
        echo "=== $(basename "$log" .log) ended first, with exit code $status. Its last lines ($log):"
        tail -n "${PIVOTRL_LAST_LINES:-30}" "$log"
      else
        echo "=== srun ended with exit code $code, and no rank said why; the last lines of the attempt:"
        tail -n "${PIVOTRL_LAST_LINES:-30}" "$logs/job.log"
      fi
      echo "=== attempt $attempt failed; it is not requeued. Started again, the run goes on from its last checkpoint."
    } >"$logs/failure.txt"
    cat "$logs/failure.txt"
    cat "$logs/failure.txt" "$logs/job.log" >"$logs/job.log.new" && mv "$logs/job.log.new" "$logs/job.log"
    exit "$code"
  fi
  if [[ $(key "$folder/state.json" finished) == true ]]; then
    echo "attempt $attempt: complete"
    rm -f "$folder/logs/idle"
    exit 0
  fi
  step="$(key "$folder/state.json" step)"
  idle=0
  if [[ ${step:-0} == "${step_before:-0}" ]]; then
    idle=$(( $(cat "$folder/logs/idle" 2>/dev/null || echo 0) + 1 ))
  fi
  echo "$idle" >"$folder/logs/idle"
  if (( idle > ${PIVOTRL_IDLE_REQUEUES:-2} )); then
    echo "attempt $attempt: $idle attempts in a row ended at step ${step:-0}; not requeued: give the job more time" \
      "(--time), or raise PIVOTRL_IDLE_REQUEUES"
    rm -f "$folder/logs/idle"
    exit 1
  fi
  echo "attempt $attempt: stopped at step ${step:-0} of $(key "$folder/state.json" steps); requeued"
  scontrol requeue "$SLURM_JOB_ID"
  exit 0
}
