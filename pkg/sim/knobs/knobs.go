// Package knobs has the settings of the simulation: what can be set by the environment, which
// faults can be planted, and what is refused.
package knobs

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/sim/program"
	"github.com/profllm/profllm/pkg/source"
)

// Settings are the settings of the simulation, from the environment; the package comment has
// the list.
type Settings struct {
	Timing   Timing
	Startup  time.Duration
	Accuracy float64 // 0-1
	Bytes    bool    // one token per byte
	NodeAddr string
	Planted  Planted
}

func Read(env func(string) string) (Settings, error) {
	k := Settings{NodeAddr: env("PROFLLM_NODE_ADDR")}
	var errs []error
	check := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	var err error
	k.Timing.TTFT, err = duration(env, "PROFLLM_SIM_TTFT", 50*time.Millisecond)
	check(err)
	k.Timing.ITL, err = duration(env, "PROFLLM_SIM_ITL", 20*time.Millisecond)
	check(err)
	k.Startup, err = duration(env, "PROFLLM_SIM_STARTUP", 500*time.Millisecond)
	check(err)
	k.Timing.Jitter, err = share(env, "PROFLLM_SIM_JITTER", 0)
	check(err)
	k.Accuracy, err = share(env, "PROFLLM_SIM_ACCURACY", 0.75)
	check(err)
	k.Timing.Seed = 1
	if s := env("PROFLLM_SIM_SEED"); s != "" {
		k.Timing.Seed, err = strconv.ParseUint(s, 10, 64)
		check(Named("PROFLLM_SIM_SEED", s, "a whole number", err))
	}
	switch s := env("PROFLLM_SIM_TOKENS"); s {
	case "", "words":
	case "bytes":
		k.Bytes = true
	default:
		check(Named("PROFLLM_SIM_TOKENS", s, "words or bytes", errors.New("unknown")))
	}
	k.Planted, err = ParseFaults(env("PROFLLM_SIM_FAULTS"), env("PROFLLM_ROLE"), true)
	check(err)
	n, err := Speed(env)
	check(err)
	k.faster(n)
	return k, errors.Join(errs...)
}

func duration(env func(string) string, name string, fallback time.Duration) (time.Duration, error) {
	s := env(name)
	if s == "" {
		return fallback, nil
	}
	d, err := time.ParseDuration(s)
	if err == nil && d < 0 {
		err = errors.New("negative")
	}
	return d, Named(name, s, "a duration such as 20ms", err)
}

func share(env func(string) string, name string, fallback float64) (float64, error) {
	s := env(name)
	if s == "" {
		return fallback, nil
	}
	x, err := parseShare(s)
	return x, Named(name, s, "a number from 0 to 1", err)
}

func parseShare(s string) (float64, error) {
	x, err := strconv.ParseFloat(s, 64)
	if err == nil && !(x >= 0 && x <= 1) {
		err = errors.New("out of range")
	}
	return x, err
}

func Named(name, value, want string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s=%q: want %s", name, value, want)
}

// Planted are the scripted failures of one process; the zero value but for exit and bundle is a
// healthy engine.
type Planted struct {
	DieAtStart   bool
	DieAfter     time.Duration // 0: never
	DieOnRequest int           // 0: never; counts from 1
	Restart      int           // on which request; 0: never
	Exit         int
	NeverReady   bool
	Absent       string // the rank that never joins, "" for none
	Hang         bool
	Fail         float64 // 0-1
	Bundle       int     // tokens per chunk, at least 1
	ZeroTokens   bool
	Miscount     float64       // factor of the counted output tokens, 1 if honest
	Abort        float64       // 0-1, in the engine's books alone
	Preempt      float64       // 0-1
	Corrupt      float64       // 0-1
	Warm         float64       // 0-1
	Cold         int           // requests
	Slowing      time.Duration // per request
	Stall        Moment        // no token goes out
	Burst        int           // chunks that go out together; 0: one
	freeze, step Moment        // of the client's clock
	pace         float64       // 0-1, of the client's rate; 0: all of it
	Root         string        // where /v1/models says that the model came from; empty: the truth
	Version      string        // what it says of its version; empty: the truth
	SMI          SMIFaults     // of the GPUs
	Answer       AnswerFaults
}

// ParseFaults reads the whole text, so that a mistake in any group is found in every process,
// and keeps the groups that apply to role; star says whether "*" does.
func ParseFaults(text, role string, star bool) (Planted, error) {
	mine := Planted{Exit: program.Failed, Bundle: 1, Miscount: 1}
	if text = strings.TrimSuffix(strings.TrimSpace(text), ";"); text == "" {
		return mine, nil
	}
	for group := range strings.SplitSeq(text, ";") {
		who, list, ok := strings.Cut(strings.TrimSpace(group), ":")
		if !ok || who == "" || strings.Contains(who, "=") {
			return mine, fmt.Errorf("PROFLLM_SIM_FAULTS: %q: want ROLE:FAULT or *:FAULT, separate several faults by commas%s", group, turned(group))
		}
		target := new(Planted)
		if who == role || who == "*" && star {
			target = &mine
		}
		for item := range strings.SplitSeq(list, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(item), "=")
			if err := target.set(name, value); err != nil {
				return mine, fmt.Errorf("PROFLLM_SIM_FAULTS: %s: %w", who, err)
			}
		}
	}
	return mine, checkModifiers(text)
}

