// See group_loss.h. One block a sample. A block works its sample's advantage out from the rewards of its group (at most a
// few thousand numbers, so that nobody has to wait for another block), walks the sample's tokens, and leaves its sums; the
// last block to finish adds all sums in a fixed order, so that equal inputs give equal bits.
#include "group_loss.h"

#ifdef PIVOTRL_CPU
#include "cpu_shim.h"
#endif

namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr float kMaxLogRatio = 20.f;
constexpr float kMaxKl = 10.f;

// Bounds that NaN passes, so that it reaches the loss and is seen there: fminf and fmaxf would put the bound in its place.
__device__ float at_most(float x, float bound) { return x > bound ? bound : x; }
__device__ float at_least(float x, float bound) { return x < bound ? bound : x; }

struct Add {
  __device__ double operator()(double a, double b) const { return a + b; }
};
struct Least {
  __device__ double operator()(double a, double b) const { return a < b ? a : b; }
};
struct Most {
  __device__ double operator()(double a, double b) const { return a > b ? a : b; }
};

// All threads of the block get the reduction of one value a thread, in an order that the number of threads alone decides.
template <class Operation>
__device__ double reduce_block(double value, Operation operation, double* scratch) {
  for (int offset = 16; offset > 0; offset /= 2) value = operation(value, __shfl_xor_sync(~0u, value, offset));
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
  __syncthreads();
  value = scratch[0];
  for (int warp = 1; warp < kWarps; ++warp) value = operation(value, scratch[warp]);
  __syncthreads();
  return value;
}

// Sums of every total over the block's threads, in shared memory: row k of the table ends with its sum in column 0.
constexpr int kParts = 8;
static_assert(kThreads >= kNumTotals * kParts, "a thread for every part of every total");
using Table = double[kNumTotals][kThreads];

__device__ void sum_totals(const double (&totals)[kNumTotals], Table& table) {
  for (int k = 0; k < kNumTotals; ++k) table[k][threadIdx.x] = totals[k];
  __syncthreads();
  const int row = threadIdx.x / kParts, part = threadIdx.x % kParts;
  if (row < kNumTotals) {
    double sum = 0;
    for (int i = part; i < kThreads; i += kParts) sum += table[row][i];
    table[row][part] = sum;  // nobody else reads or writes this column
  }
  __syncthreads();
  if (threadIdx.x < kNumTotals)
    for (int i = 1; i < kParts; ++i) table[threadIdx.x][0] += table[threadIdx.x][i];
  __syncthreads();
}

__device__ int group_of(const PivotrlGroupLoss& a, int reward) {
  int low = 0, high = a.num_groups;  // group_offsets[low] <= reward < group_offsets[high]
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    if (a.group_offsets[middle] <= reward) low = middle; else high = middle;
  }
  return low;
}

// advantage.py. A group of one, and one whose rewards are all equal, give exactly 0.
__device__ double advantage_of(const PivotrlGroupLoss& a, int sample, double* scratch) {
  if (a.advantage_mode == kGiven) return a.advantages[sample];
  const int mine = a.reward_index[sample];
  const int group = group_of(a, mine);
  const int begin = a.group_offsets[group], end = a.group_offsets[group + 1];
  const int size = end - begin;
  const bool leave_out = a.advantage_mode == kLeaveOneOut;
  double sum = 0, least = INFINITY, most = -INFINITY, least_of_all = INFINITY, most_of_all = -INFINITY;
  for (int i = begin + threadIdx.x; i < end; i += kThreads) {
    const double reward = a.rewards[i];
    least_of_all = Least()(least_of_all, reward);
    most_of_all = Most()(most_of_all, reward);
    if (leave_out && i == mine) continue;
    sum += reward;
    least = Least()(least, reward);
    most = Most()(most, reward);
  }
  sum = reduce_block(sum, Add(), scratch);
  least = reduce_block(least, Least(), scratch);
  most = reduce_block(most, Most(), scratch);
  if (reduce_block(least_of_all, Least(), scratch) == reduce_block(most_of_all, Most(), scratch)) return 0;
  const int counted = leave_out ? size - 1 : size;
  const double mean = sum / counted;
  const double centred = a.rewards[mine] - mean;
  // Equality of the others, not a deviation of 0: that would hang on how the mean of fifteen 0.1s rounds.
  if (a.advantage_mode == kMeanOnly || (leave_out && (counted == 1 || least == most))) return centred;
  double squares = 0;
  for (int i = begin + threadIdx.x; i < end; i += kThreads) {
    if (leave_out && i == mine) continue;
    squares += (a.rewards[i] - mean) * (a.rewards[i] - mean);
  }
  squares = reduce_block(squares, Add(), scratch);
  return centred / (sqrt(squares / (leave_out ? counted - 1 : counted)) + a.advantage_epsilon);
}

