// Package sweep is design-space exploration: which lists of a test are searched,
// in what order their combinations are tried, what a result is worth, and the
// files in which that is written down. It follows CloudAI, whose definitions
// and trajectories it reads.
//
// It runs nothing and decides nothing about commands or nodes. It is pure: no
// clock, no files, no randomness that is not seeded by the definition.
//
//	s, err := sweep.Load(test, order, nil) // every complaint at once
//	points, err := s.Next(history, 1)    // none: the sweep is over
//	one, err := sweep.Apply(test, points[0])
//	… run it …
//	o, err := s.Observe(points[0], values, dir) // or s.Refuse(points[0])
//	history = append(history, o)
package sweep

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/profllm/profllm/pkg/source"
)

// A Sweep is what a test says about its exploration, checked.
type Sweep struct {
	Dimensions []Dimension // slowest first
	Env        []EnvParam  // drawn at every point
	Agent      string      // GridSearch, Random or TPE
	Steps      int         // points to try, refused ones included; 0 means no bound
	Metrics    []string    // what is observed, in this order
	Reward     string      // name of the reward function
	Seed       int64       // of the agent
	EnvSeed    int64       // of the draws; as in CloudAI it is 0 where Seed defaults to 42
	StartFirst bool        // the first point is the first of the grid, not a random one

	ConstraintFailure float64 // reward of a point that was refused
	MetricFailure     float64 // reward, and the value on paper, of a metric that is missing

	Warnings []string // what was accepted and may surprise, with positions

	propose Agent
}

// settings are the keys of a test that describe its exploration.
type settings struct {
	Agent   string       `toml:"agent"`
	Steps   *int         `toml:"agent_steps"`
	Metrics []string     `toml:"agent_metrics"`
	Reward  *string      `toml:"agent_reward_function"`
	Config  *agentConfig `toml:"agent_config"`
}

type agentConfig struct {
	Seed    *int64 `toml:"random_seed"`
	Start   string `toml:"start_action"`
	Rewards struct {
		ConstraintFailure *float64 `toml:"constraint_failure"`
		MetricFailure     *float64 `toml:"metric_failure"`
	} `toml:"rewards"`
}

// Load reads the exploration of a merged test. order and whole are those of dimensions. A
// test without lists gives a Sweep that is not Active; its agent keys are
// checked all the same. Every complaint is returned at once.
func Load(t *source.Table, order func(table string) []string, whole func(keys []string) bool) (*Sweep, error) {
	var c source.Complaints
	s := &Sweep{Env: envParams(t, &c), Seed: 42, ConstraintFailure: -1, MetricFailure: -1}
	env := map[string]bool{}
	for _, p := range s.Env {
		env[p.Name] = true
	}
	dims, values := dimensions(t, order, whole, env, &c)
	s.Dimensions = dims
	own := source.NewTable(t.Pos)
	for _, k := range source.Fields(settings{}) {
		if v := t.Get(k); v != nil {
			own.Set(k, v)
		}
	}
	var set settings
	c.Add(source.Decode(own, &set))
	s.config(t, set, &c)
	s.metrics(t, set, &c)
	s.agent(t, set, &c)
	if err := c.Err(); err != nil {
		return nil, err
	}
	s.idleExclusions(t)
	for _, v := range values {
		s.warn(v.Pos, "%s is a list within JSON, so part of one value, where CloudAI would sweep it; to sweep it, write a list of "+
			"JSON texts in quotes", v.Path)
	}
	return s, nil
}

// idleExclusions warns of excluded paths that are not in the test.
func (s *Sweep) idleExclusions(t *source.Table) {
	v := t.Get("dse_excluded_args")
	if v == nil {
		return
	}
	list, ok := v.Any.([]*source.Value)
	if !ok {
		list = []*source.Value{v}
	}
	for _, e := range list {
		text, _ := e.Text()
		if keys, err := splitPath(strings.TrimSpace(text)); err == nil && lookup(t, keys) == nil {
			s.warn(e.Pos, "dse_excluded_args: %q is not in this test, so it excludes nothing", text)
		}
	}
}

// Active reports whether there is anything to explore.
func (s *Sweep) Active() bool { return len(s.Dimensions)+len(s.Env) > 0 }

func (s *Sweep) warn(pos source.Pos, format string, args ...any) {
	s.Warnings = append(s.Warnings, source.Errorf(pos, format, args...).Error())
}

