# Sourced by the commands in tools/: quiet libraries, one thread a process, nothing fetched at run time.
export OMP_NUM_THREADS="${OMP_NUM_THREADS:-1}"      # one process per core; more threads only make the ranks fight
export OMP_WAIT_POLICY="${OMP_WAIT_POLICY:-PASSIVE}" # a waiting rank sleeps instead of spinning on the other rank's core
export TOKENIZERS_PARALLELISM=false
export HF_HUB_OFFLINE=1 VLLM_NO_USAGE_STATS=1 DO_NOT_TRACK=1
export VLLM_LOGGING_LEVEL="${VLLM_LOGGING_LEVEL:-ERROR}" TRANSFORMERS_VERBOSITY="${TRANSFORMERS_VERBOSITY:-error}"
export TF_CPP_MIN_LOG_LEVEL=3 GLOG_minloglevel=2 GLOO_LOG_LEVEL="${GLOO_LOG_LEVEL:-ERROR}" TORCH_CPP_LOG_LEVEL="${TORCH_CPP_LOG_LEVEL:-ERROR}"
export PYTHONWARNINGS="${PYTHONWARNINGS:-ignore}"
