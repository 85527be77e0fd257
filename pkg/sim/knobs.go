package sim

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/profllm/profllm/pkg/source"
)

// knobs are the settings of the simulation, from the environment; the package comment has the list.
type knobs struct {
	timing   timing
	startup  time.Duration
	accuracy float64 // 0-1
	bytes    bool    // one token per byte
	nodeAddr string
	faults   faults
}

func readKnobs(env func(string) string) (knobs, error) {
	k := knobs{nodeAddr: env("PROFLLM_NODE_ADDR")}
	var errs []error
	check := func(err error) {
		if err != nil {
			errs = append(errs, err)
		}
	}
	var err error
	k.timing.ttft, err = duration(env, "PROFLLM_SIM_TTFT", 50*time.Millisecond)
	check(err)
	k.timing.itl, err = duration(env, "PROFLLM_SIM_ITL", 20*time.Millisecond)
	check(err)
	k.startup, err = duration(env, "PROFLLM_SIM_STARTUP", 500*time.Millisecond)
	check(err)
	k.timing.jitter, err = share(env, "PROFLLM_SIM_JITTER", 0)
	check(err)
	k.accuracy, err = share(env, "PROFLLM_SIM_ACCURACY", 0.75)
	check(err)
	k.timing.seed = 1
	if s := env("PROFLLM_SIM_SEED"); s != "" {
		k.timing.seed, err = strconv.ParseUint(s, 10, 64)
		check(named("PROFLLM_SIM_SEED", s, "a whole number", err))
	}
	switch s := env("PROFLLM_SIM_TOKENS"); s {
	case "", "words":
	case "bytes":
		k.bytes = true
	default:
		check(named("PROFLLM_SIM_TOKENS", s, "words or bytes", errors.New("unknown")))
	}
	k.faults, err = parseFaults(env("PROFLLM_SIM_FAULTS"), env("PROFLLM_ROLE"), true)
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
	return d, named(name, s, "a duration such as 20ms", err)
}

func share(env func(string) string, name string, fallback float64) (float64, error) {
	s := env(name)
	if s == "" {
		return fallback, nil
	}
	x, err := parseShare(s)
	return x, named(name, s, "a number from 0 to 1", err)
}

func parseShare(s string) (float64, error) {
	x, err := strconv.ParseFloat(s, 64)
	if err == nil && !(x >= 0 && x <= 1) {
		err = errors.New("out of range")
	}
	return x, err
}

func named(name, value, want string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s=%q: want %s", name, value, want)
}

// faults are the scripted failures of one process; the zero value but for exit and bundle is a healthy engine.
type faults struct {
	dieAtStart   bool
	dieAfter     time.Duration // 0: never
	dieOnRequest int           // 0: never; counts from 1
	restart      int           // on which request; 0: never
	exit         int
	neverReady   bool
	hang         bool
	fail         float64 // 0-1
	bundle       int     // tokens per chunk, at least 1
	zeroTokens   bool
	miscount     float64       // factor of the counted output tokens, 1 if honest
	abort        float64       // 0-1, in the engine's books alone
	preempt      float64       // 0-1
	corrupt      float64       // 0-1
	warm         float64       // 0-1
	cold         int           // requests
	slowing      time.Duration // per request
	stall        moment        // no token goes out
	burst        int           // chunks that go out together; 0: one
	freeze, step moment        // of the client's clock
	pace         float64       // 0-1, of the client's rate; 0: all of it
	root         string        // where /v1/models says that the model came from; empty: the truth
	version      string        // what it says of its version; empty: the truth
	smi          smiFaults     // of the GPUs
	answer       answerFaults
}

// parseFaults reads the whole text, so that a mistake in any group is found in every process, and keeps the groups that
// apply to role; star says whether "*" does.
func parseFaults(text, role string, star bool) (faults, error) {
	mine := faults{exit: exitFailed, bundle: 1, miscount: 1}
	if strings.TrimSpace(text) == "" {
		return mine, nil
	}
	for group := range strings.SplitSeq(text, ";") {
		who, list, ok := strings.Cut(strings.TrimSpace(group), ":")
		if !ok || who == "" {
			return mine, fmt.Errorf("PROFLLM_SIM_FAULTS: %q: want ROLE:FAULT or *:FAULT, several faults behind commas", group)
		}
		target := new(faults)
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
	return mine, nil
}

func (f *faults) set(name, value string) error {
	if !slices.Contains(faultNames, name) {
		return fmt.Errorf("unknown fault %q\n\thint: %s", name, source.Suggest(name, faultNames))
	}
	if slices.Contains(answerFaultNames, name) {
		return f.answer.set(name, value)
	}
	var err error
	switch name {
	case "die-after", "slowing":
		d, err := time.ParseDuration(value)
		if err != nil || d <= 0 {
			return fmt.Errorf("%s=%q: want a duration above 0, such as 2s", name, value)
		}
		if name == "slowing" {
			f.slowing = d
		} else {
			f.dieAfter = d
		}
		return nil
	case "stall", "freeze", "step":
		m, err := parseMoment(name, value)
		*map[string]*moment{"stall": &f.stall, "freeze": &f.freeze, "step": &f.step}[name] = m
		return err
	case "burst":
		f.burst, err = count(name, value, 1<<20)
		return err
	case "die-on-request":
		f.dieOnRequest, err = count(name, value, 1<<31)
		return err
	case "restart-on-request":
		f.restart, err = count(name, value, 1<<31)
		return err
	case "exit":
		f.exit, err = count(name, value, 255)
		return err
	case "bundle":
		f.bundle, err = count(name, value, 1<<20)
		return err
	case "cold":
		f.cold, err = count(name, value, 1<<31)
		return err
	case "use", "clock", "heat", "skip", "driver":
		return f.smi.set(name, value)
	case "fail", "abort", "preempt", "corrupt", "warm", "pace":
		share, err := parseShare(value)
		if err != nil {
			return fmt.Errorf("%s=%q: want a number from 0 to 1", name, value)
		}
		*map[string]*float64{"fail": &f.fail, "abort": &f.abort, "preempt": &f.preempt, "corrupt": &f.corrupt, "warm": &f.warm, "pace": &f.pace}[name] = share
		return nil
	case "miscount":
		if f.miscount, err = strconv.ParseFloat(value, 64); err != nil || !(f.miscount >= 0 && f.miscount <= 1000) {
			return fmt.Errorf("miscount=%q: want a factor, such as 1.1", value)
		}
		return nil
	}
	if text := map[string]*string{"root": &f.root, "version": &f.version}[name]; text != nil {
		if *text = value; value == "" {
			return fmt.Errorf("%s wants a value", name)
		}
		return nil
	}
	if value != "" {
		return fmt.Errorf("%s takes no value, got %q", name, value)
	}
	switch name {
	case "die-at-start":
		f.dieAtStart = true
	case "never-ready":
		f.neverReady = true
	case "hang":
		f.hang = true
	case "zero-tokens":
		f.zeroTokens = true
	}
	return nil
}

func count(name, value string, most int) (int, error) {
	n, err := strconv.Atoi(value)
	if err != nil || n < 1 || n > most {
		return 0, fmt.Errorf("%s=%q: want a whole number from 1 to %d", name, value, most)
	}
	return n, nil
}