// turned is a hint for a group whose signs stand in each other's place, decode=die-after:2s, or
// that has no role; "" if it would not help.
func turned(group string) string {
	who, list, ok := strings.Cut(strings.TrimSpace(group), "=")
	if ok && !slices.Contains(faultNames, who) {
		list = strings.Replace(list, ":", "=", 1)
	} else {
		who, list = "*", strings.TrimPrefix(strings.TrimSpace(group), ":")
	}
	if name, _, _ := strings.Cut(list, "="); !slices.Contains(faultNames, name) {
		return ""
	}
	return fmt.Sprintf("\n\thint: did you mean %s:%s?", who, list)
}

// deaths are the faults whose exit code another fault sets.
var deaths = []string{"die-at-start", "die-after", "die-on-request"}

// checkModifiers refuses an exit code of a role in which nothing dies: it plants nothing.
func checkModifiers(text string) error {
	dies := map[string]bool{}                              // by role
	_ = eachFault(text, func(role string, f Fault) error { // returns no error
		dies[role] = dies[role] || slices.Contains(deaths, f.Name)
		return nil
	})
	anyServer := false
	for role, is := range dies {
		anyServer = anyServer || is && role != OnClient
	}
	return eachFault(text, func(role string, f Fault) error {
		if f.Name != "exit" || dies[role] || role != OnClient && dies["*"] || role == "*" && anyServer {
			return nil
		}
		return fmt.Errorf("PROFLLM_SIM_FAULTS: %s: exit alone plants nothing: it is the exit code of %s\n\thint: add one of them, such as %s:die-after=2s,exit=3",
			role, strings.Join(deaths, ", "), role)
	})
}

func (f *Planted) set(name, value string) error {
	if !slices.Contains(faultNames, name) {
		return fmt.Errorf("unknown fault %q\n\thint: %s", name, source.Suggest(name, faultNames))
	}
	if slices.Contains(answerFaultNames, name) {
		return f.Answer.set(name, value)
	}
	if n := f.count(name); n != nil {
		var err error
		*n.of, err = Count(name, value, n.most)
		return err
	}
	switch name {
	case "die-after", "slowing":
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 {
			return fmt.Errorf("%s=%q: want a duration above 0, such as 2s", name, value)
		}
		*map[string]*time.Duration{"die-after": &f.DieAfter, "slowing": &f.Slowing}[name] = d
		return nil
	case "stall", "freeze", "step":
		m, err := parseMoment(name, value)
		*map[string]*Moment{"stall": &f.Stall, "freeze": &f.freeze, "step": &f.step}[name] = m
		return err
	case "absent":
		if _, err := strconv.ParseUint(value, 10, 16); err != nil {
			return fmt.Errorf("absent=%q: want a rank, such as 1", value)
		}
		f.Absent = value
		return nil
	case "use", "clock", "heat", "skip", "driver":
		return f.SMI.set(name, value)
	case "fail", "abort", "preempt", "corrupt", "warm", "pace":
		share, err := parseShare(value)
		if err != nil {
			return fmt.Errorf("%s=%q: want a number from 0 to 1", name, value)
		}
		*map[string]*float64{"fail": &f.Fail, "abort": &f.Abort, "preempt": &f.Preempt, "corrupt": &f.Corrupt,
			"warm": &f.Warm, "pace": &f.pace}[name] = share
		return nil
	case "miscount":
		var err error
		if f.Miscount, err = strconv.ParseFloat(value, 64); err != nil || !(f.Miscount >= 0 && f.Miscount <= 1000) {
			return fmt.Errorf("miscount=%q: want a factor, such as 1.1", value)
		}
		return nil
	case "root", "version":
		*map[string]*string{"root": &f.Root, "version": &f.Version}[name] = value
		if value == "" {
			return fmt.Errorf("%s wants a value", name)
		}
		return nil
	}
	if value != "" {
		return fmt.Errorf("%s takes no value, got %q", name, value)
	}
	*map[string]*bool{"die-at-start": &f.DieAtStart, "never-ready": &f.NeverReady, "hang": &f.Hang,
		"zero-tokens": &f.ZeroTokens}[name] = true
	return nil
}

// A bounded is a whole number from 1 to a limit.
type bounded struct {
	of   *int
	most int
}

// count is the fault of that name which is a whole number, nil if it is none.
func (f *Planted) count(name string) *bounded {
	return map[string]*bounded{"burst": {&f.Burst, 1 << 20}, "die-on-request": {&f.DieOnRequest, 1 << 31},
		"restart-on-request": {&f.Restart, 1 << 31}, "exit": {&f.Exit, 255}, "bundle": {&f.Bundle, 1 << 20},
		"cold": {&f.Cold, 1 << 31}}[name]
}

func Count(name, value string, most int) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > most {
		return 0, fmt.Errorf("%s=%q: want a whole number from 1 to %d", name, value, most)
	}
	return n, nil
}
