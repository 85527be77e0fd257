package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A fate is what is done to one run, once.
type fate string

const (
	spared        fate = "spared"
	cancelWaiting fate = "scancel as soon as it is submitted"
	cancelRunning fate = "scancel"
	cancelVerb    fate = "profllm slurm cancel"
	killRole      fate = "KILL of a role"
	killWatch     fate = "KILL of profllm job watch"
	killFinish    fate = "KILL of profllm job finish"
	killScript    fate = "KILL of the run's script"
	timeLimit     fate = "time limit"
	requeue       fate = "scontrol requeue"
	nodeDown      fate = "node down"
	nodeLost      fate = "node down, slurmd dead"
	slurmdDead    fate = "KILL of slurmd"
)

// fates are drawn from by kind; a time limit costs a minute and more.
var fates = map[string][]fate{
	"tests":    {cancelWaiting, cancelRunning, cancelVerb, killRole, killWatch, killFinish, killScript, timeLimit, requeue, nodeDown, nodeLost, slurmdDead},
	"array":    {cancelWaiting, cancelRunning, killRole, killWatch, killFinish, killScript, requeue, nodeDown, nodeLost, slurmdDead},
	"chain":    {cancelRunning, killRole, killWatch, killScript, requeue, nodeDown},
	"loads":    {cancelRunning, killRole, killWatch, requeue, nodeLost},
	"apart":    {cancelVerb, killRole, killWatch, requeue, nodeDown, slurmdDead},
	"sequence": {cancelRunning, killRole, killScript, requeue, nodeDown},
}

// chaosRun is one run and its fate.
type chaosRun struct {
	dir    string // below the scenario's
	fate   fate
	role   string        // that killRole ends
	after  time.Duration // from the client's begin
	outage time.Duration // of a node
}

// cronCall is a command that somebody gives meanwhile; killed says when KILL ends
// it, 0 for never.
type cronCall struct {
	verb          string
	pause, killed time.Duration
}

// execution is one scenario, and who looks after it.
type execution struct {
	name, kind     string
	runs           []chaosRun
	start          time.Duration
	submits        []time.Duration // when KILL ends the first submissions
	calls          []cronCall
	resume, failed bool // somebody resumes it to the end, with --failed
}

// outage is a daemon of the cluster that dies, and comes back.
type outage struct {
	daemon      string
	pause, lost time.Duration
}

// chaosPlan is everything that is drawn.
type chaosPlan struct {
	seed       uint64
	executions []execution
	outages    []outage
}

// drawChaos decides everything from the seed: the same seed draws the same.
func drawChaos(seed uint64, runs int) chaosPlan {
	r := rand.New(rand.NewPCG(seed, 0))
	between := func(from, to time.Duration) time.Duration { return (from + rand64(r, to-from)).Round(time.Millisecond) }
	p := chaosPlan{seed: seed}
	kinds := []string{"tests", "array", "chain", "apart", "sequence", "loads"}
	drawn := map[string]int{} // fates by kind: each comes before one comes again
	order := map[string][]int{}
	for _, kind := range kinds {
		order[kind] = r.Perm(len(fates[kind]))
	}
	next := func(kind string) fate {
		f := fates[kind][order[kind][drawn[kind]%len(order[kind])]]
		drawn[kind]++
		return f
	}
	for n := 0; n < runs; {
		e := execution{kind: kinds[len(p.executions)%len(kinds)]}
		e.name = fmt.Sprintf("e%d", len(p.executions))
		size := map[string]int{"tests": 5, "array": 7, "chain": 3, "apart": 2, "sequence": 3, "loads": 2}[e.kind]
		victim := r.IntN(size)
		for i := range size {
			c := chaosRun{dir: fmt.Sprintf("t%d/0", i), fate: spared, role: "serve",
				after: between(0, 1500*time.Millisecond), outage: between(2*time.Second, 12*time.Second)}
			if e.kind == "array" {
				c.dir = fmt.Sprintf("a/0/%d", i+1)
			}
			if e.kind == "apart" {
				c.role = []string{"prefill", "decode"}[r.IntN(2)]
			}
			many := e.kind == "tests" || e.kind == "array"
			if many && r.IntN(2) == 0 || !many && i == victim {
				c.fate = next(e.kind)
			}
			e.runs = append(e.runs, c)
		}
		n += size
		e.start = between(0, 20*time.Second)
		for range r.IntN(3) {
			e.submits = append(e.submits, between(5*time.Millisecond, 700*time.Millisecond))
		}
		e.resume = r.IntN(2) == 0
		e.failed = e.resume && r.IntN(2) == 0 && !e.has(timeLimit)
		verbs := []string{"status", "collect", "why"}
		if e.resume {
			verbs = append(verbs, "resume", "two resumes")
		}
		for range 8 {
			c := cronCall{verb: verbs[r.IntN(len(verbs))], pause: between(time.Second, 6*time.Second)}
			if r.IntN(2) == 0 {
				c.killed = between(5*time.Millisecond, 500*time.Millisecond)
			}
			e.calls = append(e.calls, c)
		}
		p.executions = append(p.executions, e)
	}
	for i := range 5 {
		p.outages = append(p.outages,
			outage{[]string{"slurmctld", "slurmdbd"}[i%2], between(6*time.Second, 14*time.Second),
				between(time.Second, 12*time.Second)})
	}
	return p
}

