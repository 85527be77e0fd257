package knobs

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/source"
)

// KnobPrefix begins the names of all knobs.
const KnobPrefix = "PROFLLM_SIM_"

// FaultsVar is the knob that plants faults.
const FaultsVar = "PROFLLM_SIM_FAULTS"

// GPUsVar is the knob without which no GPU is sampled.
const GPUsVar = "PROFLLM_SIM_GPUS"

// MachineVar is the variable that tells the simulated GPUs of one test from those of another: it
// is a part of their UUIDs.
const MachineVar = "PROFLLM_SIM_MACHINE"

// SGLangVar is the knob that names a Python with SGLang's real client and router.
const SGLangVar = "PROFLLM_SIM_SGLANG"

// A Knob is a variable that changes the simulation.
type Knob struct{ Name, Default, Meaning string }

// Knobs lists the variables that a person sets, for all simulated programs.
var Knobs = []Knob{
	{"PROFLLM_SIM_TTFT", "50ms", "time from admission to the first token"},
	{"PROFLLM_SIM_ITL", "20ms", "time between two tokens of one request"},
	{"PROFLLM_SIM_JITTER", "0", "share (0 to 1) of TTFT and ITL by which a token may be early or late"},
	{seedVar, "1", "changes answers, jitter and which requests fail"},
	{"PROFLLM_SIM_STARTUP", "500ms", "time from the start of the server until its port is open"},
	{"PROFLLM_SIM_ACCURACY", "0.75", "share (0 to 1) of arithmetic questions that are answered right"},
	{"PROFLLM_SIM_TOKENS", "words", "`words`: a token is up to three letters; `bytes`: a token is a byte"},
	{"PROFLLM_SIM_FLAGS", "", "whose flags `vllm serve` has: a release of vLLM such as `0.10.2` (default: that of the test, else 0.32.0), with further options behind commas; or `any`"},
	{"PROFLLM_SIM_RAY", "", "path of a real `ray` to run instead of the simulated one"},
	{SGLangVar, "", "path of a `python` that has SGLang's client and router, which then run instead of the simulated ones"},
	{GPUsVar, "", "number of simulated GPUs of each node; without it, no GPU is sampled"},
	{MachineVar, "", "is added to the UUIDs of simulated GPUs, so that those of two machines differ"},
	{FaultsVar, "", "faults to plant, see below"},
}

// seedVar is the knob that draws another sample under the same conditions.
const seedVar = "PROFLLM_SIM_SEED"

// Conditions are the knobs that are set to something else than their default, and under which
// runs are not alike if they differ. Runs of other seeds are alike.
func Conditions(env func(string) string) map[string]string {
	set := map[string]string{}
	for _, k := range Knobs {
		if v := env(k.Name); v != "" && v != k.Default && k.Name != seedVar {
			set[k.Name] = v
		}
	}
	return set
}

// Parties are what a fault acts on.
const (
	OnServer = "server"
	OnClient = "client"
	OnGPU    = "gpu"
)

// A Fault is something that the simulation does wrong when told to.
type Fault struct {
	Name    string
	Value   string // an example; "" if the fault takes none
	Meaning string
	On      []string // see OnServer
	Timed   bool     // the value is a time, so that the fault depends on the speed
}

var (
	onServer = []string{OnServer}
	onClient = []string{OnClient}
	onBoth   = []string{OnServer, OnClient}
	onGPU    = []string{OnGPU}
)

