package store

import (
	"bufio"
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/profllm/profllm/pkg/durable"
	"github.com/profllm/profllm/pkg/regular"
)

// A dump is a file of JSON lines, compressed by zstd: a head, a line for each run, former record and
// preset, and an end that counts them. Either database takes the dump of the other.
const dumpSchema = "profllm.store/1"

// line is one line of a dump; one of its parts is set.
type line struct {
	Schema string      `json:"schema,omitempty"` // of the head
	Run    *dumpedRun  `json:"run,omitempty"`
	Former *dumpedRun  `json:"former,omitempty"`
	Preset *Preset     `json:"preset,omitempty"`
	End    *DumpCounts `json:"end,omitempty"`
}

type dumpedRun struct {
	ID      string `json:"id"`
	At      int64  `json:"at"` // Unix milliseconds: stored, or replaced
	Hash    string `json:"hash"`
	Record  string `json:"record"`
	Besides string `json:"besides"`
}

// DumpCounts are what a dump holds.
type DumpCounts struct {
	Runs    int `json:"runs"`
	Formers int `json:"formers"`
	Presets int `json:"presets"`
}

// Backup writes a dump of the store to a new file, reads it back, and only then gives it its
// name. Programs may write to the store meanwhile: the dump is of one moment.
func (s *Store) Backup(ctx context.Context, file string) (n DumpCounts, err error) {
	return n, s.ask(ctx, func(x *asking) error {
		n, err = s.dumpTo(ctx, x.tx, file, raw("TRUE"), true)
		return err
	})
}

// dumpTo writes the runs that meet a condition to a file, with their former records.
func (s *Store) dumpTo(
	ctx context.Context, q queryer, file string, where expr, presets bool,
) (n DumpCounts, err error) {
	if _, err := os.Lstat(file); err == nil {
		return n, fmt.Errorf("%s exists\n\thint: name another file; backups are not overwritten", file)
	}
	f, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".partial-*")
	if err != nil {
		return n, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	z, err := zstd.NewWriter(f, zstd.WithEncoderConcurrency(1))
	if err != nil {
		return n, err
	}
	n, err = s.dump(ctx, q, z, where, presets)
	if err = errors.Join(err, z.Close()); err == nil {
		err = f.Sync()
	}
	if err != nil {
		return n, fmt.Errorf("write %s: %w", file, err)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return n, err
	}
	back, err := readDump(ctx, f, func(line) error { return nil })
	if err == nil && back != n {
		err = fmt.Errorf("%+v were written and %+v read", n, back)
	}
	if err != nil {
		return n, fmt.Errorf("read %s back: %w", file, err)
	}
	return n, durable.Publish(f.Name(), file)
}

func (s *Store) dump(ctx context.Context, q queryer, w io.Writer, where expr, presets bool) (n DumpCounts, err error) {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	if err := out.Encode(line{Schema: dumpSchema}); err != nil {
		return n, err
	}
	runs := func(query string, former bool) error {
		return s.each(ctx, q, func(r *sql.Rows) error {
			var one dumpedRun
			var packed, besides []byte
			if err := r.Scan(&one.ID, &one.At, &one.Hash, &packed, &besides); err != nil {
				return err
			}
			record, err := unzipped(packed)
			if err != nil {
				return fmt.Errorf("run %s: %w", one.ID, err)
			}
			one.Record, one.Besides = string(record), string(besides)
			if former {
				n.Formers++
				return out.Encode(line{Former: &one})
			}
			n.Runs++
			return out.Encode(line{Run: &one})
		}, query, where.args...)
	}
	err = runs(`SELECT b.id, b.stored, b.record_hash, r.record, r.besides FROM benchmark_runs b
		JOIN records r ON r.seq = b.seq WHERE `+where.text+" ORDER BY b.seq", false)
	if err == nil {
		err = runs(`SELECT f.id, f.replaced, f.record_hash, f.record, f.besides FROM former_records f
			JOIN benchmark_runs b ON b.id = f.id WHERE `+where.text+" ORDER BY f.id, f.replaced", true)
	}
	if err == nil && presets {
		var list []Preset
		list, err = s.presets(ctx, q)
		for i := range list {
			n.Presets++
			err = errors.Join(err, out.Encode(line{Preset: &list[i]}))
		}
	}
	if err != nil {
		return n, err
	}
	return n, out.Encode(line{End: &n})
}

// readDump calls visit for each line of a dump but the head and the end, once its record is found to
// have its hash. A dump without an end is an error.
func readDump(ctx context.Context, r io.Reader, visit func(line) error) (n DumpCounts, err error) {
	z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(largest),
		zstd.WithDecoderMaxWindow(64<<20))
	if err != nil {
		return n, err
	}
	defer z.Close()
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, largest)
	at := 0
	for lines.Scan() {
		at++
		if err := ctx.Err(); err != nil {
			return n, err
		}
		var l line
		d := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		if err := d.Decode(&l); err != nil {
			return n, fmt.Errorf("line %d: %w", at, err)
		}
		switch {
		case at == 1 && l.Schema == dumpSchema:
		case at == 1:
			return n, fmt.Errorf("line 1: no dump of a store: schema %q, not %q", l.Schema, dumpSchema)
		case l.End != nil:
			if *l.End != n {
				return n, fmt.Errorf("line %d: %+v are there, and %+v were written", at, n, *l.End)
			}
			if lines.Scan() {
				return n, fmt.Errorf("line %d: text after the end", at+1)
			}
			return n, lines.Err()
		default:
			if err := n.count(l); err != nil {
				return n, fmt.Errorf("line %d: %w", at, err)
			}
			if err := visit(l); err != nil {
				return n, err
			}
		}
	}
	if err := lines.Err(); err != nil {
		return n, fmt.Errorf("line %d: %w", at+1, err)
	}
	return n, errors.New("the file has no end: it was cut off")
}

