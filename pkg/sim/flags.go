package sim

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// flagSet is a command line of `vllm serve` as written: which flags, and the last values each was given.
type flagSet struct {
	positional []string
	names      []string // in order of first use, long form, dashes inside
	values     map[string][]string
}

// shortFlags are vLLM's abbreviations (0.32.0) of the flags read here or worth a full name in the log.
var shortFlags = map[string]string{
	"tp": "tensor-parallel-size", "pp": "pipeline-parallel-size", "dp": "data-parallel-size",
	"dpl": "data-parallel-size-local", "dpr": "data-parallel-start-rank", "dpn": "data-parallel-rank",
	"dpa": "data-parallel-address", "dpp": "data-parallel-rpc-port", "dpb": "data-parallel-backend",
	"ep": "enable-expert-parallel", "n": "nnodes", "r": "node-rank", "q": "quantization",
	"cc": "compilation-config", "O": "optimization-level",
}

// parseFlags reads --x, --x=v, --x v..., --no-x, --x.key v and the short forms. It never fails: what a value must look
// like is checked where it is read.
func parseFlags(args []string) flagSet {
	f := flagSet{values: map[string][]string{}}
	for i := 0; i < len(args); {
		if !isFlag(args[i]) {
			f.positional = append(f.positional, args[i])
			i++
			continue
		}
		name, value, hasValue := strings.Cut(args[i], "=")
		i++
		var values []string
		if hasValue {
			values = []string{value}
		} else {
			for i < len(args) && !isFlag(args[i]) {
				values = append(values, args[i])
				i++
			}
		}
		f.set(longName(name), values)
	}
	return f
}

// isFlag tells a flag from a value: "-1" and "-0.5" are values, so is a lone dash.
func isFlag(s string) bool {
	return len(s) > 1 && s[0] == '-' && !(s[1] >= '0' && s[1] <= '9' || s[1] == '.')
}

func longName(flag string) string {
	name := strings.ReplaceAll(strings.TrimLeft(flag, "-"), "_", "-")
	if strings.HasPrefix(flag, "--") {
		return name
	}
	head, key, dotted := strings.Cut(name, ".")
	long, ok := shortFlags[head]
	switch {
	case ok && dotted:
		return long + "." + key
	case ok:
		return long
	case len(name) == 2 && name[0] == 'O': // -O3
		return "optimization-level"
	}
	return name
}

func (f *flagSet) set(name string, values []string) {
	if positive, ok := strings.CutPrefix(name, "no-"); ok && len(values) == 0 {
		name, values = positive, []string{"false"}
	}
	if _, seen := f.values[name]; !seen {
		f.names = append(f.names, name)
	}
	f.values[name] = values
}

func (f *flagSet) text(name, fallback string) string {
	if v := f.values[name]; len(v) > 0 {
		return v[0]
	}
	return fallback
}

func (f *flagSet) bool(name string, fallback bool) bool {
	v, ok := f.values[name]
	switch {
	case !ok:
		return fallback
	case len(v) == 0:
		return true
	}
	return !strings.EqualFold(v[0], "false") && v[0] != "0"
}

// size reads a whole number of at least least; vLLM allows the suffixes k, m, g (powers of 1000) and K, M, G (of 1024).
func (f *flagSet) size(name string, fallback, least int) (int, error) {
	s := f.text(name, "")
	if s == "" {
		return fallback, nil
	}
	n, err := parseSize(s)
	if err != nil || n < least {
		return 0, fmt.Errorf("--%s: want a whole number of at least %d, got %q", name, least, s)
	}
	return n, nil
}

func parseSize(s string) (int, error) {
	const units = "kKmMgG"
	unit := 1
	if i := strings.IndexByte(units, s[len(s)-1]); i >= 0 {
		unit = [...]int{1e3, 1 << 10, 1e6, 1 << 20, 1e9, 1 << 30}[i]
		s = s[:len(s)-1]
	}
	if n, err := strconv.Atoi(s); err == nil {
		if n > 1<<40/unit || n < -1<<40/unit {
			return 0, errors.New("out of range")
		}
		return n * unit, nil
	}
	x, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0, err
	}
	if y := x * float64(unit); y == float64(int(y)) && y <= 1<<40 {
		return int(y), nil
	}
	return 0, errors.New("not a whole number")
}

