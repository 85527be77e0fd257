package vllm

import (
	"github.com/profllm/profllm/pkg/source"
	"github.com/profllm/profllm/pkg/workload/vllm/arguments"
)

// Build says how the options of a test's build of vLLM differ from those of its release.
type Build struct{ Serve, Bench []arguments.Difference }

// build is its table, [cmd_args.build].
type build struct {
	Serve *source.Table `toml:"serve"` // Options of vllm serve that differ.
	Bench *source.Table `toml:"bench"` // Those of vllm bench serve.
}

// ReadBuild reads it out of cmd_args.
func ReadBuild(args *source.Table) (b Build, err error) {
	v := args.Get("build")
	if v == nil {
		return b, nil
	}
	table, ok := v.Any.(*source.Table)
	if !ok {
		return b, nil // Config complains of it
	}
	var c source.Complaints
	var t build
	c.Add(source.Decode(table, &t))
	if t.Serve != nil {
		b.Serve, err = arguments.ReadDifferences(t.Serve)
		c.Add(err)
	}
	if t.Bench != nil {
		b.Bench, err = arguments.ReadDifferences(t.Bench)
		c.Add(err)
	}
	return b, c.Err()
}

// has are the options that the build has, of those that differ, with underscores.
func (b Build) has() (names []string) {
	for _, d := range b.Serve {
		if !d.Lacks {
			names = append(names, arguments.Key(d.Option))
		}
	}
	return names
}
