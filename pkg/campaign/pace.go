package campaign

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/sim/knobs"
)

// What a rehearsal costs in real time whatever the speed, measured on two cores.
const (
	runCost    = 1500 * time.Millisecond // start of the job, readiness, end
	clientCost = 400 * time.Millisecond  // start of a client, what it writes
	tokenCost  = 20 * time.Microsecond   // of the machine, for one streamed token
	requestMin = 1500 * time.Microsecond // of one request, however fast its tokens are due
)

// Choice of the speed.
const (
	aboutMinute = time.Minute
	leastLoads  = 15 * time.Second // what simulated time may take where the real costs alone take a minute
	highSpeed   = 100              // chosen at most: faster, only the machine's own time is left
)

// ReadyLimit is how long a role of a rehearsal may take to become ready, beyond its
// simulated start.
const ReadyLimit = time.Minute

// cost is how long a run takes: simulated time, which a speed divides, and real time.
type cost struct{ simulated, real time.Duration }

func (c cost) at(speed int) time.Duration {
	return c.simulated/time.Duration(speed) + c.real
}

func (c cost) plus(d cost) cost { return cost{c.simulated + d.simulated, c.real + d.real} }

// chosenSpeed is the lowest speed at which all takes about a minute.
func chosenSpeed(all cost) int {
	if all.at(1) <= aboutMinute {
		return 1
	}
	budget := max(aboutMinute-all.real, leastLoads)
	return int(min(max((all.simulated+budget-1)/budget, 1), highSpeed))
}