func (s *Sweep) config(t *source.Table, set settings, c *source.Complaints) {
	cfg := set.Config
	if cfg == nil {
		return
	}
	at := t.Table("agent_config")
	if cfg.Seed != nil {
		s.Seed, s.EnvSeed = *cfg.Seed, *cfg.Seed
	}
	switch cfg.Start {
	case "", "random":
	case "first":
		s.StartFirst = true
	default:
		c.Add(source.Errorf(at.PosOf("start_action"), "agent_config: unknown start_action %q", cfg.Start).
			Hintf("%s", source.Suggest(cfg.Start, []string{"random", "first"})))
	}
	rewards := at.Table("rewards")
	for _, r := range []struct {
		key  string
		from *float64
		into *float64
	}{
		{"constraint_failure", cfg.Rewards.ConstraintFailure, &s.ConstraintFailure},
		{"metric_failure", cfg.Rewards.MetricFailure, &s.MetricFailure},
	} {
		switch {
		case r.from == nil:
		case math.IsNaN(*r.from) || math.IsInf(*r.from, 0):
			c.Addf(rewards.PosOf(r.key), "agent_config.rewards.%s must be a finite number", r.key)
		default:
			*r.into = *r.from
		}
	}
}

func (s *Sweep) metrics(t *source.Table, set settings, c *source.Complaints) {
	s.Metrics = []string{"default"}
	list, isList := listOf(t.Get("agent_metrics"))
	switch {
	case isList && len(list) == 0:
		c.Add(source.Errorf(t.PosOf("agent_metrics"), "agent_metrics names no metric: there is nothing to observe").
			Hintf(`write ["throughput"]`))
		return
	case isList:
		s.Metrics = set.Metrics
	}
	for i, m := range s.Metrics {
		pos := t.PosOf("agent_metrics")
		if isList {
			pos = list[i].Pos
			if _, ok := list[i].Text(); !ok {
				continue // that was the complaint
			}
		}
		_, known := HigherIsBetter(m)
		switch {
		case !known:
			c.Add(source.Errorf(pos, "unknown metric %q", m).Hintf("%s", source.Suggest(m, Metrics())))
		case slices.Contains(s.Metrics[:i], m):
			c.Addf(pos, "metric %q occurs twice", m)
		case m == "accuracy" && !t.Has("semantic_eval_cmd_args"):
			c.Add(source.Errorf(pos, "metric %q needs an evaluation, and this test has none", m).
				Hintf("add [semantic_eval_cmd_args]"))
		}
	}
	s.reward(t, set, c)
}

func (s *Sweep) reward(t *source.Table, set settings, c *source.Complaints) {
	first := s.Metrics[0]
	higher, known := HigherIsBetter(first)
	if set.Reward == nil {
		s.Reward = RewardInverse
		if higher {
			s.Reward = RewardIdentity
		}
		return
	}
	s.Reward = *set.Reward
	pos := t.PosOf("agent_reward_function")
	if !slices.Contains(Rewards(), s.Reward) {
		c.Add(source.Errorf(pos, "unknown agent_reward_function %q", s.Reward).
			Hintf("%s", source.Suggest(s.Reward, Rewards())))
		return
	}
	if err := checkReward(s.Reward, s.Metrics); err != nil {
		c.Add(source.Errorf(pos, "%v", err).
			Hintf(`for example agent_metrics = ["mean_ttft_ms", "mean_itl_ms", "throughput"]`))
		return
	}
	word, mend := "lowest", RewardIdentity
	if s.Reward == RewardIdentity {
		word, mend = "highest", RewardInverse
	}
	if known && isSimple(s.Reward) && higher != (s.Reward == RewardIdentity) {
		s.warn(pos, "agent_reward_function %q rewards the %s %s: the best point would be the worst; write %q, or leave the key out",
			s.Reward, word, first, mend)
	}
}

