package sender

import (
	"fmt"
	"strconv"

	"github.com/profllm/profllm/pkg/load/answer"
)

// requestHead returns the head of a request in that form, up to the headers that differ between
// requests.
func requestHead(t *Target, form string) []byte {
	accept := "text/event-stream"
	if t.Form == answer.Document {
		accept = "application/json"
	}
	head := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: %s\r\nAccept: %s\r\n", form, t.URL.Host, accept)
	for name, values := range t.Header {
		for _, v := range values {
			head = fmt.Appendf(head, "%s: %s\r\n", name, v)
		}
	}
	return head
}

// request appends request i to dst: the head that all share, its own headers, its body.
func (l *Load) request(dst, head, body []byte, i int) []byte {
	dst = append(dst, head...)
	if id := l.Requests.ID(i); id != "" {
		dst = append(append(append(dst, "X-Request-Id: "...), id...), "\r\n"...)
	}
	dst = strconv.AppendInt(append(dst, "Content-Length: "...), int64(len(body)), 10)
	return append(append(dst, "\r\n\r\n"...), body...)
}
