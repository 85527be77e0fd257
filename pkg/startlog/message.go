package startlog

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/lazyregexp"
	"github.com/profllm/profllm/pkg/result"
)

// form is one form of a message. Its groups are numbers, and take says what they are.
type form struct {
	word string // that every message of this form has: a search for a word is cheaper than a match
	re   *lazyregexp.Regexp
	take func(s *Start, c *clock, tag string, v []float64) // len(v): groups; -1: not there
}

const (
	whole = `([0-9][0-9,]{0,24})`
	real  = `([0-9]{1,16}(?:\.[0-9]{1,12})?)`
	gib   = real + ` ?Gi?B`
)

// forms are the messages of vLLM, from the sources of 0.6.0 to 0.33.0. Where two releases say the
// same differently, the form takes both.
var forms = []form{
	// kv_cache_utils.py; two messages until 0.27, one since 0.28. "CPU" since 0.30.
	{"KV cache size", lazyregexp.New(`^\S+ KV cache size: ` + whole + ` tokens(?:, Maximum concurrency for ` + whole +
		` tokens per request: ` + real + `x)?`), (*Start).cache},
	{"Maximum concurrency", lazyregexp.New(`^Maximum concurrency for ` + whole + ` tokens per request: ` + real + `x`),
		func(s *Start, _ *clock, _ string, v []float64) { s.concurrency(v[0], v[1]) }},
	// executor_base.py until 0.11, with the name of the device.
	{"blocks:", lazyregexp.New(`^# (?:GPU|TPU|XPU|HPU|cuda|rocm|xpu|tpu|hpu|CUDA) blocks: ` + whole), (*Start).blocks},
	// gpu_worker.py, cpu_worker.py, and worker.py of V0.
	{"Available KV cache memory", lazyregexp.New(`^Available KV cache memory: ` + gib), (*Start).cacheMemory},
	{"for KV cache on node", lazyregexp.New(`^(?:Explicitly|Auto) set \(` + real + `/` + real + `\) GiB for KV cache`),
		(*Start).cacheMemory},
	{"reserved for KV Cache is", lazyregexp.New(`reserved for KV Cache is ` + gib), (*Start).cacheMemory},
	// gpu_model_runner.py: "GB" in 0.8, "GiB" since 0.9, "GiB memory" since 0.11.1.
	{"oading took", lazyregexp.New(`^Model loading took ` + gib + `(?: memory)? and ` + real + ` seconds`), (*Start).model},
	{"model weights took", lazyregexp.New(`^Loading model weights took ` + gib), (*Start).model},
	{"Loading weights took", lazyregexp.New(`^Loading weights took ` + real + ` seconds`), timed(result.PhaseWeights)},
	{"Graph capturing finished", lazyregexp.New(`^Graph capturing finished in ` + real + ` secs(?:, took ` + gib + `)?`),
		(*Start).graphs},
	// compilation/monitor.py; "takes" until 0.17. Since 0.32 the name of a part may come before it.
	{"torch.compile t", lazyregexp.New(`^(?:\[[^]]{0,100}\] ?)?torch\.compile (?:took|takes) ` + real + ` s in total`),
		timed(result.PhaseCompile)},
	{"Memory profiling takes", lazyregexp.New(`^Memory profiling takes ` + real + ` seconds`), timed(result.PhaseProfiling)},
	{"init engine", lazyregexp.New(`^init engine \(profile, create kv cache, warmup model\) took ` + real +
		` s(?:econds)?`), timed(result.PhaseEngine)},
	{"Starting to load model", lazyregexp.New(`^Starting to load model `), (*Start).loads},
}

// message reads the text of a log line.
func (s *Start) message(forms []form, c *clock, tag, text string) {
	for i := range forms {
		f := &forms[i]
		if !strings.Contains(text, f.word) {
			continue
		}
		m := f.re.FindStringSubmatch(text)
		if m == nil {
			continue
		}
		v := make([]float64, len(m)-1)
		for i, digits := range m[1:] {
			v[i] = -1
			if x, err := strconv.ParseFloat(strings.ReplaceAll(digits, ",", ""), 64); err == nil && x <= mostNumber {
				v[i] = x
			}
		}
		f.take(s, c, tag, v)
		return
	}
}

