// A program that clang instruments for XRay and that counts its own calls: what LLVM's runtime writes of
// it must give the same counts. Prints one line per function: its XRay id, its calls, its name.

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>
#include <xray/xray_interface.h>
#include <xray/xray_log_interface.h>

#define TRACED [[clang::xray_always_instrument, gnu::noinline]]

namespace {

std::atomic<uint64_t> leaf_calls, tail_calls, node_calls, fib_calls, worker_calls;
volatile uint64_t sink;

TRACED void leaf(uint64_t value) {
  leaf_calls.fetch_add(1, std::memory_order_relaxed);
  sink = sink + value;
}

// Its argument is recorded.
[[clang::xray_always_instrument, clang::xray_log_args(1), gnu::noinline]]
void tail(uint64_t value) {
  tail_calls.fetch_add(1, std::memory_order_relaxed);
  sink = sink * 31 + value;
}

// Ends in a call that takes its place.
TRACED void node(uint64_t value) {
  node_calls.fetch_add(1, std::memory_order_relaxed);
  leaf(value);
  leaf(value + 1);
  [[clang::musttail]] return tail(value);
}

// Each call is to be one: no recursion that is made a loop.
[[clang::disable_tail_calls]] TRACED uint64_t fib(uint64_t n) {
  fib_calls.fetch_add(1, std::memory_order_relaxed);
  return n < 2 ? n : fib(n - 1) + fib(n - 2);
}

TRACED void worker(uint64_t rounds) {
  worker_calls.fetch_add(1, std::memory_order_relaxed);
  for (uint64_t round = 0; round < rounds; ++round) {
    node(round);
  }
  static char text[] = "halfway";
  __xray_customevent(text, sizeof text - 1);
  sink = sink + fib(12);
}

void tell(const char *name, void (*address)(), uint64_t calls) {
  for (size_t id = 1; id <= __xray_max_function_id(); ++id) {
    if (__xray_function_address(static_cast<int32_t>(id)) == reinterpret_cast<uintptr_t>(address)) {
      std::printf("%zu %llu %s\n", id, static_cast<unsigned long long>(calls), name);
    }
  }
}

template <typename Function> void (*plain(Function *function))() {
  return reinterpret_cast<void (*)()>(function);
}

} // namespace

int main(int count, char **arguments) {
  const uint64_t rounds = count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 100;
  // Calls of any length, in buffers that are many for each thread.
  const char *options = "func_duration_threshold_us=0:buffer_size=16384:buffer_max=400";
  if (__xray_log_select_mode("xray-fdr") != XRAY_REGISTRATION_OK ||
      __xray_log_init_mode("xray-fdr", options) != XRAY_LOG_INITIALIZED ||
      __xray_patch() != SUCCESS) {
    std::fprintf(stderr, "the log can't be begun\n");
    return 1;
  }
  std::vector<std::thread> threads;
  for (uint64_t nth = 1; nth <= 3; ++nth) {
    threads.emplace_back(worker, rounds * nth);
  }
  worker(rounds);
  for (auto &thread : threads) {
    thread.join();
  }
  if (__xray_log_finalize() != XRAY_LOG_FINALIZED || __xray_log_flushLog() != XRAY_LOG_FLUSHED) {
    std::fprintf(stderr, "the log can't be written\n");
    return 1;
  }
  tell("leaf", plain(leaf), leaf_calls);
  tell("tail", plain(tail), tail_calls);
  tell("node", plain(node), node_calls);
  tell("fib", plain(fib), fib_calls);
  tell("worker", plain(worker), worker_calls);
  return 0;
}
