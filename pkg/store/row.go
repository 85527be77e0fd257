package store

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/klauspost/compress/zstd"

	"github.com/profllm/profllm/pkg/field"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/result"
)

// row is a run on its way into the tables.
type row struct {
	run             records.Run
	id, hash, setup string
	replaces        int64 // the row that goes; 0: none
	stored          int64 // Unix milliseconds
	record, besides []byte
	packed          []byte       // record, compressed
	cells           []field.Cell // of the run
}

func newRow(r *records.Run, now int64) (*row, error) {
	record, besides, err := r.Pack()
	if err != nil {
		return nil, err
	}
	return &row{run: *r, hash: hashOf(record), setup: setupOf(r.Result), stored: now, record: record, besides: besides,
		packed: zipped(record), cells: field.Of(r)}, nil
}

// The limits of a run. PostgreSQL has no index of texts of more than 2704 bytes (nbtree, a third of a page), and
// would refuse the whole batch.
const (
	longestIndexed = 2000 // bytes, of a text that is indexed, and of a field's name
	mostFields     = 5000
)

// tooLarge says why no database could hold a row, "" if both can.
func (r *row) tooLarge() string {
	long := func(what, text string) string {
		if len(text) <= longestIndexed {
			return ""
		}
		return fmt.Sprintf("%s has %d bytes, and a store takes %d: %.40q…", what, len(text), longestIndexed, text)
	}
	if why := long("run_id", r.run.Result.RunID); why != "" {
		return why
	}
	if len(r.cells) > mostFields {
		return fmt.Sprintf("the run has %d fields, and a store takes %d", len(r.cells), mostFields)
	}
	for _, c := range r.cells {
		why := long("the name of a field", c.Field.Name)
		if why == "" && slices.Contains(indexed, c.Field.Name) && !c.Value.IsNumber() {
			why = long(c.Field.Name, c.Value.Text)
		}
		if why != "" {
			return why
		}
	}
	return ""
}

func hashOf(record []byte) string {
	sum := sha256.Sum256(record)
	return hex.EncodeToString(sum[:])
}

// setupOf tells runs with the same run id apart.
func setupOf(r *result.Result) string { return hashOf([]byte(records.Setup(r)))[:24] }

// largest is how long a record may be that is read from a store, in bytes.
const largest = 256 << 20

var zip = sync.OnceValue(func() *zstd.Encoder {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedDefault))
	if err != nil {
		panic(err) // of the options above
	}
	return e
})

var unzip = sync.OnceValue(func() *zstd.Decoder {
	d, err := zstd.NewReader(nil, zstd.WithDecoderMaxMemory(largest))
	if err != nil {
		panic(err)
	}
	return d
})

func zipped(data []byte) []byte { return zip().EncodeAll(data, nil) }

func unzipped(data []byte) ([]byte, error) {
	out, err := unzip().DecodeAll(data, nil)
	if err != nil {
		return nil, fmt.Errorf("unpack the record: %w", err)
	}
	return out, nil
}

// names are the columns of a row in their order.
func (l *layout) names() []string {
	list := slices.Clone(own)
	for _, c := range l.columns {
		list = append(list, c.name)
	}
	return list
}

// used are fields and whether numbers and texts were seen in them.
type used map[string]*usedField

type usedField struct{ free, numbers, texts bool }

func (u used) add(c field.Cell, free bool) {
	x := u[c.Field.Name]
	if x == nil {
		x = &usedField{free: free}
		u[c.Field.Name] = x
	}
	x.numbers, x.texts = x.numbers || c.Value.IsNumber(), x.texts || !c.Value.IsNumber()
}

