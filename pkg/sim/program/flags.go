package program

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Flags is a command line of `vllm serve` as written: which flags, and the last values each was
// given.
type Flags struct {
	Positional []string
	Names      []string // in order of first use, long form, dashes inside
	Values     map[string][]string
}

// shortFlags are vLLM's abbreviations (0.32.0) of the flags read here or worth a full name in
// the log.
var shortFlags = map[string]string{
	"tp": "tensor-parallel-size", "pp": "pipeline-parallel-size", "dp": "data-parallel-size",
	"dpl": "data-parallel-size-local", "dpr": "data-parallel-start-rank", "dpn": "data-parallel-rank",
	"dpa": "data-parallel-address", "dpp": "data-parallel-rpc-port", "dpb": "data-parallel-backend",
	"ep": "enable-expert-parallel", "n": "nnodes", "r": "node-rank", "q": "quantization",
	"cc": "compilation-config", "O": "optimization-level",
}

// ParseFlags reads --x, --x=v, --x v..., --no-x, --x.key v and the short forms. It never fails:
// what a value must look like is checked where it is read.
func ParseFlags(args []string) Flags {
	f := Flags{Values: map[string][]string{}}
	for i := 0; i < len(args); {
		if !IsFlag(args[i]) {
			f.Positional = append(f.Positional, args[i])
			i++
			continue
		}
		name, value, hasValue := strings.Cut(args[i], "=")
		i++
		var values []string
		if hasValue {
			values = []string{value}
		} else {
			for i < len(args) && !IsFlag(args[i]) {
				values = append(values, args[i])
				i++
			}
		}
		f.set(longName(name), values)
	}
	return f
}

// IsFlag tells a flag from a value: "-1" and "-0.5" are values, so is a lone dash.
func IsFlag(s string) bool {
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

func (f *Flags) set(name string, values []string) {
	if positive, ok := strings.CutPrefix(name, "no-"); ok && len(values) == 0 {
		name, values = positive, []string{"false"}
	}
	if _, seen := f.Values[name]; !seen {
		f.Names = append(f.Names, name)
	}
	f.Values[name] = values
}

func (f *Flags) Text(name, fallback string) string {
	if v := f.Values[name]; len(v) > 0 {
		return v[0]
	}
	return fallback
}

func (f *Flags) Bool(name string, fallback bool) bool {
	v, ok := f.Values[name]
	switch {
	case !ok:
		return fallback
	case len(v) == 0:
		return true
	}
	return !strings.EqualFold(v[0], "false") && v[0] != "0"
}

// Size reads a whole number of at least least; vLLM allows the suffixes k, m, g (powers of
// 1000) and K, M, G (of 1024).
func (f *Flags) Size(name string, fallback, least int) (int, error) {
	s := f.Text(name, "")
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
