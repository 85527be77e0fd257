package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Preset is a filter that somebody saved, and what a page keeps with it.
type Preset struct {
	Name    string          `json:"name"`
	Filter  json.RawMessage `json:"filter,omitempty"`
	View    json.RawMessage `json:"view,omitempty"`
	Changed time.Time       `json:"changed"`
}

// Presets lists the saved filters by name.
func (s *Store) Presets(ctx context.Context) ([]Preset, error) { return s.presets(ctx, s.read) }

func (s *Store) presets(ctx context.Context, q queryer) ([]Preset, error) {
	list := []Preset{}
	return list, s.each(ctx, q, func(r *sql.Rows) error {
		var filter, view string
		var at int64
		p := Preset{}
		if err := r.Scan(&p.Name, &filter, &view, &at); err != nil {
			return err
		}
		p.Filter, p.View, p.Changed = json.RawMessage(filter), json.RawMessage(view), time.UnixMilli(at).UTC()
		list = append(list, p)
		return nil
	}, "SELECT name, filter, view, changed FROM presets ORDER BY name")
}

// The limits of presets: all of them are read at once.
const (
	maxPresets    = 1000
	maxPresetName = 200      // bytes
	maxPreset     = 64 << 10 // bytes
	maxRestored   = 1 << 20  // bytes, of one of a backup
)

// ErrPreset is the error of a preset that the store does not take.
var ErrPreset = errors.New("the preset is not saved")

// SetPreset saves a filter, in place of one of the same name.
func (s *Store) SetPreset(ctx context.Context, p Preset) error {
	if n := len(p.Filter) + len(p.View); n > maxPreset {
		return fmt.Errorf("%w: filter and view of %q have %d bytes, and at most %d are kept", ErrPreset, p.Name, n, maxPreset)
	}
	return s.setPreset(ctx, p, s.now().UnixMilli(), "")
}

// setPreset saves a filter that was changed at a time, in place of one of the same name that meets a condition.
func (s *Store) setPreset(ctx context.Context, p Preset, at int64, where string) error {
	switch {
	case p.Name == "" || len(p.Name) > maxPresetName:
		return fmt.Errorf("%w: %.50q is no name for one: 1 to %d bytes", ErrPreset, p.Name, maxPresetName)
	case len(p.Filter)+len(p.View) > maxRestored:
		return fmt.Errorf("%w: %q has more than %d bytes", ErrPreset, p.Name, maxRestored)
	}
	return s.change(ctx, func(c *change) error {
		var n int
		err := c.tx.QueryRowContext(ctx, c.sql.bind("SELECT count(*) FROM presets WHERE name <> ?"),
			harmless(p.Name)).Scan(&n)
		if err != nil {
			return err
		}
		if n >= maxPresets {
			return fmt.Errorf("%w: there are %d, and at most %d are kept; delete one", ErrPreset, n, maxPresets)
		}
		return c.exec(ctx, `INSERT INTO presets (name, filter, view, changed) VALUES (?, ?, ?, ?)
			ON CONFLICT (name) DO UPDATE SET filter = excluded.filter, view = excluded.view, changed = excluded.changed`+where,
			harmless(p.Name), jsonOf(p.Filter), jsonOf(p.View), at)
	})
}

// DeletePreset forgets a filter. There need not be one of that name.
func (s *Store) DeletePreset(ctx context.Context, name string) error {
	return s.change(ctx, func(c *change) error {
		return c.exec(ctx, "DELETE FROM presets WHERE name = ?", harmless(name))
	})
}

func jsonOf(m json.RawMessage) string {
	if len(m) == 0 {
		return "null"
	}
	return harmless(string(m))
}
