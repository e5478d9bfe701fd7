// The C interface of the fused objective: raw pointers and a stream, so that it links against no torch.
//
// One launch goes from rewards (or advantages), log-probs and masks to the gradients per token, the loss and the sums of
// the metrics. What it computes is defined in pivotrl/objective/loss.py and advantage.py; the names are theirs.
// S samples of a micro-batch, T response tokens of it, R samples of the whole batch with their groups.
#pragma once
#include <cstdint>

enum PivotrlAdvantage : int32_t { kGiven = 0, kGrpo = 1, kLeaveOneOut = 2, kMeanOnly = 3 };
enum PivotrlKl : int32_t { kK1 = 1, kK2 = 2, kK3 = 3 };
enum PivotrlImportance : int32_t { kNoWeight = 0, kTruncate = 1, kMask = 2 };

// Sums over tokens, in this order; the two counts are what their means divide by.
enum PivotrlTotal {
  kLoss,
  kTokens,         // that the mask lets count
  kSampled,        // of those, the ones whose sampler log-prob is finite
  kRatio,
  kClipLow,
  kClipHigh,
  kDualClip,
  kKlOld,
  kKlReference,
  kEntropy,
  kSamplerGap,     // over kSampled
  kSamplerError,   // over kSampled
  kWeight,         // importance weight
  kWeightAtBound,
  kNumTotals
};

struct PivotrlGroupLoss {
  int32_t num_samples;
  const int32_t* token_offsets;  // [S + 1], rising from 0 to T: the tokens of sample s are [offsets[s], offsets[s + 1])

  const float* advantages;       // [S], or null: from the rewards
  const double* rewards;         // [R], finite
  const int32_t* group_offsets;  // [groups + 1], rising from 0 to R
  const int32_t* reward_index;   // [S]: place of each sample in `rewards`
  int32_t num_groups;
  int32_t advantage_mode;
  double advantage_epsilon;

  const float* logp;             // [T]
  const float* old_logp;         // [T] or null: the ratio is 1
  const float* sampler_logp;     // [T] or null
  const float* reference_logp;   // [T] or null
  const float* entropy;          // [T] or null
  const uint8_t* mask;           // [T] or null: all count

  int32_t ratio_of_sequence;
  int32_t cispo;
  float clip_low, clip_high;
  float dual_clip;               // infinity: none
  int32_t kl;
  float beta;
  float entropy_bonus;
  int32_t importance;
  float importance_low, importance_high;
  int32_t sequence_mean;
  double denominator;

  float* g;                      // [T]
  float* h;                      // [T]
  float* advantages_out;         // [S]
  double* partials;              // [S, kNumTotals], scratch
  double* totals;                // [kNumTotals]
  uint32_t* ticket;              // 0 before and after
};

// Start the kernel on a stream (cudaStream_t; a CPU build ignores it and returns when done). Returns 0, or the CUDA error.
extern "C" int pivotrl_group_loss(const PivotrlGroupLoss* arguments, void* stream);
extern "C" const char* pivotrl_group_loss_error(int code);
