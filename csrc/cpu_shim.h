// Runs a CUDA kernel's source on a CPU, for tests: block after block, each thread of a block a fiber that is left only where
// it waits for others. Barriers and shuffles are real, so that a thread which misses one hangs here as it would on a GPU
// (`launch` then says so and ends the program). Not seen: races between barriers, warps, memory that is shared by mistake.
#pragma once
#include <ucontext.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#define __global__
#define __device__
#define __shared__ static
#define __launch_bounds__(...)

namespace shim {

constexpr size_t kStack = 256 * 1024;  // of a fiber; AddressSanitizer needs room

struct Index {
  unsigned x = 0, y = 0, z = 0;
};

// Threads that wait here go on together, once all that are left have come.
struct Barrier {
  unsigned expected = 0, arrived = 0, generation = 0;
};

struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack;
  Index index;
  bool done = false;
};

struct Block {
  Index index, grid;
  std::vector<Fiber> fibers;
  std::vector<Barrier> warps;
  std::vector<uint64_t> lanes;
  Barrier all;
  ucontext_t scheduler;
  unsigned current = 0;
  uint64_t arrivals = 0;  // any barrier, any thread: progress
};

inline Block* block = nullptr;
inline const std::function<void()>* kernel = nullptr;

inline Fiber& running() { return block->fibers[block->current]; }

inline void wait(Barrier& barrier) {
  ++block->arrivals;
  if (++barrier.arrived == barrier.expected) {
    barrier.arrived = 0;
    ++barrier.generation;
    return;
  }
  const unsigned generation = barrier.generation;
  while (barrier.generation == generation) swapcontext(&running().context, &block->scheduler);
}

template <class T>
T exchange(T value, unsigned offset) {
  static_assert(sizeof(T) <= sizeof(uint64_t), "a lane holds 8 bytes");
  const unsigned thread = running().index.x;
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  block->lanes[thread] = bits;
  wait(block->warps[thread / 32]);
  bits = block->lanes[thread ^ offset];
  wait(block->warps[thread / 32]);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline void enter() {
  (*kernel)();
  running().done = true;
  swapcontext(&running().context, &block->scheduler);
}

inline void prepare(Fiber& fiber, unsigned index, ucontext_t* after) {
  fiber.index.x = index;
  fiber.stack.reset(new char[kStack]);
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack.get();
  fiber.context.uc_stack.ss_size = kStack;
  fiber.context.uc_link = after;
  makecontext(&fiber.context, enter, 0);
}

inline void run_block(unsigned index, unsigned grid, unsigned threads) {
  Block here;
  block = &here;
  here.index.x = index;
  here.grid.x = grid;
  here.all.expected = threads;
  here.lanes.resize(threads);
  here.warps.resize(threads / 32);
  for (Barrier& warp : here.warps) warp.expected = 32;
  here.fibers.resize(threads);
  for (unsigned i = 0; i < threads; ++i) prepare(here.fibers[i], i, &here.scheduler);
  for (bool left = true; left;) {
    left = false;
    const uint64_t before = here.arrivals;
    unsigned finished = 0;
    for (here.current = 0; here.current < threads; ++here.current) {
      Fiber& fiber = here.fibers[here.current];
      if (fiber.done) continue;
      swapcontext(&here.scheduler, &fiber.context);
      if (fiber.done) ++finished; else left = true;
    }
    if (left && !finished && here.arrivals == before) {
      std::fprintf(stderr, "cpu_shim: block %u hangs: some of its threads wait where the others never come\n", index);
      std::abort();
    }
  }
  block = nullptr;
}

inline void launch(unsigned grid, unsigned threads, const std::function<void()>& body) {
  kernel = &body;
  for (unsigned index = 0; index < grid; ++index) run_block(index, grid, threads);
  kernel = nullptr;
}

}  // namespace shim

#define threadIdx (shim::running().index)
#define blockIdx (shim::block->index)
#define gridDim (shim::block->grid)

inline void __syncthreads() { shim::wait(shim::block->all); }
inline void __threadfence() {}

template <class T>
T __shfl_xor_sync(unsigned, T value, int offset) {
  return shim::exchange(value, static_cast<unsigned>(offset));
}

inline uint32_t atomicAdd(uint32_t* address, uint32_t value) {
  const uint32_t before = *address;
  *address += value;
  return before;
}

using std::isfinite;