func rand64(r *rand.Rand, d time.Duration) time.Duration { return time.Duration(r.Int64N(int64(d))) }

func (e execution) has(f fate) bool {
	for _, c := range e.runs {
		if c.fate == f {
			return true
		}
	}
	return false
}

// String is what is printed of a plan.
func (p chaosPlan) String() string {
	var b strings.Builder
	runs := 0
	for _, e := range p.executions {
		runs += len(e.runs)
		fmt.Fprintf(&b, "%s %s at %s, submissions killed after %v, resumed: %v, with --failed: %v\n", e.name, e.kind,
			e.start, e.submits, e.resume, e.failed)
		for _, c := range e.runs {
			fmt.Fprintf(&b, "  %-6s %s", c.dir, c.fate)
			switch c.fate {
			case spared, cancelWaiting, timeLimit:
			case nodeDown, nodeLost, slurmdDead:
				fmt.Fprintf(&b, " for %s, %s after the client began", c.outage, c.after)
			case killRole:
				fmt.Fprintf(&b, ", %s, %s after the client began", c.role, c.after)
			default:
				fmt.Fprintf(&b, ", %s after the client began", c.after)
			}
			b.WriteString("\n")
		}
		for _, c := range e.calls {
			fmt.Fprintf(&b, "  after %s: %s", c.pause, c.verb)
			if c.killed > 0 {
				fmt.Fprintf(&b, ", killed after %s", c.killed)
			}
			b.WriteString("\n")
		}
	}
	for _, o := range p.outages {
		fmt.Fprintf(&b, "after %s: %s dead for %s\n", o.pause, o.daemon, o.lost)
	}
	return fmt.Sprintf("seed %d: %d runs in %d scenarios\n%s", p.seed, runs, len(p.executions), b.String())
}

// definition is the scenario's file.
func (e execution) definition() string {
	var b strings.Builder
	fmt.Fprintf(&b, "name = %q\n", e.name)
	if e.kind == "array" {
		points := quoted(len(e.runs), func(i int) string { return fmt.Sprintf("%q", fmt.Sprint(i)) })
		fmt.Fprintf(&b, "[[Tests]]\nid = \"a\"\ntest_template_name = \"vllm\"\ntime_limit = \"4m\"\n[Tests.extra_env_vars]\nPOINT = %s\n%s", points, benchArgs(500))
		return b.String()
	}
	for i, c := range e.runs {
		limit, prompts, nodes := "2m", 60, 1
		switch c.fate {
		case spared:
		case timeLimit:
			limit, prompts = "1m", 20000
		default:
			prompts = 700
		}
		if e.kind == "apart" {
			nodes = 2
		}
		fmt.Fprintf(&b, "[[Tests]]\nid = \"t%d\"\ntest_template_name = \"vllm\"\nnum_nodes = %d\ntime_limit = %q\n", i,
			nodes, limit)
		if e.kind == "chain" && i > 0 {
			fmt.Fprintf(&b, "dependencies = [{ type = \"start_post_comp\", id = \"t%d\" }]\n", i-1)
		}
		if e.kind == "apart" {
			b.WriteString("[Tests.cmd_args.prefill]\n")
		}
		b.WriteString(benchArgs(prompts))
		if e.kind == "loads" {
			b.WriteString("[[Tests.phases]]\nname = \"quiet\"\n[[Tests.phases]]\nname = \"busy\"\nbench_cmd_args = { max_concurrency = 8, seed = 2 }\n")
		}
	}
	return b.String()
}

// benchArgs is a load of 4 x 16 requests a second.
func benchArgs(prompts int) string {
	return fmt.Sprintf("[Tests.bench_cmd_args]\nnum_prompts = %d\nrandom_output_len = 20\nmax_concurrency = 4\n",
		prompts)
}

// The same seed draws the same, another something else, and every fate is drawn.
func TestChaosSchedule(t *testing.T) {
	t.Parallel()
	require.Equal(t, drawChaos(7, 60).String(), drawChaos(7, 60).String())
	require.NotEqual(t, drawChaos(7, 60).String(), drawChaos(8, 60).String())
	for seed := range uint64(20) {
		text, runs := drawChaos(seed, 60), 0
		for _, e := range text.executions {
			runs += len(e.runs)
		}
		require.GreaterOrEqual(t, runs, 60)
		for _, f := range []fate{spared, cancelRunning, killRole, requeue} {
			require.Contains(t, text.String(), string(f), "seed %d", seed)
		}
	}
}