// knobs are the variables that the engines of a run see: the test's over the shell's.
func (c *Client) knobs(p *plan.Plan) (names []string, env func(string) string) {
	byName := map[string]string{}
	for _, kv := range c.Environ {
		if name, value, _ := strings.Cut(kv, "="); strings.HasPrefix(name, knobs.KnobPrefix) {
			byName[name] = value
		}
	}
	for _, v := range p.Env {
		if text, ok := v.Value.Literal(); ok && strings.HasPrefix(v.Name, knobs.KnobPrefix) {
			byName[v.Name] = text
		}
	}
	for name := range byName {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, func(name string) string { return byName[name] }
}

// checkKnobs refuses settings of the simulated engine that are wrong, or that no
// process of the scenario obeys. A fault of the shell is for some of its runs.
func (c *Client) checkKnobs(p *Planned) error {
	var all []string
	for i := range p.Runs {
		all = append(all, engines(p.Runs[i].Plan)...)
	}
	for i := range p.Runs {
		pl := p.Runs[i].Plan
		roles := all
		own := slices.ContainsFunc(pl.Env, func(v plan.Var) bool { return v.Name == knobs.FaultsVar })
		if own {
			roles = engines(pl)
		}
		slices.Sort(roles)
		roles = slices.Compact(roles)
		check := func(of *plan.Plan) error {
			names, env := c.knobs(of)
			return knobs.CheckKnobs(names, func(name string) string {
				if value := env(name); value != "" || own || name != knobs.GPUsVar {
					return value
				}
				return c.gpus(p)
			}, roles)
		}
		err := check(pl)
		if err == nil {
			continue
		}
		if shell := check(&plan.Plan{}); shell == nil || shell.Error() != err.Error() {
			err = fmt.Errorf("test %s: %w", pl.Test, err)
		}
		return as(Usage, err)
	}
	return nil
}

// gpus is how many GPUs some run of the scenario simulates, "" if none does.
func (c *Client) gpus(p *Planned) string {
	for i := range p.Runs {
		if _, env := c.knobs(p.Runs[i].Plan); env(knobs.GPUsVar) != "" {
			return env(knobs.GPUsVar)
		}
	}
	return ""
}

// engines are the roles of a plan that are inference engines.
func engines(p *plan.Plan) (names []string) {
	for i := range p.Roles {
		if p.Roles[i].Engine {
			names = append(names, p.Roles[i].Name)
		}
	}
	return names
}

// startup is how long the engines of a run take to start, at speed 1.
func (c *Client) startup(p *plan.Plan) time.Duration {
	_, env := c.knobs(p)
	pace, _ := knobs.PaceOf(env) // was checked when it was planned
	return pace.Startup
}

// estimate is how long a run takes.
func (c *Client) estimate(p *plan.Plan) (cost, error) {
	all := cost{real: runCost}
	for _, h := range slices.Concat(p.PreTest, p.PostTest) {
		hook, err := c.estimate(h.Plan)
		if err != nil {
			return all, err
		}
		all = all.plus(cost{hook.simulated, hook.real - runCost})
	}
	_, env := c.knobs(p)
	pace, err := knobs.PaceOf(env)
	if err != nil {
		return all, err
	}
	if len(p.Roles) > 0 {
		all.simulated += pace.Startup
	}
	if knobs.NeverReady(env(knobs.FaultsVar), engines(p)) {
		all.real += ReadyLimit
		return all, nil
	}
	for i := range p.Loads {
		all = all.plus(ofLoad(p, &p.Loads[i], pace))
	}
	return all, nil
}

// ofLoad is how long the clients of a load take.
func ofLoad(p *plan.Plan, l *plan.Load, pace knobs.Pace) (all cost) {
	for i := range l.Clients {
		step := &l.Clients[i]
		all.real += clientCost
		switch n := questions(step); {
		case word(step, 0) == "sleep":
			seconds, _ := strconv.Atoi(word(step, 1)) // 0: another form of it
			all.real += time.Duration(seconds) * time.Second
		case n > 0:
			const tokens = 18 // of an answer
			all = all.plus(requests(p, n, 0, tokens, pace))
		case l.Client != "":
			x := l.Expect
			n := x.NumPrompts + x.Warmups
			out := cmp.Or(x.OutputTokens, option(step, "--prompt-output-tokens-mean", "--output-tokens-mean", "--osl"),
				128) // the clients' own default
			took := requests(p, n, x.Concurrency, out, pace)
			if x.RequestRate > 0 {
				arrivals := time.Duration(float64(n) / x.RequestRate * float64(time.Second))
				took.simulated = max(took.simulated, arrivals)
			}
			all = all.plus(took)
		}
	}
	return all
}

// requests is how long n requests take, so many at a time.
func requests(p *plan.Plan, n, atOnce, tokens int, pace knobs.Pace) cost {
	if atOnce == 0 || atOnce > n {
		atOnce = n
	}
	if seats := seats(p); seats > 0 {
		atOnce = min(atOnce, seats)
	}
	if n == 0 {
		return cost{}
	}
	rounds := time.Duration((n + atOnce - 1) / atOnce)
	one := pace.TTFT + time.Duration(tokens-1)*pace.ITL
	if slices.ContainsFunc(p.Roles, func(r plan.Role) bool { return r.Engine && r.KindName() == "prefill" }) {
		one += pace.ITL // decode's first token, behind prefill's
	}
	return cost{rounds * one, max(time.Duration(n*tokens)*tokenCost, rounds*requestMin)}
}

// seats is how many requests all engines that decode take at once; 0: no limit.
func seats(p *plan.Plan) (n int) {
	for i := range p.Roles {
		r := &p.Roles[i]
		if !r.Engine || r.KindName() == "prefill" {
			continue
		}
		own := option(&r.Step, "--max-num-seqs", "--max-running-requests")
		if own == 0 {
			return 0
		}
		n += own
	}
	return n
}

// questions is how many an evaluation asks; 0 for another step.
func questions(s *plan.Step) int { return option(s, "--num-questions", "--num-examples") }

// option is the number behind one of the options of a command; 0 if there is none.
func option(s *plan.Step, names ...string) int {
	for i := range s.Argv {
		name, value, same := strings.Cut(word(s, i), "=")
		if !same {
			value = word(s, i+1)
		}
		if n, err := strconv.Atoi(value); err == nil && slices.Contains(names, name) {
			return n
		}
	}
	return 0
}

// word is a word of a command, "" if its text is not known yet.
func word(s *plan.Step, i int) string {
	if i >= len(s.Argv) {
		return ""
	}
	text, _ := s.Argv[i].Literal()
	return text
}

// about is a duration as an estimate.
func about(d time.Duration) string {
	if d < 90*time.Second {
		return fmt.Sprintf("about %.0f s", max(1, d.Seconds()))
	}
	return fmt.Sprintf("about %s", quantity.Count(int(d.Round(time.Minute).Minutes()), "minute"))
}
