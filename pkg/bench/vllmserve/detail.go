package vllmserve

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/profllm/profllm/pkg/pyjson"
	"github.com/profllm/profllm/pkg/result"
)

// list reads the per-request lists of a detailed result.
func (r *reader) list(f field) bool {
	s := r.part.Samples
	if s == nil {
		s = &result.Samples{}
	}
	var err error
	switch f.key {
	case "ttfts":
		s.TTFT, err = floats(f.open())
	case "latencies":
		s.Latency, err = floats(f.open())
	case "start_times":
		s.Start, err = floats(f.open())
	case "itls":
		s.ITL, err = nested(f.open())
	case "input_lens":
		s.InputLen, err = integers(f.raw)
	case "output_lens":
		s.OutputLen, err = integers(f.raw)
	case "errors":
		s.Errors, err = messages(f.raw)
	case "spec_decode_per_position_acceptance_rates":
		r.m.PerPosition, err = floats(f.open())
		if err != nil {
			r.warn(result.NoNumber, f, err.Error())
		}
		return true
	default:
		return false
	}
	switch {
	case errors.Is(err, errNotFinite):
		r.warn(result.NotFinite, f, err.Error())
	case err != nil:
		r.warn(result.NoNumber, f, err.Error())
	}
	r.part.Samples = s
	return true
}

// errNotFinite is a NaN or an infinity among measured values.
var errNotFinite = errors.New("not a finite number")

// floats reads a list of numbers. A bad element makes the whole list
// unusable, since requests are matched by index.
func floats(in *pyjson.Reader) ([]float64, error) {
	out := []float64{}
	is, err := elements(in, func() error {
		item, err := in.Raw()
		if err != nil {
			return err
		}
		v, err := number(item)
		if err != nil {
			return fmt.Errorf("element %d: %w", len(out), err)
		}
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("element %d is %v: %w", len(out), v, errNotFinite)
		}
		out = append(out, v)
		return nil
	})
	if !is || err != nil {
		return nil, err
	}
	return out, nil
}

func nested(in *pyjson.Reader) ([][]float64, error) {
	out := [][]float64{}
	is, err := elements(in, func() error {
		list, err := floats(in)
		if err != nil {
			return fmt.Errorf("element %d: %w", len(out), err)
		}
		out = append(out, list)
		return nil
	})
	if !is || err != nil {
		return nil, err
	}
	return out, nil
}

// elements visits what a list holds. is is false for null.
func elements(in *pyjson.Reader, visit func() error) (is bool, err error) {
	if in.Kind() == pyjson.List {
		return true, in.List(visit)
	}
	raw, err := in.Raw()
	if err == nil && !isNull(raw) {
		err = fmt.Errorf("not a list: %.40s", raw)
	}
	return false, err
}

func integers(raw []byte) ([]int, error) {
	var out []int
	if err := json.Unmarshal(raw, &out); err != nil {
		return nil, fmt.Errorf("not a list of whole numbers: %w", err)
	}
	return out, nil
}

// messages reads the list of errors; a null in it is no error.
func messages(raw []byte) ([]string, error) {
	var items []*string
	if err := json.Unmarshal(raw, &items); err != nil {
		return nil, fmt.Errorf("not a list of strings: %w", err)
	}
	if items == nil {
		return nil, nil
	}
	out := make([]string, len(items))
	for i, item := range items {
		if item != nil {
			out[i] = *item
		}
	}
	return out, nil
}
