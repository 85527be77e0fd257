package failure

import "maps"

// Preflight are the causes of a job that ended before its servers started, by the
// check that ended it: what a node looked like, not what a log says.
func Preflight() map[string]Ending { return maps.Clone(preflight) }

// OfPreflight is the cause that a failed check stands for.
func OfPreflight(check string) Ending {
	if e, ok := preflight[check]; ok {
		return e
	}
	return Ending{"node-unfit", "look at the check in preflight.json; [Tests.preflight] says how much of it is enough, or turns it off"}
}

var preflight = map[string]Ending{
	"ports":         {"port-in-use", "find the holder on that node (ss -ltnp): a server that an earlier job left, or somebody else's"},
	"gpus":          {"gpu-not-visible", "fewer GPUs than planned: look at gpus_per_node and --gres, then ask the admin about the node"},
	"gpu-memory":    {"gpu-memory-busy", "somebody holds memory of the GPU: end the process that is named, or ask the admin to clean the node; gpu_memory_gib in [Tests.preflight] says how much may be in use"},
	"gpu-processes": {"gpu-busy", "another process computes on the GPU: ask its owner, or for the node alone (exclusive = true)"},
	"gpus-alike":    {"nodes-differ", "the nodes have other GPUs or drivers: choose alike ones with constraint or nodes"},
	"shm":           {"shm-full", "remove what lies in /dev/shm on that node, or have it mounted larger"},
	"shm-leftovers": {"shm-leftovers", "remove these files of /dev/shm on that node: a server that finds them may hang"},
	"disk":          {"no-space", "clean up, or set output_path to another file system"},
	"mounts":        {"file-missing", "a path that the containers are given is not on that node: correct the mount, or have the file system mounted there"},
	"tmp":           {"no-space", "clean the temporary folder of that node, or set TMPDIR to another in global_env_vars"},
	"memory":        {"host-memory-short", "raise --mem, or find who uses the node's memory"},
	"clock":         {"clock-skew", "the clock of the node differs: tell the admin; times of logs cannot be compared"},
	"limits":        {"limits-low", "raise the limits in the prologue, or have them raised for slurmd; memlock: --propagate=NONE in extra_srun_args"},
	"processes":     {"leftover-processes", "processes of jobs that are over still run: end them, or ask the admin to clean the node"},
}
