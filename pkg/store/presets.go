package store

import (
	"context"
	"database/sql"
	"encoding/json"
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

// The limits of presets.
const (
	maxPresets    = 10_000
	maxPresetName = 200     // bytes
	maxPreset     = 1 << 20 // bytes
)

// SetPreset saves a filter, in place of one of the same name.
func (s *Store) SetPreset(ctx context.Context, p Preset) error {
	return s.setPreset(ctx, p, s.now().UnixMilli(), "")
}

// setPreset saves a filter that was changed at a time, in place of one of the same name that meets a condition.
func (s *Store) setPreset(ctx context.Context, p Preset, at int64, where string) error {
	switch {
	case p.Name == "" || len(p.Name) > maxPresetName:
		return fmt.Errorf("%q is no name of a preset: 1 to %d bytes", p.Name, maxPresetName)
	case len(p.Filter)+len(p.View) > maxPreset:
		return fmt.Errorf("preset %q has more than %d bytes", p.Name, maxPreset)
	}
	return s.change(ctx, func(c *change) error {
		var n int
		err := c.tx.QueryRowContext(ctx, c.sql.bind("SELECT count(*) FROM presets WHERE name <> ?"),
			harmless(p.Name)).Scan(&n)
		if err != nil {
			return err
		}
		if n >= maxPresets {
			return fmt.Errorf("the store has %d presets, and no room for more", n)
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
