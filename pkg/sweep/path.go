package sweep

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/source"
)

// Where the parts of a path lead. A path without a prefix is below cmd_args.
const (
	cmdArgs   = "cmd_args"
	benchArgs = "bench_cmd_args"
	envVars   = "extra_env_vars"
	numNodes  = "num_nodes"
	nodesPath = "NUM_NODES" // CloudAI's name of num_nodes in an action
)

// reserved are first segments that mean something else in an action or in a
// trajectory's header, so that an argument of that name cannot be swept.
var reserved = []string{
	nodesPath, benchArgs, envVars, colStep, colReward, colDirectory, colVerdict,
	strings.TrimSuffix(prefixEnv, "."), strings.TrimSuffix(prefixMetric, "."),
}

// joinPath writes segments as CloudAI does, with dots. A segment that holds a
// dot or a quote is quoted, which CloudAI does not do and cannot read back.
func joinPath(segs []string) string {
	out := make([]string, len(segs))
	for i, s := range segs {
		if s == "" || strings.ContainsAny(s, `."`) {
			s = strconv.Quote(s)
		}
		out[i] = s
	}
	return strings.Join(out, ".")
}

// splitPath is the inverse of joinPath.
func splitPath(path string) ([]string, error) {
	var segs []string
	for rest := path; ; {
		var seg string
		if strings.HasPrefix(rest, `"`) {
			quoted, err := strconv.QuotedPrefix(rest)
			if err != nil {
				return nil, fmt.Errorf("path %q has a quote that is not closed", path)
			}
			seg, _ = strconv.Unquote(quoted)
			rest = rest[len(quoted):]
			if rest != "" && rest[0] != '.' {
				return nil, fmt.Errorf("path %q lacks a dot after a quote", path)
			}
		} else {
			end := strings.IndexByte(rest, '.')
			if end < 0 {
				end = len(rest)
			}
			seg, rest = rest[:end], rest[end:]
			if seg == "" {
				return nil, fmt.Errorf("path %q has an empty part", path)
			}
		}
		segs = append(segs, seg)
		if rest == "" {
			return segs, nil
		}
		rest = rest[1:]
	}
}

// locate returns the keys that lead from the test's table to path.
func locate(path string) ([]string, error) {
	segs, err := splitPath(path)
	if err != nil {
		return nil, err
	}
	switch {
	case path == nodesPath:
		return []string{numNodes}, nil
	case segs[0] == benchArgs, segs[0] == envVars:
		return segs, nil
	}
	return append([]string{cmdArgs}, segs...), nil
}

// name is the inverse of locate.
func name(keys []string) string {
	switch keys[0] {
	case numNodes:
		return nodesPath
	case cmdArgs:
		return joinPath(keys[1:])
	}
	return joinPath(keys)
}

// fullPath is the path of a dimension with the table that it stands in.
func fullPath(path string) string {
	keys, err := locate(path)
	if err != nil {
		return path
	}
	return joinPath(keys)
}

// lookup returns the value at keys, or nil. Lists are not entered.
func lookup(t *source.Table, keys []string) *source.Value {
	for _, k := range keys[:len(keys)-1] {
		if t = t.Table(k); t == nil {
			return nil
		}
	}
	return t.Get(keys[len(keys)-1])
}

// allPaths lists every key below the named tables, in full: cmd_args.decode.x.
func allPaths(t *source.Table, tables ...string) []string {
	var out []string
	var walk func(t *source.Table, at []string)
	walk = func(t *source.Table, at []string) {
		for _, k := range t.Keys() {
			keys := append(slices.Clip(at), k)
			out = append(out, joinPath(keys))
			if sub := t.Table(k); sub != nil {
				walk(sub, keys)
			}
		}
	}
	for _, top := range tables {
		walk(t.Table(top), []string{top})
	}
	return out
}
