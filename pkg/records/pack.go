package records

import (
	"encoding/json"
	"fmt"
	"maps"

	"github.com/profllm/profllm/pkg/result"
)

// packed is a Run without its record.
type packed struct {
	Run
	Result   *result.Result    `json:",omitempty"` // always nil; hides that of Run
	Settings map[string]string // likewise, if Same
	Same     bool              `json:",omitempty"` // the settings are those of the record
	GPUs     int               `json:",omitempty"`
	Ordinal  []string          `json:",omitempty"`
}

// Pack puts a run into bytes: its record, as result.Encode writes it, and what is known
// besides. A run without a record has no bytes of one. Unpack gives the run back.
func (r *Run) Pack() (record, besides []byte, err error) {
	p := packed{Run: *r, Settings: r.Settings, GPUs: r.gpus, Ordinal: r.ordinal}
	if r.Result != nil {
		if record, err = result.Encode(r.Result); err != nil {
			return nil, nil, err
		}
		if s := r.Result.Config.Settings; len(s) > 0 && maps.Equal(s, r.Settings) {
			p.Settings, p.Same = nil, true
		}
	}
	besides, err = json.Marshal(&p)
	return record, besides, err
}

// Unpack is the run that Pack was called on.
func Unpack(record, besides []byte) (Run, error) {
	var p packed
	if err := json.Unmarshal(besides, &p); err != nil {
		return Run{}, fmt.Errorf("decode what is known of a record: %w", err)
	}
	r := p.Run
	r.gpus, r.ordinal, r.Settings, r.Result = p.GPUs, p.Ordinal, p.Settings, nil
	if len(record) == 0 {
		return r, nil
	}
	var err error
	if r.Result, err = result.Decode(record); err != nil {
		return Run{}, err
	}
	if p.Same {
		r.Settings = r.Result.Config.Settings
	}
	return r, nil
}
