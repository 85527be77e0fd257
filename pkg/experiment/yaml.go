package experiment

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/profllm/profllm/pkg/limit"
	"github.com/profllm/profllm/pkg/source"
)

// Limits on what is read of one file: an experiment has some kB.
const (
	mostBytes  = 1 << 20
	mostValues = 1 << 16
)

// parseYAML reads one document, in which aliases and merges are followed.
func parseYAML(name string, data []byte) (*source.Table, error) {
	top := source.Pos{File: name, Line: 1, Col: 1}
	if len(data) > mostBytes {
		return nil, source.Errorf(source.Pos{File: name}, "the file has more than %d MiB; an experiment has some kB", mostBytes>>20)
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	if err := d.Decode(&doc); errors.Is(err, io.EOF) {
		return nil, source.Errorf(top, "the file is empty")
	} else if err != nil {
		return nil, yamlError(top, err)
	}
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, source.Errorf(top, "more than one document").Hintf("write each experiment into a file of its own")
	}
	r := yamlReader{file: name}
	v, err := r.value(doc.Content[0], 0)
	if err != nil {
		return nil, err
	}
	return document(v, top)
}

// yamlError takes the line out of an error of the library, which has it in its text.
func yamlError(pos source.Pos, err error) error {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	var line int
	if _, scanErr := fmt.Sscanf(text, "line %d:", &line); scanErr == nil {
		pos.Line = line
		_, text, _ = strings.Cut(text, ": ")
	}
	return source.Errorf(pos, "%s", text)
}

type yamlReader struct {
	file   string
	values int
}

func (r *yamlReader) pos(n *yaml.Node) source.Pos {
	return source.Pos{File: r.file, Line: n.Line, Col: n.Column}
}

// value converts a node.
func (r *yamlReader) value(n *yaml.Node, depth int) (*source.Value, error) {
	if r.values++; r.values > mostValues || depth > limit.Depth {
		return nil, source.Errorf(r.pos(n), "more than %d values, or more than %d levels", mostValues, limit.Depth)
	}
	v := &source.Value{Pos: r.pos(n)}
	var err error
	switch n.Kind {
	case yaml.AliasNode:
		return r.value(n.Alias, depth+1)
	case yaml.MappingNode:
		v.Any, err = r.table(n, depth)
	case yaml.SequenceNode:
		list := []*source.Value{}
		for _, item := range n.Content {
			one, err := r.value(item, depth+1)
			if err != nil {
				return nil, err
			}
			if isNull(one) {
				return nil, source.Errorf(r.pos(item), "a list has no empty elements")
			}
			list = append(list, one)
		}
		v.Any = list
	default:
		v.Any, err = r.scalar(n)
	}
	if err != nil {
		return nil, err
	}
	return v, nil
}

func (r *yamlReader) table(n *yaml.Node, depth int) (*source.Table, error) {
	own, merged := source.NewTable(r.pos(n)), (*source.Table)(nil)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		v, err := r.value(n.Content[i+1], depth+1)
		if err != nil {
			return nil, err
		}
		switch {
		case key.ShortTag() == "!!merge":
			base, err := mergedTable(v, r.pos(key))
			if err != nil {
				return nil, err
			}
			merged = source.Merge(base, merged)
		case key.Kind != yaml.ScalarNode:
			return nil, source.Errorf(r.pos(key), "a key must be a word")
		case own.Has(key.Value):
			return nil, source.Errorf(r.pos(key), "%q stands twice, first at %s", key.Value, own.PosOf(key.Value))
		default:
			v.Pos = r.pos(key)
			own.Set(key.Value, v)
		}
	}
	return source.Merge(merged, own), nil
}

// mergedTable is what a key << brings.
func mergedTable(v *source.Value, pos source.Pos) (*source.Table, error) {
	var all *source.Table
	list := []*source.Value{v}
	if several, ok := v.Any.([]*source.Value); ok {
		list = several
	}
	for _, one := range list {
		t, ok := one.Any.(*source.Table)
		if !ok {
			return nil, source.Errorf(pos, "<< merges tables only")
		}
		all = source.Merge(t, all)
	}
	return all, nil
}

// scalar is a word as its tag says.
func (r *yamlReader) scalar(n *yaml.Node) (any, error) {
	switch n.ShortTag() {
	case "!!null":
		return null{}, nil
	case "!!bool":
		var b bool
		err := n.Decode(&b)
		return b, err
	case "!!int":
		var i int64
		if err := n.Decode(&i); err != nil {
			return nil, source.Errorf(r.pos(n), "the number %s is too large", n.Value)
		}
		return i, nil
	case "!!float":
		if strings.Trim(n.Value, "+-0123456789_") == "" { // an integer that fits no int64
			return nil, source.Errorf(r.pos(n), "the number %s is too large", n.Value)
		}
		var f float64
		if err := n.Decode(&f); err != nil {
			return nil, source.Errorf(r.pos(n), "%q is not a number", n.Value)
		}
		return finite(f, r.pos(n))
	}
	return n.Value, nil
}

// finite is a number as TOML has it; one without end is a word, as for vLLM.
func finite(f float64, pos source.Pos) (any, error) {
	switch {
	case math.IsNaN(f):
		return nil, source.Errorf(pos, "NaN is no value here")
	case math.IsInf(f, 1):
		return "inf", nil
	case math.IsInf(f, -1):
		return "-inf", nil
	}
	return f, nil
}