// mostNumber bounds what is believed: tokens, seconds and GiB.
const mostNumber = 1e15

// engine notes that a process reported a KV cache.
func (s *Start) engine(tag string) {
	if s.engines == nil {
		s.engines = map[string]bool{}
	}
	if len(s.engines) < mostEngines {
		s.engines[fmt.Sprint(s.logs, " ", tag)] = true
	}
}

// cache takes the tokens of a KV cache, and how many requests of a length they hold.
func (s *Start) cache(_ *clock, tag string, v []float64) {
	if v[0] <= 0 {
		return
	}
	s.engine(tag)
	lowest(&s.said.KVCacheTokens, int64(v[0]))
	s.concurrency(v[1], v[2])
}

func (s *Start) concurrency(tokens, requests float64) {
	if tokens > 0 && requests >= 0 && lowest(&s.said.Concurrency, requests) {
		s.said.RequestTokens = new(int64(tokens))
	}
}

func (s *Start) blocks(_ *clock, tag string, v []float64) {
	if v[0] >= 0 {
		s.engine(tag)
		lowest(&s.said.KVCacheBlocks, int64(v[0]))
	}
}

func (s *Start) cacheMemory(_ *clock, _ string, v []float64) {
	if v[0] >= 0 {
		lowest(&s.said.KVCacheGiB, v[0])
	}
}

func (s *Start) model(c *clock, _ string, v []float64) {
	highest(&s.said.WeightsGiB, v[0])
	var took *float64
	if len(v) > 1 {
		took = &v[1]
	}
	s.phase(c, result.PhaseModelLoading, took)
}

func (s *Start) graphs(c *clock, _ string, v []float64) {
	highest(&s.said.GraphsGiB, v[1])
	s.phase(c, result.PhaseGraphs, &v[0])
}

func (s *Start) loads(c *clock, _ string, _ []float64) {
	s.phase(c, result.PhaseBeforeLoading, c.after())
}

// timed takes how long a phase took.
func timed(name string) func(*Start, *clock, string, []float64) {
	return func(s *Start, c *clock, _ string, v []float64) { s.phase(c, name, &v[0]) }
}

// phase notes the end of a phase.
func (s *Start) phase(c *clock, name string, took *float64) {
	if s.phases == nil {
		s.phases = map[string]*result.StartPhase{}
	}
	p := s.phases[name]
	if p == nil {
		p = &result.StartPhase{Name: name}
		s.phases[name] = p
	}
	if took != nil {
		highest(&p.Duration, *took)
	}
	if end := c.after(); end != nil {
		highest(&p.End, *end)
	}
}

func lowest[T int64 | float64](of **T, v T) bool {
	if *of != nil && **of <= v {
		return false
	}
	*of = &v
	return true
}

func highest(of **float64, v float64) {
	if v >= 0 && (*of == nil || **of < v) {
		*of = &v
	}
}

// order is that of the phases in a start, for those that end in the same second.
var order = []string{
	result.PhaseBeforeLoading, result.PhaseWeights, result.PhaseModelLoading, result.PhaseProfiling,
	result.PhaseCompile, result.PhaseGraphs, result.PhaseEngine, result.PhaseReady,
}

// Capacity is what the logs said, nil for nothing; its role is not set. A log whose only message
// is that a server is ready may be that of any server, such as a proxy's.
func (s *Start) Capacity() *result.Capacity {
	c := s.said
	c.Engines = len(s.engines)
	for _, p := range slices.SortedFunc(maps.Values(s.phases), func(a, b *result.StartPhase) int {
		return cmp.Compare(slices.Index(order, a.Name), slices.Index(order, b.Name))
	}) {
		c.Startup = append(c.Startup, *p)
	}
	if c.Engines == 0 && c.KVCacheGiB == nil && c.Concurrency == nil && c.WeightsGiB == nil && c.GraphsGiB == nil &&
		len(c.Startup) <= 1 {
		return nil
	}
	return &c
}
