// A simulated libnvidia-ml.so.1 for tests: the part of NVML's interface that profllm-nvml
// calls, written from its documentation. No number that it gives was measured, and the
// GPU's name and the library's version say so. It needs no header and no driver.
//
// SIMULATED_NVML holds words that change it:
//   gpus=N  init=CODE  lost=GPU  hang=1  memory=MIB (in use)  power=MW  clock=MHZ
//   energy=PERCENT (of what the power makes)  pid=N (0: no process)  die=N (after N samples)
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef int ret;
typedef unsigned long long u64;
enum { OK = 0, INVALID = 2, NOT_SUPPORTED = 3, SMALL = 7, LOST = 15 };

static long word(const char *key, long otherwise) {
  const char *s = getenv("SIMULATED_NVML");
  size_t n = strlen(key);
  for (; s && *s; s = strchr(s, ' ') ? strchr(s, ' ') + 1 : NULL)
    if (!strncmp(s, key, n) && s[n] == '=') return atol(s + n + 1);
  return otherwise;
}

static ret text(char *to, unsigned len, const char *from) {
  if (strlen(from) >= len) return SMALL;
  strcpy(to, from);
  return OK;
}

// A handle is the GPU's number and one.
static long gpu(void *h) { return (long)h - 1; }

ret nvmlInit_v2(void) {
  while (word("hang", 0)) pause();
  return word("init", OK);
}
ret nvmlShutdown(void) { return OK; }
const char *nvmlErrorString(ret r) {
  switch (r) {
  case OK: return "Success";
  case 9: return "Driver Not Loaded";
  case LOST: return "GPU is lost";
  case 18: return "Driver/library version mismatch";
  }
  return "Simulated error";
}
ret nvmlSystemGetDriverVersion(char *v, unsigned n) { return text(v, n, "0.0.1"); }
ret nvmlSystemGetNVMLVersion(char *v, unsigned n) { return text(v, n, "0.0.1-simulated"); }
ret nvmlSystemGetCudaDriverVersion_v2(int *v) { *v = 12080; return OK; }
ret nvmlSystemGetCudaDriverVersion(int *v) { return nvmlSystemGetCudaDriverVersion_v2(v); }
ret nvmlDeviceGetCount_v2(unsigned *n) { *n = word("gpus", 2); return OK; }
ret nvmlDeviceGetHandleByIndex_v2(unsigned i, void **h) {
  if (i >= word("gpus", 2)) return INVALID;
  *h = (void *)(long)(i + 1);
  return OK;
}
ret nvmlDeviceGetName(void *h, char *v, unsigned n) { return text(v, n, "Simulated GPU"); }
ret nvmlDeviceGetUUID(void *h, char *v, unsigned n) {
  char s[64];
  if (gpu(h) == word("lost", -1)) return LOST;
  snprintf(s, sizeof s, "GPU-00000000-0000-0000-0000-%012ld", gpu(h));
  return text(v, n, s);
}

struct memory { u64 total, free, used; };
struct memory_v2 { unsigned version; u64 total, reserved, free, used; };
ret nvmlDeviceGetMemoryInfo(void *h, struct memory *m) {
  m->total = 81559ull << 20, m->used = (u64)word("memory", 4000 + gpu(h)) << 20, m->free = m->total - m->used;
  return OK;
}
ret nvmlDeviceGetMemoryInfo_v2(void *h, struct memory_v2 *m) {
  struct memory old;
  nvmlDeviceGetMemoryInfo(h, &old);
  m->total = old.total, m->reserved = 0, m->free = old.free, m->used = old.used;
  return OK;
}

// Each GPU has one process.
struct process { unsigned pid; u64 used; unsigned instance, compute; };
ret nvmlDeviceGetComputeRunningProcesses_v3(void *h, unsigned *n, struct process *list) {
  unsigned have = *n;
  long pid = word("pid", 4711);
  *n = pid > 0;
  if (!pid) return OK;
  if (have < 1) return SMALL;
  list[0] = (struct process){pid + gpu(h), 3900ull << 20, ~0u, ~0u};
  return OK;
}

struct use { unsigned gpu, memory; };
ret nvmlDeviceGetUtilizationRates(void *h, struct use *u) { u->gpu = 97, u->memory = 40; return OK; }
ret nvmlDeviceGetPowerUsage(void *h, unsigned *mw) {
  static long samples;
  long die = word("die", 0);
  if (die && ++samples > die) _exit(7);
  *mw = word("power", 350000);
  return OK;
}
ret nvmlDeviceGetTotalEnergyConsumption(void *h, u64 *mj) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  *mj = (u64)((t.tv_sec + t.tv_nsec / 1e9) * word("power", 350000) * word("energy", 100) / 100);
  return OK;
}
ret nvmlDeviceGetPowerManagementLimit(void *h, unsigned *mw) { *mw = 700000; return OK; }
ret nvmlDeviceGetClockInfo(void *h, int kind, unsigned *mhz) { *mhz = kind == 2 ? 2619 : word("clock", 1980); return OK; }
ret nvmlDeviceGetMaxClockInfo(void *h, int kind, unsigned *mhz) { *mhz = kind == 2 ? 2619 : 1980; return OK; }
ret nvmlDeviceGetTemperature(void *h, int sensor, unsigned *c) { *c = 61; return OK; }
ret nvmlDeviceGetPersistenceMode(void *h, int *on) { *on = 1; return OK; }
ret nvmlDeviceGetMigMode(void *h, unsigned *now, unsigned *pending) { *now = *pending = 0; return OK; }
ret nvmlDeviceGetCurrentClocksEventReasons(void *h, u64 *bits) { *bits = 4; return OK; }
ret nvmlDeviceGetCurrentClocksThrottleReasons(void *h, u64 *bits) { *bits = 4; return OK; }
