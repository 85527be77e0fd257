package load

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/profllm/profllm/pkg/load/dataset"
)

// A List is a flag that takes several values in a row, as argparse's nargs="*" does: --goodput
// ttft:100 tpot:20. Given twice, it keeps both; argparse would drop the first.
type List []string

// Decode implements [kong.MapperValue].
func (l *List) Decode(ctx *kong.DecodeContext) error {
	first, err := ctx.Scan.PopValue("value")
	if err != nil {
		return err
	}
	*l = append(*l, first.String())
	if first.Type == kong.FlagValueToken { // --flag=value takes one value, in argparse too
		return nil
	}
	for t := ctx.Scan.Peek(); !t.IsEOL() && !strings.HasPrefix(t.String(), "-"); t = ctx.Scan.Peek() {
		ctx.Scan.Pop()
		*l = append(*l, t.String())
	}
	return nil
}

// A Pair is one KEY=VALUE of a [List].
type Pair struct{ Key, Value string }

// pairs splits every item at its first separator.
func (l List) pairs(sep string) ([]Pair, error) {
	out := make([]Pair, 0, len(l))
	for _, item := range l {
		k, v, ok := strings.Cut(item, sep)
		k, v = strings.TrimSpace(k), strings.TrimSpace(v)
		if !ok || k == "" {
			return nil, fmt.Errorf("%q is not of the form KEY%sVALUE", item, sep)
		}
		out = append(out, Pair{k, v})
	}
	return out, nil
}

// An Object is a flag that takes a JSON object. Its members keep their order.
type Object []dataset.Member

// UnmarshalText implements [encoding.TextUnmarshaler].
func (o *Object) UnmarshalText(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if t, err := d.Token(); err != nil {
		return fmt.Errorf("read JSON object %q: %w", text, err)
	} else if t != json.Delim('{') {
		return fmt.Errorf("%q is not a JSON object", text)
	}
	*o = nil
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return fmt.Errorf("read JSON object %q: %w", text, err)
		}
		m := dataset.Member{Key: key.(string)} // the decoder accepts nothing else as a key
		if err := d.Decode(&m.Value); err != nil {
			return fmt.Errorf("read member %q: %w", m.Key, err)
		}
		*o = append(*o, m)
	}
	if _, err := d.Token(); err != nil {
		return fmt.Errorf("read JSON object %q: %w", text, err)
	}
	if d.InputOffset() != int64(len(bytes.TrimRight(text, " \t\r\n"))) {
		return fmt.Errorf("%q has text after its JSON object", text)
	}
	return nil
}

// json returns the object as JSON.
func (o Object) json() json.RawMessage {
	out := []byte("{")
	for i, m := range o {
		if i > 0 {
			out = append(out, ", "...)
		}
		key, _ := json.Marshal(m.Key) // a string always marshals
		out = append(append(append(out, key...), ": "...), m.Value...)
	}
	return append(out, '}')
}

// set replaces the member of that key in place, or appends it.
func (o *Object) set(key string, value json.RawMessage) {
	for i := range *o {
		if (*o)[i].Key == key {
			(*o)[i].Value = value
			return
		}
	}
	*o = append(*o, dataset.Member{Key: key, Value: value})
}