struct Kl {
  float value, slope;
};

// terms.kl_term
__device__ Kl kl_term(int estimator, float logp, float reference_logp) {
  const float x = at_most(at_least(reference_logp - logp, -kMaxLogRatio), kMaxLogRatio);
  Kl kl;
  if (estimator == kK1) kl = {-x, 1.f};
  else if (estimator == kK2) kl = {x * x / 2, -x};
  else kl = {expm1f(x) - x, -expm1f(x)};
  if (fabsf(kl.value) > kMaxKl) kl.slope = 0;
  kl.value = at_most(at_least(kl.value, -kMaxKl), kMaxKl);
  return kl;
}

struct Term {
  float value, slope, ratio;
  bool at_low, at_high, at_dual;
};

// terms.policy_term and terms.cispo_term
__device__ Term policy_term(const PivotrlGroupLoss& a, float log_ratio, float advantage, float logp) {
  Term term;
  const float ratio = expf(at_most(log_ratio, kMaxLogRatio));
  const float low = 1 - a.clip_low, high = 1 + a.clip_high;
  term.ratio = ratio;
  if (a.cispo) {
    term.slope = -advantage * at_most(at_least(ratio, low), high);
    term.value = term.slope * logp;
    term.at_low = ratio < low;
    term.at_high = ratio > high;
    term.at_dual = false;
    return term;
  }
  const bool negative = advantage < 0;
  const float bounded = negative ? at_most(at_least(ratio, low), a.dual_clip) : at_most(ratio, high);
  term.value = -advantage * bounded;
  term.at_low = negative && ratio < low;
  term.at_high = advantage > 0 && ratio > high;
  term.at_dual = negative && ratio > a.dual_clip;
  const bool flat = term.at_low || term.at_high || term.at_dual || log_ratio > kMaxLogRatio;
  term.slope = flat ? 0 : -advantage * ratio;
  return term;
}

struct Trust {
  float weight;
  bool dropped, at_bound;
};

// loss._trust
__device__ Trust trust_of(const PivotrlGroupLoss& a, int token, float old_logp) {
  if (a.sampler_logp == nullptr) return {1.f, false, false};
  const float sampler = a.sampler_logp[token];
  if (!isfinite(sampler)) return {0.f, true, false};
  if (a.importance == kNoWeight) return {1.f, false, false};
  const float weight = expf(at_most(old_logp - sampler, kMaxLogRatio));
  const bool outside = weight < a.importance_low || weight > a.importance_high;
  if (a.importance == kMask) return {outside ? 0.f : weight, false, outside};
  return {at_most(at_least(weight, a.importance_low), a.importance_high), false, outside};
}

