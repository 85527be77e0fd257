package collect

import (
	"strings"

	"github.com/profllm/profllm/pkg/promtext"
	"github.com/profllm/profllm/pkg/result"
)

// proxy reads what profllm's own proxy counted, see its metrics page.
func proxy(d *change, others bool) *result.Proxy {
	p := &result.Proxy{Statuses: map[string]int64{}, Reset: d.Reset(), Others: others}
	const overhead = "profllm_proxy_overhead_seconds"
	if n, ok := d.Sum(overhead + "_count"); ok && n > 0 && !d.Reset() {
		seconds, _ := d.Sum(overhead + "_sum")
		p.OverheadMS = new(1000 * seconds / n)
	}
	for _, s := range d.Samples() {
		n := int64(s.Value)
		switch name, _ := strings.CutPrefix(s.Name, "profllm_proxy_"); name {
		case "requests_total":
			if s.Label("method") == "POST" && n > 0 {
				p.Requests += n
				p.Statuses[s.Label("status")] += n
			}
		case "broken_streams_total":
			p.Broken += n
		case "bad_answers_total":
			p.BadAnswers += n
		case "without_kv_total":
			p.WithoutKV += n
		case "backend_failures_total":
			if n > 0 {
				b := proxyBackend(p, s)
				b.Failures[s.Label("reason")] += n
			}
		case "backend_resends_total":
			if n > 0 {
				proxyBackend(p, s).Resent += n
				p.Resent += n
			}
		}
	}
	return p
}

// proxyBackend finds the instance that a sample is of.
func proxyBackend(p *result.Proxy, s promtext.Sample) *result.ProxyBackend {
	role, url := s.Label("role"), s.Label("backend")
	for i := range p.Backends {
		if b := &p.Backends[i]; b.Role == role && b.URL == url {
			return b
		}
	}
	p.Backends = append(p.Backends, result.ProxyBackend{Role: role, URL: url, Failures: map[string]int64{}})
	return &p.Backends[len(p.Backends)-1]
}