func (s *Sweep) agent(t *source.Table, set settings, c *source.Complaints) {
	pos := t.PosOf("agent")
	s.Agent = set.Agent
	switch set.Agent {
	case "":
		s.Agent = GridSearch
	case "bo", "bayesian_optimization":
		s.Agent = TPE
		s.warn(pos, "agent %q means the tree-structured Parzen estimator (%s) in profllm", set.Agent, TPE)
	case GridSearch, Random, TPE:
	default:
		c.Add(source.Errorf(pos, "unknown agent %q", set.Agent).Hintf("%s", source.Suggest(set.Agent, Agents())))
		return
	}
	if set.Steps != nil && *set.Steps < 1 {
		c.Addf(t.PosOf("agent_steps"), "agent_steps is %d, must be 1 or more", *set.Steps)
		return
	}
	if s.Agent == GridSearch {
		s.gridOnly(t, set, c)
	} else if set.Steps != nil {
		s.Steps = *set.Steps
	} else if s.Active() {
		c.Add(source.Errorf(pos, "agent %q needs agent_steps: how many points to try", set.Agent).
			Hintf("for example agent_steps = 20"))
	}
	if c.Err() != nil {
		return
	}
	var err error
	if s.propose, err = newAgent(s); err != nil {
		c.Add(err)
	}
}

// gridOnly says what a grid search does not heed.
func (s *Sweep) gridOnly(t *source.Table, set settings, c *source.Complaints) {
	if len(s.Env) > 0 {
		c.Add(source.Errorf(t.PosOf("env_params"),
			"env_params need an agent that supports a changing environment; %s does not", GridSearch).
			Hintf("set agent = %q or %q and agent_steps", Random, TPE))
	}
	if n, err := Size(s.Dimensions); set.Steps != nil && err == nil && *set.Steps != n && s.Active() {
		s.warn(t.PosOf("agent_steps"), "agent_steps has no effect: %s tries every point (%d)", GridSearch, n)
	}
	if set.Config != nil && set.Config.Start != "" {
		s.warn(t.Table("agent_config").PosOf("start_action"),
			"start_action has no effect: %s starts with the first point", GridSearch)
	}
}

// Next returns up to n points to try after history, none when the sweep is
// over. history holds every point handed out, steps increasing; those that
// still run are Pending. The answer depends on nothing else, so a sweep can be
// taken up again from its trajectory. A point in history that is not of this
// sweep is an error.
func (s *Sweep) Next(history []Observed, n int) ([]Point, error) {
	step := 0
	if len(history) > 0 {
		step = history[len(history)-1].Step
	}
	if s.Steps > 0 {
		n = min(n, s.Steps-step)
	}
	if n <= 0 {
		return nil, nil
	}
	proposed, err := s.propose(history, n)
	if err != nil {
		return nil, err
	}
	points := make([]Point, len(proposed))
	for i, values := range proposed {
		step++
		points[i] = Point{Step: step, Values: values}
		for _, e := range s.Env {
			points[i].Env = append(points[i].Env, Assignment{e.Name, e.Draw(s.EnvSeed, step)})
		}
	}
	return points, nil
}

// Observe makes the record of a point that ran in dir. values are those of
// s.Metrics, in that order; NaN stands for one that is missing, and then, or if
// a value is not finite, the point has failed.
func (s *Sweep) Observe(p Point, values []float64, dir string) (Observed, error) {
	if len(values) != len(s.Metrics) {
		return Observed{}, fmt.Errorf("step %d: %d values for %d metrics", p.Step, len(values), len(s.Metrics))
	}
	o := Observed{Point: p, Observation: slices.Clone(values), Verdict: Passed, Dir: dir}
	for i, v := range o.Observation {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			o.Observation[i], o.Verdict = math.NaN(), Failed
		}
	}
	r, err := Reward(s.Reward, s.Metrics, o.Observation)
	if err != nil {
		return Observed{}, err
	}
	if math.IsNaN(r) || math.IsInf(r, 0) {
		r, o.Verdict = s.MetricFailure, Failed
	}
	o.Reward = r
	return o, nil
}

// Refuse makes the record of a point that cannot run: it breaks a constraint,
// or the definition is not valid with it. Its number is used up.
func (s *Sweep) Refuse(p Point) Observed {
	o := Observed{Point: p, Reward: s.ConstraintFailure, Verdict: Refused}
	for range s.Metrics {
		o.Observation = append(o.Observation, math.NaN())
	}
	return o
}

// Layout is what the columns of this sweep's trajectory are called.
func (s *Sweep) Layout() Layout {
	l := Layout{Metrics: s.Metrics, MetricFailure: s.MetricFailure}
	for _, d := range s.Dimensions {
		l.Dimensions = append(l.Dimensions, d.Path)
	}
	for _, e := range s.Env {
		l.Env = append(l.Env, e.Name)
	}
	return l
}