__global__ void __launch_bounds__(kThreads) group_loss_kernel(PivotrlGroupLoss a) {
  __shared__ double scratch[kWarps];
  const int sample = blockIdx.x;
  const int begin = a.token_offsets[sample], end = a.token_offsets[sample + 1];
  const float advantage = static_cast<float>(advantage_of(a, sample, scratch));

  // Every token has a log-ratio of its own, or all of them the mean over the sample.
  double counted = 0, log_ratios = 0;
  for (int t = begin + threadIdx.x; t < end; t += kThreads) {
    if (a.mask != nullptr && !a.mask[t]) continue;
    counted += 1;
    if (a.old_logp != nullptr) log_ratios += static_cast<double>(a.logp[t]) - a.old_logp[t];
  }
  counted = reduce_block(counted, Add(), scratch);
  const double num_tokens = counted > 1 ? counted : 1;
  double sequence_log_ratio = 0;
  if (a.ratio_of_sequence) sequence_log_ratio = reduce_block(log_ratios, Add(), scratch) / num_tokens;
  const double scale = 1 / a.denominator / (a.sequence_mean ? num_tokens : 1);

  double totals[kNumTotals] = {};
  double slopes = 0;  // of a ratio that the whole sample shares
  for (int t = begin + threadIdx.x; t < end; t += kThreads) {
    if (a.mask != nullptr && !a.mask[t]) {
      a.g[t] = a.h[t] = 0;
      continue;
    }
    const float logp = a.logp[t];
    const float old_logp = a.old_logp == nullptr ? logp : a.old_logp[t];
    const float log_ratio = a.ratio_of_sequence ? static_cast<float>(sequence_log_ratio) : logp - old_logp;
    const Trust trust = trust_of(a, t, old_logp);
    const float weight = static_cast<float>(scale * trust.weight);
    const Term term = policy_term(a, log_ratio, advantage, logp);
    float value = term.value, g = 0;
    if (a.ratio_of_sequence) slopes += static_cast<double>(weight) * term.slope; else g = weight * term.slope;
    if (a.reference_logp != nullptr) {
      totals[kKlReference] += kl_term(kK3, logp, a.reference_logp[t]).value;
      if (a.beta > 0) {
        const Kl kl = kl_term(a.kl, logp, a.reference_logp[t]);
        value += a.beta * kl.value;
        g += weight * a.beta * kl.slope;
      }
    }
    if (a.entropy != nullptr) {
      totals[kEntropy] += a.entropy[t];
      if (a.entropy_bonus > 0) value -= a.entropy_bonus * a.entropy[t];
    }
    a.g[t] = g;
    a.h[t] = -a.entropy_bonus * weight;
    totals[kLoss] += static_cast<double>(weight) * value;
    totals[kTokens] += 1;
    totals[kRatio] += term.ratio;
    totals[kClipLow] += term.at_low;
    totals[kClipHigh] += term.at_high;
    totals[kDualClip] += term.at_dual;
    totals[kKlOld] += kl_term(kK3, old_logp, logp).value;
    if (a.sampler_logp != nullptr && !trust.dropped) {
      const double gap = fabs(static_cast<double>(old_logp) - a.sampler_logp[t]);
      totals[kSampled] += 1;
      totals[kSamplerGap] += gap;
      totals[kSamplerError] += exp(gap);
    }
    totals[kWeight] += trust.weight;
    totals[kWeightAtBound] += trust.at_bound;
  }
  if (a.ratio_of_sequence) {
    const float shared_slope = static_cast<float>(reduce_block(slopes, Add(), scratch) / num_tokens);
    for (int t = begin + threadIdx.x; t < end; t += kThreads)
      if (a.mask == nullptr || a.mask[t]) a.g[t] += shared_slope;
  }
  __shared__ Table table;
  sum_totals(totals, table);
  if (threadIdx.x < kNumTotals)
    a.partials[static_cast<int64_t>(sample) * kNumTotals + threadIdx.x] = table[threadIdx.x][0];
  if (threadIdx.x == 0) a.advantages_out[sample] = advantage;

  // The barriers join the block's threads to the one that draws the ticket, and its fences join that one to the other
  // blocks: what all threads of all blocks wrote before is there for all threads of the last block after.
  __shared__ bool last;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    last = atomicAdd(a.ticket, 1u) == gridDim.x - 1;
    __threadfence();
  }
  __syncthreads();
  if (!last) return;
  for (double& total : totals) total = 0;
  for (int s = threadIdx.x; s < a.num_samples; s += kThreads)
    for (int k = 0; k < kNumTotals; ++k) totals[k] += a.partials[static_cast<int64_t>(s) * kNumTotals + k];
  sum_totals(totals, table);
  if (threadIdx.x < kNumTotals) a.totals[threadIdx.x] = table[threadIdx.x][0];
  if (threadIdx.x == 0) *a.ticket = 0;
}

}  // namespace

extern "C" int pivotrl_group_loss(const PivotrlGroupLoss* arguments, void* stream) {
  if (arguments->num_samples == 0) return 0;  // the caller has cleared the totals
#ifdef PIVOTRL_CPU
  (void)stream;
  shim::launch(arguments->num_samples, kThreads, [=] { group_loss_kernel(*arguments); });
  return 0;
#else
  group_loss_kernel<<<arguments->num_samples, kThreads, 0, static_cast<cudaStream_t>(stream)>>>(*arguments);
  return static_cast<int>(cudaGetLastError());
#endif
}

extern "C" const char* pivotrl_group_loss_error(int code) {
#ifdef PIVOTRL_CPU
  return code ? "error" : "no error";
#else
  return cudaGetErrorString(static_cast<cudaError_t>(code));
#endif
}