// serveConfig is what the simulated engine takes from its flags.
type serveConfig struct {
	model     string
	names     []string // served model names; the first is what answers carry
	host      string   // empty: every address
	port      int
	maxLen    int // tokens of prompt and answer together
	maxSeqs   int // requests admitted at once
	blockSize int // tokens per KV cache block
	tp, pp    int
	connector string // KV connector; empty without --kv-transfer-config
	consumer  bool   // the connector may fetch
	prefix    bool   // prefix caching
	apiKeys   []string
	ray       bool
	headless  bool
	sglang    bool // answers as SGLang does, not as vLLM
}

// Defaults of vLLM 0.32.0 on a GPU, where they do not depend on the model.
const (
	defaultPort      = 8000
	defaultMaxLen    = 32768 // a real engine takes it from the model's config.json, which is not read
	defaultMaxSeqs   = 256
	defaultBlockSize = 16
)

func parseServe(args []string) (serveConfig, flagSet, error) {
	f := parseFlags(args)
	c := serveConfig{
		host:     f.text("host", ""),
		prefix:   f.bool("enable-prefix-caching", true),
		apiKeys:  f.values["api-key"],
		headless: f.bool("headless", false),
		ray:      f.text("distributed-executor-backend", "") == "ray",
	}
	c.model = f.text("model", "")
	if len(f.positional) > 0 {
		c.model = f.positional[0]
	}
	var errs []error
	if c.model == "" {
		errs = append(errs, errors.New("no model: write it right after serve"))
	}
	if len(f.positional) > 1 {
		errs = append(errs, fmt.Errorf("unrecognized arguments: %s", strings.Join(f.positional[1:], " ")))
	}
	if _, ok := f.values["config"]; ok {
		errs = append(errs, errors.New("--config is not simulated: give the flags themselves"))
	}
	c.names = f.values["served-model-name"]
	if len(c.names) == 0 {
		c.names = []string{c.model}
	}
	if v := f.text("max-model-len", ""); v == "auto" || v == "-1" {
		f.values["max-model-len"] = nil
	}
	for _, x := range []struct {
		to       *int
		name     string
		fallback int
		least    int
	}{
		{&c.port, "port", defaultPort, 0},
		{&c.maxLen, "max-model-len", defaultMaxLen, 1},
		{&c.maxSeqs, "max-num-seqs", defaultMaxSeqs, 1},
		{&c.blockSize, "block-size", defaultBlockSize, 1},
		{&c.tp, "tensor-parallel-size", 1, 1},
		{&c.pp, "pipeline-parallel-size", 1, 1},
	} {
		n, err := f.size(x.name, x.fallback, x.least)
		if err != nil {
			errs = append(errs, err)
		}
		*x.to = n
	}
	if err := c.readConnector(&f); err != nil {
		errs = append(errs, err)
	}
	return c, f, errors.Join(errs...)
}

// readConnector takes the KV connector from the JSON of --kv-transfer-config or its dotted form.
func (c *serveConfig) readConnector(f *flagSet) error {
	v := struct {
		Connector string `json:"kv_connector"`
		Role      string `json:"kv_role"`
	}{f.text("kv-transfer-config.kv-connector", ""), f.text("kv-transfer-config.kv-role", "")}
	text := f.text("kv-transfer-config", "")
	if text != "" {
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			return fmt.Errorf("--kv-transfer-config: %w", err)
		}
	}
	if text == "" && v.Connector == "" {
		return nil
	}
	if v.Connector == "" {
		return errors.New("--kv-transfer-config: kv_connector is missing")
	}
	switch v.Role {
	case "kv_producer", "kv_consumer", "kv_both":
		c.connector, c.consumer = v.Connector, v.Role != "kv_producer"
		return nil
	}
	return fmt.Errorf("--kv-transfer-config: kv_role %q: want kv_producer, kv_consumer or kv_both", v.Role)
}
