package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Preset is a filter with a name, and how the page shows what it chooses.
type Preset struct {
	Name    string          `json:"name"`
	Filter  json.RawMessage `json:"filter"`
	View    json.RawMessage `json:"view,omitempty"`
	Changed time.Time       `json:"changed"`
}

// The limits of presets.
const (
	maxPresets    = 10_000
	maxPresetName = 200
	maxPreset     = 1 << 20 // bytes
)

// SavePreset keeps a preset in place of one of the same name.
func (s *Store) SavePreset(ctx context.Context, p Preset) error {
	switch {
	case p.Name == "" || len(p.Name) > maxPresetName || harmless(p.Name) != p.Name:
		return fmt.Errorf("%q is no name of a preset: 1 to %d bytes of UTF-8", p.Name, maxPresetName)
	case len(p.Filter)+len(p.View) > maxPreset:
		return fmt.Errorf("preset %q has more than %d bytes", p.Name, maxPreset)
	}
	return s.change(ctx, func(c *change) error {
		var n int
		err := c.tx.QueryRowContext(ctx, c.sql.bind("SELECT count(*) FROM presets WHERE name <> ?"), p.Name).Scan(&n)
		if err == nil && n >= maxPresets {
			err = fmt.Errorf("the store has %d presets, and no room for more", n)
		}
		if err != nil {
			return err
		}
		return c.exec(ctx, `INSERT INTO presets (name, filter, view, changed) VALUES (?, ?, ?, ?)
			ON CONFLICT (name) DO UPDATE SET filter = excluded.filter, view = excluded.view, changed = excluded.changed`,
			p.Name, harmless(string(p.Filter)), harmless(string(p.View)), s.now().UnixMilli())
	})
}

// Presets are all presets by their names.
func (s *Store) Presets(ctx context.Context) ([]Preset, error) {
	list := []Preset{}
	err := s.each(ctx, s.read, func(r *sql.Rows) error {
		var p Preset
		var filter, view string
		var at int64
		if err := r.Scan(&p.Name, &filter, &view, &at); err != nil {
			return err
		}
		p.Filter, p.View, p.Changed = json.RawMessage(filter), json.RawMessage(view), time.UnixMilli(at).UTC()
		list = append(list, p)
		return nil
	}, "SELECT name, filter, view, changed FROM presets ORDER BY name")
	return list, err
}

// DeletePreset removes a preset; its error is ErrNotFound if there is none of the name.
func (s *Store) DeletePreset(ctx context.Context, name string) error {
	return s.change(ctx, func(c *change) error {
		done, err := c.tx.ExecContext(ctx, c.sql.bind("DELETE FROM presets WHERE name = ?"), harmless(name))
		if err != nil {
			return err
		}
		if n, err := done.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, fmt.Errorf("preset %q: %w", name, ErrNotFound))
		}
		return nil
	})
}

// Job is the state of an upload, which outlives the program that answered it.
type Job struct {
	ID      string
	State   json.RawMessage
	Changed time.Time
}

// SaveJob keeps the state of an upload.
func (s *Store) SaveJob(ctx context.Context, id string, state []byte) error {
	return s.change(ctx, func(c *change) error {
		return c.exec(ctx, `INSERT INTO upload_jobs (id, state, changed) VALUES (?, ?, ?)
			ON CONFLICT (id) DO UPDATE SET state = excluded.state, changed = excluded.changed`, id, harmless(string(state)),
			s.now().UnixMilli())
	})
}

// Job is the state of an upload; its error is ErrNotFound if there is none of the id.
func (s *Store) Job(ctx context.Context, id string) (Job, error) {
	list, err := s.jobs(ctx, "WHERE id = ?", harmless(id))
	if err == nil && len(list) == 0 {
		err = fmt.Errorf("upload %q: %w", id, ErrNotFound)
	}
	if err != nil {
		return Job{}, err
	}
	return list[0], nil
}

// Jobs are the states of all uploads, the oldest first: a server that starts looks for those that
// the last one did not end.
func (s *Store) Jobs(ctx context.Context) ([]Job, error) { return s.jobs(ctx, "") }

func (s *Store) jobs(ctx context.Context, where string, args ...any) (list []Job, err error) {
	err = s.each(ctx, s.read, func(r *sql.Rows) error {
		var j Job
		var state string
		var at int64
		if err := r.Scan(&j.ID, &state, &at); err != nil {
			return err
		}
		j.State, j.Changed = json.RawMessage(state), time.UnixMilli(at).UTC()
		list = append(list, j)
		return nil
	}, "SELECT id, state, changed FROM upload_jobs "+where+" ORDER BY changed, id", args...)
	return list, err
}

// ForgetJobs removes the states of uploads that have not changed since a time.
func (s *Store) ForgetJobs(ctx context.Context, before time.Time) error {
	return s.change(ctx, func(c *change) error {
		return c.exec(ctx, "DELETE FROM upload_jobs WHERE changed < ?", before.UnixMilli())
	})
}
