package main

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/profllm/profllm/pkg/filter"
	"github.com/profllm/profllm/pkg/pyjson"
	"github.com/profllm/profllm/pkg/quantity"
	"github.com/profllm/profllm/pkg/records"
	"github.com/profllm/profllm/pkg/regular"
)

// filterFlag chooses runs as the dashboard does.
type filterFlag struct {
	Filter string `meant:"where,only,select" placeholder:"JSON" help:"Read only the runs that meet this filter, in the language of the dashboard, such as {\"field\": \"gpu\", \"in\": [\"H100\"]}; @FILE reads it from FILE."`
}

// choose keeps the runs that meet the filter; it is an error if none does.
func (c filterFlag) choose(runs []records.Run) ([]records.Run, error) {
	if c.Filter == "" {
		return runs, nil
	}
	data := []byte(c.Filter)
	if file, ok := strings.CutPrefix(c.Filter, "@"); ok {
		var err error
		if data, err = regular.ReadFile(file); err != nil {
			return nil, fail(exitUsage, err)
		}
		data = bytes.TrimPrefix(data, []byte(pyjson.Mark))
	}
	f, err := filter.Parse(data)
	if err != nil {
		return nil, fail(exitUsage, err)
	}
	chosen := f.Choose(runs)
	if len(chosen) == 0 {
		return nil, fail(exitUsage, fmt.Errorf("none of %s meets the filter", quantity.Count(len(runs), "run")))
	}
	return chosen, nil
}
