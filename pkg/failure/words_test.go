package failure_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/profllm/profllm/pkg/failure"
)

// covers: PL-F1, PL-F7
func TestLastWordsOfContainers(t *testing.T) {
	edge := strings.Repeat("-", 74)
	logger := "(EngineCore pid=7) ERROR 11-21 10:00:01 [core.py:936] "
	exited := "srun: error: node1: task 0: Exited with exit code 1"
	for name, tt := range map[string]struct {
		lines       []string
		cause, line string
	}{
		"the lines of a message that go on with it": {[]string{logger + "The actor is dead", logger + "\terror: 288692", logger + "    raise Error(x)"}, "error-message", logger + "The actor is dead"},
		"an image that cannot be imported": {[]string{"slurmstepd: error: pyxis: failed to import docker image", "slurmstepd: error: pyxis: printing enroot log file:",
			"slurmstepd: error: pyxis:     [INFO] Fetching", "slurmstepd: error: pyxis:     [ERROR] Could not read the list", "slurmstepd: error: pyxis: couldn't start container", exited},
			"error-message", "slurmstepd: error: pyxis:     [ERROR] Could not read the list"},
		"a container that is not there": {[]string{`slurmstepd: error: pyxis: error: a container with name "x" does not exist`, "slurmstepd: error: pyxis: couldn't start container", exited},
			"error-message", `slurmstepd: error: pyxis: error: a container with name "x" does not exist`},
		"a notice of Open MPI":            {[]string{"INFO a", edge, "There are not enough slots for the 8", "slots that were asked for:", "", "  serve", "", "Ask for fewer,", "", "or have", "more.", edge}, "unknown", "There are not enough slots for the 8 slots that were asked for:"},
		"a notice with Windows line ends": {[]string{"INFO a\r", edge + "\r", "There are not enough slots for the 8\r", "slots that were asked for.\r", edge + "\r"}, "unknown", "There are not enough slots for the 8 slots that were asked for."},
		"a warning of Open MPI":           {[]string{"INFO a", edge, "WARNING: No preset parameters were found", "for the device.", edge}, "", ""},
		"a notice long before the end":    {[]string{edge, "There are not enough slots.", edge, "INFO a", "INFO b", "INFO c", "INFO d"}, "", ""},
		"a table between lines of dashes": {[]string{"INFO a", strings.Repeat("-", 50), "name value", strings.Repeat("-", 50)}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			if f := explained(t, tt.cause, tt.lines); f != nil {
				require.Equal(t, tt.line, f.Line)
			}
		})
	}
}

// What a wrapper hides: the innermost of a chain of causes, and the library's own line.
//
// covers: PL-F7, PL-F13
func TestWrapped(t *testing.T) {
	const (
		warn = "2026-11-21 10:00:01 node1:4512:4790 [0] misc/ibvwrap.cc:227 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out"
		ucx  = "[1795255210.705652] [node1:7:0] ucp_context.c:2192 UCX  ERROR UCP version is incompatible, required: 1.20, actual: 1.15"
	)
	for name, tt := range map[string]struct {
		role        string
		lines       []string
		cause, line string
		no          int
	}{
		"a chain": {"frontend", []string{header, `  File "a.py", line 1, in f`, "Exception: no lease", "", "Caused by:", "    0: grpc request", "    1: quota used up"},
			"unhandled-exception", "Exception: no lease: quota used up", 3},
		"a single cause":                 {"frontend", []string{"RuntimeError: no lease", "", "Caused by:", "    quota used up"}, "unhandled-exception", "RuntimeError: no lease: quota used up", 1},
		"NCCL's warning":                 {"serve", []string{warn, "node1:4512:4790 [0] NCCL INFO x -> 2", "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)"}, "nccl-system-error", warn, 1},
		"UCX's error":                    {"serve", []string{"INFO a", ucx, "nixl_cu12._bindings.nixlBackendError: NIXL_ERR_BACKEND"}, "nixl-backend", ucx, 2},
		"the first of two errors of UCX": {"serve", []string{ucx, ucx + " more", "INFO a", "nixl_cu12._bindings.nixlBackendError: NIXL_ERR_BACKEND"}, "nixl-backend", ucx, 1},
		"a traceback in JSON": {"serve", []string{`{"timestamp": "2026-11-21T09:13:41.118", "logger": "v1.core", "exc_info": "Traceback:\n  File \"a.py\", line 1\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1 GiB."}`},
			"cuda-oom", "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1 GiB.", 1},
		"after a step that was cancelled": {"serve", []string{"slurmstepd: error: *** STEP 9.1 ON n2 CANCELLED AT 2026-11-21T10:00:01 ***", "[ERROR] Something is wrong with the image"},
			"unknown", "[ERROR] Something is wrong with the image", 2},
		"none above": {"serve", []string{"nixl_cu12._bindings.nixlBackendError: NIXL_ERR_BACKEND", ucx}, "nixl-backend", "nixl_cu12._bindings.nixlBackendError: NIXL_ERR_BACKEND", 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := explain(t, failure.Job{}, log(tt.role, tt.lines...))
			require.Equal(t, tt.cause, f.Cause, f.Line)
			require.Equal(t, tt.line, f.Line)
			require.Equal(t, tt.no, f.LineNumber)
		})
	}
}