// Faults lists them all.
var Faults = []Fault{
	{"die-at-start", "", "exit before the port opens, after a traceback whose root cause is a lack of cache memory",
		onBoth, false},
	{"die-after", "2s", "exit this long after becoming ready (client: after starting)", onBoth, true},
	{"die-on-request", "20", "exit on the 20th generation request, without an answer", onServer, false},
	{"exit", "3", "exit code of the three above, of which the role needs one; default 1", onBoth, false},
	{"never-ready", "", "stay alive and never open the port", onServer, false},
	{"absent", "1", "of a server over several nodes without Ray: rank 1 stays alive and never joins the others", onServer, false},
	{"hang", "", "become ready, accept generation requests and never answer (client: send nothing)", onBoth, false},
	{"fail", "0.1", "share of generation requests that get status 500", onServer, false},
	{"bundle", "4", "tokens in each streamed chunk", onServer, false},
	{"zero-tokens", "", "answer at once with status 200 and no token", onServer, false},
	{"miscount", "1.1", "factor by which the engine counts more output tokens than it sends", onServer, false},
	{"abort", "0.2", "share of requests that the engine counts as aborted although it answers them", onServer, false},
	{"preempt", "0.05", "share of requests for which a preemption is counted", onServer, false},
	{"corrupt", "0.05", "share of requests that are counted as corrupted; without this fault the counter is absent, as in vLLM", onServer, false},
	{"warm", "0.2", "share of every prompt that is found in the prefix cache", onServer, false},
	{"cold", "8", "the first 8 requests wait ten times as long for their first token", onServer, false},
	{"slowing", "2ms", "each request waits this much longer for its first token than the one before", onServer, true},
	{"stall", "10s@5s", "no token goes out for 10 s, from 5 s after the first request on", onServer, true},
	{"burst", "8", "tokens go out eight chunks at a time, each token in its own chunk", onServer, false},
	{"freeze", "5s@2s", "the client stands still for 5 s, from 2 s after it first reads the clock", onClient, true},
	{"step", "-200ms@2s", "the client's clock is set by -200 ms, 2 s after the client first reads it", onClient, true},
	{"pace", "0.9", "share of the requested rate that the client keeps", onClient, false},
	{"restart-on-request", "20",
		"counters start from 0 again at the 20th generation request, as after a restart of the server", onServer,
		false},
	{"root", "MODEL", "report this model as the one that was loaded, under the planned name", onServer, false},
	{"version", "1.2", "report this engine version", onServer, false},
	{"drop", "0.1", "share of generation requests that are read, held for the TTFT and dropped: the connection is closed", onServer, false},
	{"cut", "0.1", "share of streams whose connection is closed in the middle", onServer, false},
	{"error-event", "0.1", "share of streams that end with an error event inside status 200", onServer, false},
	{"error-usage", "0.1", "the same, with choices and usage beside the error", onServer, false},
	{"garbage", "0.1", "share of streams in which one event is plain text", onServer, false},
	{"html", "0.1", "share of generation requests that get a web page with status 200", onServer, false},
	{"short", "0.1", "share of answers that end after a quarter of their tokens", onServer, false},
	{"usage", "0.5", "factor by which the usage names more completion tokens than were sent", onServer, false},
	{"finish", "abort", "finish reason of every answer", onServer, false},
	{"no-usage", "", "no answer has a usage", onServer, false},
	{"no-done", "", "streams end without [DONE]", onServer, false},
	{"no-params", "", "answers of prefill carry no kv_transfer_params", onServer, false},
	{"recompute", "0.1", "share of KV transfers that fail, so that decode computes the prompt (kv_load_failure_policy=recompute)", onServer, false},
	{"use", "3/0.5", "GPU 3 is in use 0.5 % of the time", onGPU, false},
	{"clock", "3/1700", "the SM clock of GPU 3 is 1700 MHz", onGPU, false},
	{"heat", "3/0.1", "heat slows GPU 3 down in a tenth of its samples", onGPU, false},
	{"skip", "0.1", "a tenth of the samples of the GPUs is missing", onGPU, false},
	{"driver", "HOST/1.2", "the driver of that node has this version", onGPU, false},
}

// faultNames are the names of all faults.
var faultNames = func() []string {
	names := make([]string, len(Faults))
	for i, f := range Faults {
		names[i] = f.Name
	}
	return names
}()

// CheckKnobs refuses what the simulated programs of one run would refuse, and what none
// of them would obey: unknown knobs, unknown faults, roles that the run does not have.
// roles are those of the run's engines; names are those of variables that are set.
func CheckKnobs(names []string, env func(string) string, roles []string) error {
	var known []string
	for _, k := range Knobs {
		known = append(known, k.Name)
	}
	for _, name := range names {
		switch {
		case name == speedVar:
			return fmt.Errorf("%s is set by profllm for the jobs of a rehearsal\n\thint: profllm rehearse --speed N",
				name)
		case strings.HasPrefix(name, KnobPrefix) && !slices.Contains(known, name):
			return fmt.Errorf("%s is not a setting of the simulated engine\n\thint: %s", name,
				source.Suggest(name, known))
		}
	}
	_, err := Read(env)
	if err != nil {
		return err
	}
	return eachFault(env(FaultsVar), func(role string, f Fault) error {
		if err := checkRole(role, f, roles); err != nil {
			return err
		}
		return checkObject(role, f, env, roles)
	})
}

