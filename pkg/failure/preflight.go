package failure

import "maps"

// Preflight are the causes of a job that ended before its servers started, by the
// check that ended it: what a node looked like, not what a log says.
func Preflight() map[string]Ending { return maps.Clone(preflight) }

// APICheck is the cause of a job that a check of the API ended, if no log says why the server
// answers wrongly.
var APICheck = Ending{"api-check", "read raw/api-check.json and the server's log; profllm check asks a server that is up; " +
	"api_check selects the checks that a test needs"}

// OfPreflight is the cause that a failed check stands for.
func OfPreflight(check string) Ending {
	if e, ok := preflight[check]; ok {
		return e
	}
	return Ending{"node-unfit", "read the check in preflight.json; [Tests.preflight] sets its limit or turns it off"}
}

var preflight = map[string]Ending{
	"ports": {"port-in-use",
		"find the process that holds the port on that node (ss -ltnp), such as a server left by an earlier job"},
	"gpus": {"gpu-not-visible",
		"the node has fewer GPUs than planned: check gpus_per_node and --gres, then ask the admin about the node"},
	"gpu-memory": {"gpu-memory-busy",
		"another process holds memory of the GPU: end the named process, or ask the admin to clean the node; gpu_memory_gib in [Tests.preflight] sets how much may be in use"},
	"gpu-processes": {"gpu-busy",
		"another process computes on the GPU: ask its owner to stop it, or request the whole node (exclusive = true)"},
	"gpus-alike": {"nodes-differ",
		"GPUs or drivers differ between the nodes: choose equal nodes with constraint or nodes"},
	"shm":           {"shm-full", "remove files from /dev/shm on that node, or ask for a larger /dev/shm"},
	"shm-leftovers": {"shm-leftovers", "remove these files from /dev/shm on that node: they can make a server hang"},
	"disk":          {"no-space", "free space, or set output_path to another file system"},
	"mounts": {"file-missing",
		"a path that is mounted into containers is missing on that node: correct the mount, or ask for the file system to be mounted there"},
	"tmp": {"no-space",
		"clean the temporary folder of that node, or set TMPDIR in global_env_vars to another folder"},
	"memory": {"host-memory-short", "raise --mem, or find the processes that use the node's memory"},
	"clock": {"clock-skew",
		"the clock of the node differs, so times in logs cannot be compared: tell the admin"},
	"limits": {"limits-low",
		"raise the limits in the prologue, or ask for higher limits of slurmd; for memlock, add --propagate=NONE to extra_srun_args"},
	"processes": {"leftover-processes",
		"processes of ended jobs still run: end them, or ask the admin to clean the node"},
}
