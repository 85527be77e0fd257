package kube

import (
	"context"
	"io"
	"time"

	"github.com/profllm/profllm/pkg/capture"
	"github.com/profllm/profllm/pkg/lazyregexp"
)

// dated is the time of an answer among its headers, which kubectl prints from -v=8 on.
var dated = lazyregexp.New(`\bDate: (\w{3}, \d{2} \w{3} \d{4} \d{2}:\d{2}:\d{2} GMT)`)

// clockOffset is by how much the API server's clock, which stamps the objects, is ahead of this
// machine's. It is asked for once, and 0 if the server does not say.
func (k *Kube) clockOffset(ctx context.Context, at Place) time.Duration {
	k.mu.Lock()
	offset, known := k.offsets[at]
	k.mu.Unlock()
	if known {
		return offset
	}
	headers := capture.Output{Most: capture.Answer}
	if err := k.call(ctx, at, nil, io.Discard, &headers, "get", "--raw", "/version", "-v=8"); err != nil {
		return 0
	}
	if m := dated.FindSubmatch(headers.Bytes()); m != nil {
		if then, err := time.Parse(time.RFC1123, string(m[1])); err == nil {
			offset = then.Sub(k.now()).Round(time.Second)
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.offsets[at] = offset
	return offset
}
