// Package gputest gives tests the NVIDIA GPU of this machine, and a program that
// keeps it busy. Tests that use it are called TestRealGPU…; `make test-gpu` runs them.
package gputest

import (
	"bufio"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Need skips a test where nvidia-smi sees no GPU, with the reason, or fails it where
// environ has PROFLLM_REQUIRE_GPU=1.
func Need(t testing.TB, environ []string) {
	t.Helper()
	if why := missing(); why != "" {
		lacks(t, environ, why)
	}
}

// lacks skips a test for that reason, or fails it where environ has
// PROFLLM_REQUIRE_GPU=1.
func lacks(t testing.TB, environ []string, why string) {
	t.Helper()
	if slices.Contains(environ, "PROFLLM_REQUIRE_GPU=1") {
		t.Fatal(why)
	}
	t.Skip(why)
}

// missing says once why there is no GPU, "" where there is one.
var missing = sync.OnceValue(func() string {
	out, err := exec.Command("nvidia-smi", "-L").CombinedOutput()
	said, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if err != nil || !strings.HasPrefix(said, "GPU 0:") {
		return strings.TrimSuffix(fmt.Sprintf("no NVIDIA GPU here: nvidia-smi -L: %v: %s", err, said), ": ")
	}
	return ""
})

// Held is the GPU memory that Load allocates, in bytes.
const Held = 3 << 30

// load allocates Held bytes by the driver's own library and writes to them until its
// standard input is closed, so that it ends with the test, however that ends.
const load = `
import ctypes, os, sys, threading
try:
    cuda = ctypes.CDLL("libcuda.so.1")
except OSError as e:
    sys.exit("no CUDA driver library: %s" % e)
def call(name, *args):
    code = getattr(cuda, name)(*args)
    if code:
        sys.exit("%s: error %d" % (name, code))
device, context, memory = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
size = int(sys.argv[1])
call("cuInit", 0)
call("cuDeviceGet", ctypes.byref(device), 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
call("cuCtxSetCurrent", context)
call("cuMemAlloc_v2", ctypes.byref(memory), ctypes.c_size_t(size))
threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
print("busy", flush=True)
while True:
    for _ in range(20):
        call("cuMemsetD32_v2", memory, 1, ctypes.c_size_t(size // 4))
    call("cuCtxSynchronize")
`

// Load keeps the GPU with this UUID busy until the test ends, and holds memory of it.
// It returns the process that does. The test is skipped where there is no Python that
// can open the CUDA driver library.
func Load(t testing.TB, environ []string, uuid string) (pid int) {
	t.Helper()
	cmd := exec.Command("python3", "-c", load, fmt.Sprint(Held))
	cmd.Env = append(slices.Clone(environ), "CUDA_VISIBLE_DEVICES="+uuid)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skipf("nothing here can load the GPU: %v", err)
	}
	line, _ := bufio.NewReader(stdout).ReadString('\n')
	if line != "busy\n" {
		_, _ = io.Copy(io.Discard, stdout)
		err := cmd.Wait()
		t.Skipf("nothing here can load the GPU: %v: %s", err, strings.TrimSpace(stderr.String()))
	}
	t.Cleanup(func() {
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the program that loads the GPU: %v: %s", err, stderr.String())
		}
	})
	return cmd.Process.Pid
}