// values are those of a row's columns, and all of its texts.
func (r *row) values(seq int64, seen used) (list []any, texts string) {
	l := known()
	list = make([]any, len(own)+len(l.columns))
	list[0], list[1], list[2], list[3], list[4], list[5] = seq, r.id, r.hash, r.setup, r.stored, l.version
	var all strings.Builder
	extra := map[string]any{}
	for _, c := range r.cells {
		at, fixed := l.byField[c.Field.Name]
		seen.add(c, !fixed)
		kind := field.Text
		if fixed {
			kind = l.columns[at].field.Kind
		}
		text := ""
		if !c.Value.IsNumber() {
			text = harmless(c.Value.Text)
			all.WriteString(strings.ToLower(strings.ReplaceAll(text, between, " ")) + between)
		}
		switch {
		case fixed && kind == field.Text:
			list[len(own)+at] = harmless(c.Value.String())
		case fixed && kind == field.Time && c.Value.IsNumber():
			list[len(own)+at] = int64(c.Value.Number)
		case fixed && c.Value.IsNumber():
			list[len(own)+at] = c.Value.Number
		case c.Value.IsNumber():
			extra[label(c.Field.Name)] = c.Value.Number
		default:
			extra[label(c.Field.Name)] = text
		}
	}
	if len(extra) > 0 {
		data, _ := json.Marshal(extra) // texts and finite numbers
		list[len(own)-1] = string(data)
	}
	return list, all.String()
}

// between stands between the texts of a run, so that none is found across two.
const between = "\x1f"

// label is the key of a field in the column extra: without what would need quotes in a path of SQLite.
func label(name string) string {
	return strings.NewReplacer("%", "%25", `"`, "%22", `\`, "%5C", "\x00", "%00").Replace(strings.ToValidUTF8(name, "\uFFFD"))
}

// replace writes rows, in place of those that they replace.
func (c *change) replace(ctx context.Context, rows []*row) error {
	var runs, blobs, texts [][]any
	var gone []any
	seen := used{}
	for _, r := range rows {
		if r.replaces > 0 {
			gone = append(gone, r.replaces)
		}
		c.seq++
		values, text := r.values(c.seq, seen)
		runs = append(runs, values)
		blobs = append(blobs, []any{c.seq, r.packed, r.besides})
		texts = append(texts, []any{c.seq, text})
	}
	if err := c.drop(ctx, gone); err != nil {
		return err
	}
	err := c.sql.insert(ctx, c.conn, c.tx, "benchmark_runs", known().names(), runs)
	if err == nil {
		err = c.sql.insert(ctx, c.conn, c.tx, "records", []string{"seq", "record", "besides"}, blobs)
	}
	if err == nil {
		err = c.sql.insert(ctx, c.conn, c.tx, "run_texts", []string{"seq", "texts"}, texts)
	}
	return cmp.Or(err, c.note(ctx, seen))
}

// drop removes rows by their numbers.
func (c *change) drop(ctx context.Context, seqs []any) error {
	for some := range slices.Chunk(seqs, 500) {
		for _, table := range []string{"benchmark_runs", "records", "run_texts"} {
			if err := c.exec(ctx, "DELETE FROM "+table+" WHERE seq IN ("+marks(len(some))+")", some...); err != nil {
				return err
			}
		}
	}
	if len(seqs) == 0 {
		return nil
	}
	return c.exec(ctx, "INSERT INTO store_numbers (name, value) VALUES ('dropped', 1) ON CONFLICT (name) DO NOTHING")
}

// note keeps which fields runs have, and with which kinds of values.
func (c *change) note(ctx context.Context, seen used) error {
	have, err := c.usedFields(ctx, c.tx)
	if err != nil {
		return err
	}
	for name, x := range seen {
		h := have[name]
		if h != nil && (h.numbers || !x.numbers) && (h.texts || !x.texts) {
			continue
		}
		if h != nil {
			x.numbers, x.texts = x.numbers || h.numbers, x.texts || h.texts
		}
		err := c.exec(ctx, `INSERT INTO run_fields (name, free, numbers, texts) VALUES (?, ?, ?, ?)
			ON CONFLICT (name) DO UPDATE SET free = excluded.free, numbers = excluded.numbers, texts = excluded.texts`,
			harmless(name), number(x.free), number(x.numbers), number(x.texts))
		if err != nil {
			return err
		}
	}
	return nil
}

func number(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}