// transferFaults act on KV transfers, each in the role that it is of.
var transferFaults = map[string]string{"no-params": prefill, "recompute": decode}

// clientFaults change what only a client sees: later tokens, streams, usage, finish reasons. The
// proxy asks prefill for one token in one piece, and reads nothing of the answer but its
// kv_transfer_params.
var clientFaults = []string{"bundle", "burst", "cut", "error-event", "error-usage", "garbage", "short", "usage",
	"finish", "no-usage", "no-done"}

// The kinds of roles of a test with KV transfers.
const (
	prefill = "prefill"
	decode  = "decode"
)

// isKind reports whether a role is of that kind: prefill, prefill_0.
func isKind(role, kind string) bool { return role == kind || strings.HasPrefix(role, kind+"_") }

// checkObject refuses a fault of something that no run has: GPUs that are not simulated, KV
// transfers without prefill, and a fault that does nothing in its role.
func checkObject(role string, f Fault, env func(string) string, roles []string) error {
	kind, ofTransfer := transferFaults[f.Name]
	switch {
	case role == OnGPU && env(GPUsVar) == "":
		return fmt.Errorf("%s: %s: no GPU is simulated, so the fault %s has no effect\n\thint: set %s too, such as %s=8", FaultsVar, role, f.Name, GPUsVar, GPUsVar)
	case ofTransfer && !slices.ContainsFunc(roles, func(role string) bool { return isKind(role, prefill) }):
		return fmt.Errorf("%s: %s: the fault %s acts on KV transfers, and no test has prefill and decode", FaultsVar,
			role, f.Name)
	case ofTransfer && role != "*" && !isKind(role, kind):
		return fmt.Errorf("%s: %s: the fault %s acts on %s only", FaultsVar, role, f.Name, kind)
	case isKind(role, prefill) && slices.Contains(clientFaults, f.Name):
		return fmt.Errorf("%s: %s: the fault %s has no effect: the client gets its answers from decode\n"+
			"\thint: plant it in decode", FaultsVar, role, f.Name)
	}
	return nil
}

// checkRole refuses a fault that nobody in a run would obey.
func checkRole(role string, f Fault, roles []string) error {
	on := OnServer
	switch {
	case role == OnClient || role == OnGPU:
		on = role
	case role != "*" && !slices.Contains(roles, role):
		known := append([]string{"*", OnClient, OnGPU}, roles...)
		return fmt.Errorf("%s: no engine plays the role %q\n\thint: %s", FaultsVar, role, source.Suggest(role, known))
	}
	if !slices.Contains(f.On, on) {
		return fmt.Errorf("%s: %s: the fault %s acts on a %s only", FaultsVar, role, f.Name,
			strings.Join(f.On, " or a "))
	}
	return nil
}

// eachFault calls a function for each fault of a well-formed text, with its role.
func eachFault(text string, call func(role string, f Fault) error) error {
	var errs []error
	for group := range strings.SplitSeq(text, ";") {
		role, list, _ := strings.Cut(strings.TrimSpace(group), ":")
		for item := range strings.SplitSeq(list, ",") {
			name, _, _ := strings.Cut(strings.TrimSpace(item), "=")
			i := slices.Index(faultNames, name)
			if i < 0 {
				continue
			}
			err := call(role, Faults[i])
			if err != nil && !slices.ContainsFunc(errs, func(e error) bool { return e.Error() == err.Error() }) {
				errs = append(errs, err) // of a role that nobody plays: once for all of its faults
			}
		}
	}
	return errors.Join(errs...)
}

// TimedFaults names the faults of a well-formed text whose values are times.
func TimedFaults(text string) (names []string) {
	_ = eachFault(text, func(_ string, f Fault) error { // returns no error
		if f.Timed && !slices.Contains(names, f.Name) {
			names = append(names, f.Name)
		}
		return nil
	})
	return names
}

// NeverReady reports whether a text plants never-ready in one of the roles.
func NeverReady(text string, roles []string) (found bool) {
	_ = eachFault(text, func(role string, f Fault) error { // returns no error
		found = found || (f.Name == "never-ready" || f.Name == "absent") && (role == "*" || slices.Contains(roles, role))
		return nil
	})
	return found
}
