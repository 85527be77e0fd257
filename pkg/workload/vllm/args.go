package vllm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/source"
)

// engineArgs writes a table as options of `vllm serve`, in the order of the
// file. true is a bare flag, false its --no- form, "" a bare flag; a list gives
// one option and several values, a table compact JSON.
func engineArgs(t *source.Table) []plan.Word {
	var argv []plan.Word
	for _, key := range t.Keys() {
		name := strings.ReplaceAll(key, "_", "-")
		switch x := t.Get(key).Any.(type) {
		case bool:
			if x {
				argv = append(argv, plan.Text("--"+name))
			} else {
				argv = append(argv, plan.Text("--no-"+name))
			}
		case string:
			argv = append(argv, plan.Text("--"+name))
			if x != "" {
				argv = append(argv, plan.Text(unquote(x)))
			}
		case []*source.Value:
			argv = append(argv, plan.Text("--"+name))
			for _, e := range x {
				argv = append(argv, plan.Text(scalar(e)))
			}
		default:
			argv = append(argv, plan.Text("--"+name), plan.Text(scalar(t.Get(key))))
		}
	}
	return argv
}

// rayOptions writes a table as options of `ray start`: --opt=value, a bare flag
// for true, nothing for false.
func rayOptions(t *source.Table) []string {
	var options []string
	for _, key := range t.Keys() {
		name := "--" + strings.ReplaceAll(key, "_", "-")
		switch x := t.Get(key).Any.(type) {
		case bool:
			if x {
				options = append(options, name)
			}
		default:
			options = append(options, name+"="+scalar(t.Get(key)))
		}
	}
	return options
}

// unquote takes off the single quotes that a user of CloudAI had to write,
// since nothing was quoted there.
func unquote(s string) string {
	if len(s) >= 2 && s[0] == '\'' && s[len(s)-1] == '\'' {
		return s[1 : len(s)-1]
	}
	return s
}

// scalar writes a value as one word: tables and lists as compact JSON in the
// order of the file.
func scalar(v *source.Value) string {
	switch x := v.Any.(type) {
	case string:
		return unquote(x)
	case float64:
		return strconv.FormatFloat(x, 'g', -1, 64)
	case *source.Table, []*source.Value:
		var b strings.Builder
		writeJSON(&b, v)
		return b.String()
	}
	return fmt.Sprint(v.Any)
}

func writeJSON(b *strings.Builder, v *source.Value) {
	switch x := v.Any.(type) {
	case *source.Table:
		b.WriteByte('{')
		for i, k := range x.Keys() {
			if i > 0 {
				b.WriteByte(',')
			}
			writeText(b, k)
			b.WriteByte(':')
			writeJSON(b, x.Get(k))
		}
		b.WriteByte('}')
	case []*source.Value:
		b.WriteByte('[')
		for i, e := range x {
			if i > 0 {
				b.WriteByte(',')
			}
			writeJSON(b, e)
		}
		b.WriteByte(']')
	case string:
		writeText(b, x)
	default:
		b.WriteString(scalar(v))
	}
}

// writeText writes s as a JSON string, without escaping for HTML.
func writeText(b *strings.Builder, s string) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(s) // a string always encodes
	b.WriteString(strings.TrimSuffix(buf.String(), "\n"))
}
