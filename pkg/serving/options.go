package serving

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/profllm/profllm/pkg/plan"
	"github.com/profllm/profllm/pkg/pyjson"
	"github.com/profllm/profllm/pkg/source"
)

// Booleans says what an engine's command line makes of true and false.
type Booleans int

const (
	// Negatable is --x and --no-x (argparse.BooleanOptionalAction, vLLM).
	Negatable Booleans = iota
	// StoreTrue is --x, and nothing for false, the default of such an option
	// (argparse's store_true, SGLang). Such an option takes no value: CloudAI's
	// "--x True" ends the engine with "unrecognized arguments: True".
	StoreTrue
)

// Options writes a table as options of an engine or a client, in the order of
// the file.
func Options(t *source.Table, b Booleans) []plan.Word {
	var argv []plan.Word
	for _, key := range t.Keys() {
		argv = append(argv, Option(key, t.Get(key), b)...)
	}
	return argv
}

// Once returns a table with one key for each option. Max_model_len and max-model-len are one: the later file that sets
// it counts, as for any key, and one file must not set it twice. c may be nil.
func Once(t *source.Table, c *source.Complaints) *source.Table {
	if t == nil {
		return nil
	}
	spelt := map[string]string{}
	for _, key := range t.Keys() {
		name, member, _ := strings.Cut(key, ".") // the member is a key of a JSON object, where spelling counts
		option := underscores(name) + "." + member
		before, twice := spelt[option]
		spelt[option] = key
		if !twice {
			continue
		}
		if here, there := t.KeyPos(key), t.KeyPos(before); here.File == there.File && c != nil {
			c.Add(source.Errorf(here, "%s is written a second time, with another spelling (%s)", key, there).
				Hintf("keep one of the two"))
		}
		t = t.Without(before)
	}
	return t
}

// Option writes one option: underscores of the key become dashes, "" is a bare
// flag, a list gives one option and several values, a table compact JSON.
func Option(key string, v *source.Value, b Booleans) []plan.Word {
	name, member, dotted := strings.Cut(key, ".")
	name = strings.ReplaceAll(name, "_", "-")
	if dotted { // --compilation-config.cudagraph_mode: the member is a key of a JSON object
		name += "." + member
	}
	switch x := v.Any.(type) {
	case bool:
		switch {
		case x:
			return plan.Texts("--" + name)
		case b == Negatable:
			return plan.Texts("--no-" + name)
		}
		return nil
	case string:
		if x == "" {
			return plan.Texts("--" + name)
		}
	case []*source.Value:
		words := plan.Texts("--" + name)
		for _, e := range x {
			words = append(words, plan.Text(Scalar(e)))
		}
		return words
	}
	return plan.Texts("--"+name, Scalar(v))
}

// Scalar writes a value as one word: tables and lists as compact JSON in the
// order of the file.
func Scalar(v *source.Value) string {
	switch x := v.Any.(type) {
	case string:
		return source.Unquote(x)
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
	case float64: // 4.0 stays a float: vLLM and Hugging Face ask for one
		b.WriteString(pyjson.JSONFloat(x))
	default:
		b.WriteString(Scalar(v))
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
