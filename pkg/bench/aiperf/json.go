package aiperf

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/profllm/profllm/pkg/pyjson"
	"github.com/profllm/profllm/pkg/result"
)

// errNoSummary is a JSON document without any metric.
var errNoSummary = errors.New("no metric in the file")

// json reads the JSON summary: an object for each metric beside the configuration.
func (s *summary) json(data []byte) error {
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(data, &doc); err != nil {
		return err
	}
	for _, key := range pyjson.Twice(data) {
		s.warnings = append(s.warnings,
			result.Warning{Kind: result.Contradicts, File: s.file, Line: key.Line, Col: key.Col, Key: key.Str,
				Text: pyjson.TwiceMessage})
	}
	for _, key := range slices.Sorted(maps.Keys(doc)) {
		raw := doc[key]
		switch key {
		case "aiperf_version":
			s.decode(key, raw, &s.version)
		case "was_cancelled":
			s.decode(key, raw, &s.asked.cancelled)
		case "start_time":
			s.decode(key, raw, &s.began)
		case "end_time":
			s.decode(key, raw, &s.ended)
		case "simulated":
			s.simulated = result.Labelled(raw)
		case "error_summary":
			s.errors(raw)
		case "input_config":
			s.config(raw)
		case "schema_version", "benchmark_id", "telemetry_data", "run_info", "is_complete":
		default:
			s.metric(key, raw)
		}
	}
	if len(s.table) == 0 {
		return errNoSummary
	}
	return nil
}

func (s *summary) decode(key string, raw json.RawMessage, into any) {
	if err := json.Unmarshal(raw, into); err != nil {
		s.warn(result.BadValue, key, "%v", err)
	}
}

func (s *summary) metric(key string, raw json.RawMessage) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		if s.has(key) {
			s.warn(result.NoNumber, key, "not a metric: %.40s", raw)
		}
		return
	}
	r := row{stats: map[string]float64{}}
	for name, v := range fields {
		if name == "unit" {
			s.decode(key+".unit", v, &r.unit)
			continue
		}
		var x *float64
		if err := json.Unmarshal(v, &x); err != nil {
			if s.has(key) {
				s.warn(result.NoNumber, key+"."+name, "not a number: %.40s", v)
			}
			continue
		}
		if x != nil {
			r.stats[name] = *x
		}
	}
	if len(r.stats) > 0 {
		s.table[key] = r
	}
}

// errors counts the failed requests of the error summary.
func (s *summary) errors(raw json.RawMessage) {
	var list []struct {
		Count   float64 `json:"count"`
		Details struct {
			Type    string `json:"type"`
			Message string `json:"message"`
		} `json:"error_details"`
	}
	s.decode("error_summary", raw, &list)
	if list == nil {
		return
	}
	n := 0
	for _, e := range list {
		if !(e.Count >= 0 && e.Count < 1<<31) || e.Count != math.Trunc(e.Count) {
			s.warn(result.BadValue, "error_summary", "not a count: %v", e.Count)
			return
		}
		n += int(e.Count)
		s.warn("client-error", fmt.Sprintf("error_summary: %d requests", int(e.Count)), "%s: %.300s", e.Details.Type,
			e.Details.Message)
	}
	s.asked.errors = &n
}

// config reads what was asked: the phases of newer versions, the load generator of
// older ones.
func (s *summary) config(raw json.RawMessage) {
	var c struct {
		Endpoint struct {
			Type         string   `json:"type"`
			Models       []string `json:"model_names"`
			ServerCounts bool     `json:"use_server_token_count"`
		} `json:"endpoint"`
		Models struct {
			Items []struct {
				Name string `json:"name"`
			} `json:"items"`
		} `json:"models"`
		Phases []struct {
			Kind        string   `json:"kind"`
			Type        string   `json:"type"`
			Smoothness  *float64 `json:"smoothness"`
			Requests    *int     `json:"requests"`
			Concurrency *int     `json:"concurrency"`
			Rate        *float64 `json:"rate"`
		} `json:"phases"`
		Loadgen struct {
			Requests    *int     `json:"request_count"`
			Concurrency *int     `json:"concurrency"`
			Rate        *float64 `json:"request_rate"`
		} `json:"loadgen"`
	}
	s.decode("input_config", raw, &c)
	s.asked.serverCounts, s.endpoint = c.Endpoint.ServerCounts, c.Endpoint.Type
	s.asked.requests, s.asked.concurrency, s.asked.rate = c.Loadgen.Requests, c.Loadgen.Concurrency, c.Loadgen.Rate
	for _, p := range c.Phases {
		if p.Kind == "profiling" {
			s.asked.requests, s.asked.concurrency, s.asked.rate = p.Requests, p.Concurrency, p.Rate
			s.asked.burstiness = burstiness(p.Type, p.Smoothness)
		}
	}
	switch {
	case len(c.Models.Items) > 0:
		s.model = c.Models.Items[0].Name
	case len(c.Endpoint.Models) > 0:
		s.model = c.Endpoint.Models[0]
	}
}

// burstiness is that of the arrivals of a phase: AIPerf's smoothness is vLLM's
// burstiness (aiperf 0.13.0, config/phases.py). It is nil for arrivals without a rate.
func burstiness(phase string, smoothness *float64) *result.Rate {
	switch {
	case phase == "constant":
		return new(result.Rate(math.Inf(1)))
	case phase == "gamma" && smoothness != nil && *smoothness > 0:
		return new(result.Rate(*smoothness))
	case phase == "poisson":
		return new(result.Rate(1))
	}
	return nil
}