// The last attempt of a requeued job decides.
//
// covers: PL-F1
func TestRequeued(t *testing.T) {
	const requeue = "slurmstepd: error: *** JOB 9 ON node1 CANCELLED AT 2026-11-21T09:20:00 DUE TO JOB REQUEUE ***"
	taken := "(APIServer pid=5) OSError: [Errno 98] Address already in use"
	for name, tt := range map[string]struct {
		lines []string
		want  string
	}{
		"that failed of something else": {[]string{oom, requeue, "INFO a", "INFO b", "INFO c", taken}, "port-in-use"},
		"that went well":                {[]string{oom, requeue, "INFO a", "INFO b", "INFO c", "INFO d"}, ""},
		"that has not begun":            {[]string{oom, requeue}, "cuda-oom"},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := table(t).ExplainLogs([]failure.Log{log("", tt.lines...)}, time.UTC)
			require.NoError(t, err)
			if tt.want == "" {
				require.Nil(t, f)
				return
			}
			require.NotNil(t, f)
			require.Equal(t, tt.want, f.Cause)
		})
	}
}

// The forms of lines that were found missing in the table, and what only looks like one.
//
// covers: PL-F10
func TestForms(t *testing.T) {
	for _, tt := range []struct{ role, line, want string }{
		{"prefill", "E1121 11:08:04.222625 56060 rdma_endpoint.cpp:385] [Handshake] Failed to modify QP to RTR, check mtu", "rdma-queue-pair"},
		{"prefill", "(EngineCore pid=7) ERROR 11-21 10:00:01 [nixl_connector.py:1] NIXL handshake failed for engine 3b", "kv-handshake-failed"},
		{"serve", "(raylet) node_manager.cc:3069: 1 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers crashed", "ray-node-oom"},
		{"job", "slurmstepd: error: pyxis:     enroot-nsenter: failed to create user namespace: No space left on device", "user-namespaces"},
		{"serve", "srun: error: pyxis: --container-mounts: source path does not exist: /data/models", "container-mount"},
		{"serve", "srun: error: pyxis: mount target must be a relative path or an absolute path", "container-mount"},
		{"serve", "enroot-mount: failed to mount: /data/models at /tmp/enroot/x/models: No such file or directory", "container-mount"},
		{"serve", `docker: Error response from daemon: invalid mount config for type "bind": bind source path does not exist: /data/models.`, "container-mount"},
		{"serve", "Error: statfs /data/models: no such file or directory", "container-mount"},
		{"serve", "FATAL:   container creation failed: mount hook function failure: mount /data->/data error: while mounting /data: mount source /data doesn't exist", "container-mount"},
		{"serve", "slurmstepd: error: pyxis:     FATAL ERROR: File system corruption detected", "container-image-broken"},
		{"serve", "Read on filesystem failed because EOF", "container-image-broken"},
		{"serve", "[ERROR] Failed to mount: /images/vllm.sqsh", "container-image-broken"},
		{"serve", "[ERROR] Invalid argument: /images/vllm.sqsh", "container-image-broken"},
		{"serve", "slurmstepd: error: pyxis:     [ERROR] Command not found: nvidia-container-cli, see https://github.com/NVIDIA/libnvidia-container", "container-gpu-hook"},
		{"serve", "[ERROR] /etc/enroot/hooks.d/98-nvidia.sh exited with return code 1", "container-gpu-hook"},
		{"serve", "[ERROR] Command not found: squashfuse", "container-program-missing"},
		{"serve", "[2026-11-21 11:25:31 TP4] Error: /bin/bash: line 1: py-spy: command not found", ""},
		{"serve", "[2026-11-21 11:25:31 TP4] Watchdog timeout (self.watchdog_timeout=300)", "engine-watchdog"},
		{"serve", "httpx.HTTPStatusError: Client error '429 Too Many Requests' for url 'https://hub/x'", "hub-rate-limit"},
		{"serve", `RuntimeError: CAS service error : ReqwestError(reqwest::Error { kind: Status(429) }, "https://hub/x")`, "hub-rate-limit"},
		{"serve", "torch.AcceleratorError: CUDA error: the provided PTX was compiled with an unsupported toolchain.", "driver-mismatch"},
		{"serve", "ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes.", "gpu-memory-busy"},
		{"serve", "OSError: [Errno 108] Cannot send after transport endpoint shutdown: '/lustre/x'", "fs-io-error"},
		{"serve", "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you do it? Error 999: unknown error", "driver-unusable"},
		{"serve", "ValueError: Current node has no GPU available. current_node_resource={}", "gpu-not-visible"},
		{"head", "AssertionError: Session name session_2 does not match persisted value session_1.", "ray-old-session"},
		{"serve", "DeepEP dispatch RDMA sender timeout, channel: 4, RDMA: 0", "deepep-timeout"},
		{"job", "srun: error: step_launch_notify_io_failure: aborting, io error with slurmstepd on node 1", "slurm-step-io"},
		{"job", "srun: error: Nodes gpu[03-04] are still not ready", "slurm-nodes-not-ready"},
		{"job", "srun: error: Unable to confirm allocation for job 1905624: Socket timed out on send/recv operation", "slurm-allocation-lost"},
		{"worker", `    0: grpc request error: "etcdserver: mvcc: database space exceeded"`, "etcd-no-space"},
		{"client", "OSError: Tunnel connection failed: 403 Forbidden", "proxy-tunnel"},
		{"worker", "2026-11-21T13:04:06.031Z ERROR runtime::lease: lease expired or revoked - shutting down", "etcd-lease-lost"},
		{"nats", "[1] 2026/11/21 09:31:12.557100 [ERR] 10.0.0.4:51234 - cid:12 - maximum payload exceeded: 9 vs 8", "nats-payload"},
		{"nats", "[1] 2026/11/21 09:00:01.005 [FTL] Can't start JetStream: insufficient storage", "nats-jetstream"},
		{"serve", "torch.distributed.DistBackendError: [7] is setting up NCCL communicator, but store->get('0') got error: Connection reset by peer", "rendezvous-lost"},
		{"frontend", "Exception: creating primary lease", "etcd-unreachable"},
	} {
		t.Run(tt.line, func(t *testing.T) {
			r, err := table(t).Scan(log(tt.role, tt.line), time.UTC)
			require.NoError(t, err)
			id := ""
			if len(r.Findings) > 0 {
				id = r.Findings[0].ID
			}
			require.Equal(t, tt.want, id)
		})
	}
}

// covers: PL-F7
func TestAboutIsTheThing(t *testing.T) {
	argv := []string{"serve", "--port", "30000"}
	for line, want := range map[string]string{
		`{"timestamp": "2026-11-21T09:13:41.118", "level": "ERROR", "message": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1 GiB."}`: "",
		"E1121 11:08:04.222625 56060 rdma_endpoint.cpp:385] [Handshake] Failed to modify QP to RTR, check mtu":                                          "",
		"OSError: [Errno 98] Address already in use": "30000",
	} {
		t.Run(line, func(t *testing.T) {
			l := log("serve", line)
			l.Argv = argv
			require.Equal(t, want, explain(t, failure.Job{}, l).About)
		})
	}
	f := explain(t, failure.Job{},
		log("node", "[8841.1] NVRM: Xid (PCI:0000:9a:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."))
	require.Equal(t, "0000:9a:00", f.About)
}