// count counts a line that is what it says.
func (n *DumpCounts) count(l line) error {
	one := l.Run
	switch {
	case l.Run != nil:
		n.Runs++
	case l.Former != nil:
		n.Formers++
		one = l.Former
	case l.Preset != nil:
		n.Presets++
		return nil
	default:
		return errors.New("neither a run, nor a former record, nor a preset")
	}
	if hashOf([]byte(one.Record)) != one.Hash {
		return fmt.Errorf("run %q: the record has another hash than was written with it", one.ID)
	}
	return nil
}

// Restore stores what a dump holds. What the store has stays: of two records of a run, the one that was stored
// later is current, and the other is kept as a former one; of two presets of a name, the newer one is kept.
func (s *Store) Restore(ctx context.Context, file string) (n DumpCounts, list []Outcome, err error) {
	if _, err := s.readFile(ctx, file, func(line) error { return nil }); err != nil { // before anything is stored
		return n, nil, err
	}
	var rows []*row
	flush := func() error {
		outcomes, err := s.put(ctx, rows, fromDump)
		list, rows = append(list, outcomes...), nil
		return err
	}
	n, err = s.readFile(ctx, file, func(l line) error {
		switch {
		case l.Preset != nil:
			return s.setPreset(ctx, *l.Preset, l.Preset.Changed.UnixMilli(), " WHERE presets.changed < excluded.changed")
		case l.Former != nil:
			if err := flush(); err != nil {
				return err
			}
			return s.restoreFormer(ctx, l.Former)
		}
		r, err := rowOf(l.Run)
		if err != nil {
			return err
		}
		if rows = append(rows, r); len(rows) < part {
			return nil
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	return n, list, err
}

func (s *Store) readFile(ctx context.Context, file string, visit func(line) error) (DumpCounts, error) {
	f, err := regular.OpenLarge(file)
	if err != nil {
		return DumpCounts{}, err
	}
	defer f.Close()
	n, err := readDump(ctx, f, visit)
	if err != nil {
		return n, fmt.Errorf("%s: %w", file, err)
	}
	return n, nil
}

// rowOf is a run of a dump as Put would store it.
func rowOf(d *dumpedRun) (*row, error) {
	old := &row{packed: zipped([]byte(d.Record)), besides: []byte(d.Besides)}
	if err := old.unpack(); err != nil {
		return nil, fmt.Errorf("run %q: %w", d.ID, err)
	}
	if why := unfit(&old.run); why != "" {
		return nil, fmt.Errorf("run %q: %s", d.ID, why)
	}
	old.run.Result.Redact()
	return newRow(&old.run, d.At)
}

func (s *Store) restoreFormer(ctx context.Context, d *dumpedRun) error {
	return s.change(ctx, func(c *change) error {
		return c.former(ctx, d.ID, d.Hash, d.At, zipped([]byte(d.Record)), []byte(d.Besides))
	})
}

// Prune is what is removed from a store.
type Prune struct {
	Formers *time.Time // former records that were replaced before
	Runs    *time.Time // runs that began before; those without a start stay
	Archive string     // a new file that gets a dump of these runs first
}

// Pruned is what was removed.
type Pruned struct {
	Formers int `json:"formers"`
	Runs    int `json:"runs"`
}

// Prune removes old records. Runs go once they are in an archive that was read back.
func (s *Store) Prune(ctx context.Context, p Prune) (n Pruned, err error) {
	if p.Runs != nil && p.Archive == "" {
		return n, errors.New("runs are not removed without an archive of them")
	}
	return n, s.change(ctx, func(c *change) error {
		if p.Formers != nil {
			done, err := c.tx.ExecContext(ctx, c.sql.bind("DELETE FROM former_records WHERE replaced < ?"),
				p.Formers.UnixMilli())
			if err != nil {
				return err
			}
			gone, err := done.RowsAffected()
			if err != nil {
				return err
			}
			n.Formers = int(gone)
		}
		if p.Runs == nil {
			return nil
		}
		var ids []string
		err := c.each(ctx, c.tx, func(r *sql.Rows) error {
			var id string
			err := r.Scan(&id)
			ids = append(ids, id)
			return err
		}, "SELECT id FROM benchmark_runs WHERE timestamp < ? ORDER BY seq", p.Runs.UnixMilli())
		if err != nil || len(ids) == 0 {
			return err
		}
		if _, err := s.dumpTo(ctx, c.tx, p.Archive, raw("b.timestamp < ?", p.Runs.UnixMilli()), false); err != nil {
			return err
		}
		n.Runs, err = c.delete(ctx, ids)
		return err
	})
}
